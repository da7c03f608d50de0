/*
 * Lance's JSON of fragments, as its Python writes it (lance-14 section 3): FragmentMetadata.to_json, and the members of a RewriteResult. Becomes the
 * message that a transaction has.
 */
#ifndef PF_FRAGMENT_JSON_H
#define PF_FRAGMENT_JSON_H

#include <jansson.h>

#include "fragment.h"

/*
 * Parse JSON text of Lance's. Numbers of 64 bits, which jansson does not take, come as strings of digits. -EINVAL: not JSON. *out is the caller's
 * reference.
 */
int pf_lance_json(const char *text, size_t len, json_t **out, struct pf_why *why);

/*
 * Append the DataFragment message of one object. Members that are not known are refused: what they say would be lost.
 *   -EINVAL  not a fragment; the sentence names the member
 */
int pf_fragment_from_json(const json_t *o, struct pf_buf *out, struct pf_why *why);

/*
 * Append an Append transaction of the fragments in `text`, one object or an array of them, prepared on read_version. Its uuid follows from the
 * fragments, so that a command that was ended and is run again does not append them a second time; see pf_landed_find.
 *   -EINVAL  not JSON, or not fragments
 */
int pf_append_from_json(const char *text, size_t len, uint64_t read_version, struct pf_buf *out, struct pf_why *why);

#endif
