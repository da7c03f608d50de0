/*
 * Is all there that a client staged as the next version, and can Lance read it? Whoever prepared it wrote the files before; but what no version names yet is
 * left over for a cleanup that looks meanwhile, and a version without its files is worse than none. Nor did all writes succeed: Lance up to 14 at least loses the
 * error of the last one to a data file. And the manifest is anybody's: what its transaction says of it is not believed.
 */
#ifndef PF_WHOLE_H
#define PF_WHOLE_H

#include "manifest.h"

/*
 * Read `staged`, the successor `name` of `base` in the branch directory `dir`: it has the shape that Lance decodes (shape.h), and the files that it names and
 * base does not are there, with all the bytes that it tells of. Fragments and index entries that base has are not looked at again, nor what lies on other bases.
 *   -ENOENT   a file is missing, or shorter: the sentence says which, and what to do
 *   -EBADMSG  damaged
 *   -ESTALE   one of the two manifests is gone or was replaced
 *   others    of storage
 */
int pf_manifest_whole(struct pf_store *st, const char *dir, const struct pf_manifest *base,
		      const struct pf_manifest *staged, const char *name, struct pf_why *why);

#endif
