/* What the files that make up explain.h share among themselves. */
#ifndef PF_EXPLAIN_PARTS_H
#define PF_EXPLAIN_PARTS_H

#include "explain.h"

void pf_explained_fri_free(struct pf_explained_fri *x);

/*
 * Append what `path` below survey->bases[base] is called. It is a file:// URI if the base is a local directory other than the table's root.
 */
int pf_explain_name_at(const struct pf_explain *e, uint32_t base, const char *path, struct pf_buf *out);

#endif
