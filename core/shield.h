/*
 * What must not be removed or changed while pins are held, asked file by file: the gateway's question (gateway/ in fs), where cleanup plans for a
 * whole table. A file is shielded if a pin's window on any line refers to it, or a version of another line than the one it lies in. So is all that the
 * heads refer to, pins or not: a pin begins on a head, at any moment and by any process, and finds whole what was shielded before it came. Tables on which pins
 * were never enabled have no shield.
 *
 * Made after pf_lines_refresh, and of no use after the next one. Looked up by name: what a question costs does not depend on the size of the table.
 */
#ifndef PF_SHIELD_H
#define PF_SHIELD_H

#include "lines.h"

struct pf_shield;

/* Borrows l. 0 or -ENOMEM. */
int pf_shield_new(const struct pf_lines *l, struct pf_shield **out);
void pf_shield_free(struct pf_shield *s);
void pf_shield_freep(struct pf_shield **s);

/*
 * May `path`, a name in the store, be removed or changed? 0, and *known: a version of some line refers to it, or it lies in no
 * line's folders, or pins were never enabled. Or
 *   -EBUSY  it is shielded: *why names a pin or a branch; or what pins need cannot be told, since something in a window cannot be read: then nothing is
 *           free, whatever *known says
 *   -ENOMEM
 */
int pf_shield_check(const struct pf_shield *s, const char *path, bool *known, struct pf_why *why);

#endif
