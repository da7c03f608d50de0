/*
 * Records as JSON text, one key a line, two blanks of indent, a newline at the end: what the mount's files, `pinctl show` and `--json` print, so
 * that they cannot disagree. Numbers above 2^63-1 are printed as strings of digits. The only user of jansson's encoder.
 */
#ifndef PF_RENDER_H
#define PF_RENDER_H

#include <jansson.h>

#include "branch.h"
#include "commit.h"
#include "txn.h"

/* {"id","source_version","source_transaction_uuid","created_at","expires_at","label"} */
json_t *pf_json_pin(const struct pf_pin *p);

/* design: section 5, `head`: {"version","transaction","timestamp","branch","branch_id","flags","fragments","rows","pins"} */
int pf_json_head(struct pf_branch *b, const struct pf_manifest *m, json_t **out, struct pf_why *why);

json_t *pf_json_u64(uint64_t v);
json_t *pf_json_time(struct pf_time t);

/* Append the text of `j`, ended by a newline. Takes no reference. */
int pf_json_text(const json_t *j, struct pf_buf *out);

int pf_render_pin(const struct pf_pin *p, struct pf_buf *out);
int pf_render_head(struct pf_branch *b, const struct pf_manifest *m, struct pf_buf *out, struct pf_why *why);

/*
 * What somebody wrote to pins/<id>: a time, or the record's own text with a later expires_at (editors). Trailing newlines are stripped, nothing else.
 * `pin` is the record as it stands: in a record's text every other key must say what it says.
 *   -EINVAL  neither; the sentence says what was expected
 */
int pf_renewal_parse(const char *s, size_t len, struct pf_time now, const struct pf_pin *pin, struct pf_time *out,
		     struct pf_why *why);

#endif
