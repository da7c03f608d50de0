/*
 * retention/ as text: what the mount's files hold and what pinctl prints with --json, from one function each (design: section 5). Rules of render.h: the
 * json_t * functions give a new reference or NULL without memory.
 */
#ifndef PF_RENDER_RETENTION_H
#define PF_RENDER_RETENTION_H

#include "explain.h"
#include "render.h"

/*
 * `summary`: {"branch","head","head_transaction","oldest_source","pins","expired","versions","files","bytes","elsewhere","usage","blocked"}. versions, files
 * and bytes are {"kept","free"}; elsewhere {"files","bytes"} of bases and of other branches' directories, kept; usage a list of pf_json_usage; blocked
 * the sentence of pf_explain_blocked or null.
 */
int pf_json_retention(struct pf_explain *e, json_t **out, struct pf_why *why);

/*
 * {"id","label","source_version","created_at","expires_at","versions","exclusive_bytes","shared_bytes","old_bytes","age_seconds","bytes_per_hour"}. The last
 * is old_bytes by age: how fast what only windows hold has grown since; null at an age of less than a second.
 */
json_t *pf_json_usage(const struct pf_explain *e, const struct pf_pin_usage *u);

/* How fast, as above; false if it is not known. */
bool pf_usage_rate(const struct pf_explain *e, const struct pf_pin_usage *u, uint64_t *bytes_per_hour);

/*
 * `snapshots/<version>`: {"version","head","manifest","manifest_bytes","transaction","operation","pin_operation","timestamp","readable","reasons"}: of
 * survey->versions[i] by `r`; reasons is a list of words (pf_reason_text), empty if it is not kept.
 */
json_t *pf_json_kept_version(const struct pf_explain *e, const struct pf_retention *r, size_t i);

/*
 * `fri/<record>`: {"record","head","kind","stamp","groups","needed_by"}. kind is "version" (stamped) or "transition" (stamp null); a group is
 * {"from","to","mapping","map","map_bytes"}, a fragment {"fragment","physical_rows","deleted_rows"}; needed_by is {"pins","indices","unknown"}: a pin is
 * {"id","source_version","ambiguous","path"} with the path a list of {"fragment","record"}, indices are names; unknown is null, or says why it cannot be
 * told who needs it. Errors of pf_explain_fri; -ENOENT: no such record.
 */
int pf_json_fri_record(struct pf_explain *e, size_t record, json_t **out, struct pf_why *why);

/* {"branch","version","file","text","pins"}: of pf_retention_problems; branch NULL: main. */
json_t *pf_json_problem(const char *branch, const struct pf_problem *p);

/* The same as text, for the mount. */
int pf_render_retention(struct pf_explain *e, struct pf_buf *out, struct pf_why *why);
int pf_render_kept_version(const struct pf_explain *e, size_t i, struct pf_buf *out);
int pf_render_fri_record(struct pf_explain *e, size_t record, struct pf_buf *out, struct pf_why *why);

/* `files`: "bytes TAB reasons TAB name" a line; a file that is kept is in it once. Sums are those of the summary. */
int pf_render_files(const struct pf_explain *e, struct pf_buf *out, struct pf_why *why);

/* `expired`, of the head's list: the id of each whose time has passed, a line each. The head alone says it: this takes no account. */
int pf_render_expired(const struct pf_pins *pins, struct pf_time now, struct pf_buf *out);

#endif
