/* Between operation.c and operation_config.c. */
#ifndef PF_OPERATION_PARTS_H
#define PF_OPERATION_PARTS_H

#include "operation.h"

typedef int (*pf_member_fn)(void *arg, const struct pf_member *m, struct pf_why *why);

/* Call fn for each member of the message; a negative return ends it. */
int pf_operation_walk(struct pf_span message, pf_member_fn fn, void *arg, struct pf_why *why);

/* The array with room for one more, which is zeroed and counted; NULL without memory. */
void *pf_operation_grow(void *v, size_t *n, size_t size);

/* Add the entry of a map field. */
int pf_map_add(struct pf_map_edit *e, const struct pf_member *m, struct pf_why *why);
int pf_operation_add_base(struct pf_operation *o, const struct pf_member *m, struct pf_why *why);

/* A member of UpdateConfig; arg is the operation. */
int pf_operation_take_config(void *arg, const struct pf_member *m, struct pf_why *why);

#endif
