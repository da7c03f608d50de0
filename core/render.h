/*
 * Records as JSON text, one key a line, two blanks of indent, a newline at the end: what the mount's files, `pinctl show` and `--json` print, so
 * that they cannot disagree. Numbers above 2^63-1 are printed as strings of digits. The only user of jansson's encoder.
 *
 * Every function that returns json_t * gives a new reference, or NULL without memory. What is unknown or does not exist is null; text of others
 * that is not UTF-8 is escaped as pf_text_escape does.
 */
#ifndef PF_RENDER_H
#define PF_RENDER_H

#include <jansson.h>

#include "branch.h"
#include "check.h"
#include "commit.h"
#include "doctor.h"
#include "lost.h"
#include "txn.h"

json_t *pf_json_u64(uint64_t v);
json_t *pf_json_time(struct pf_time t);
json_t *pf_json_str(const char *s); /* NULL becomes null */

/* Set a member of *o and take v over. Out of memory (v or *o NULL included) makes *o NULL, so that only the last of a row needs a look. */
void pf_json_put(json_t **o, const char *key, json_t *v);

/* The same with a list: append v. */
void pf_json_push(json_t **list, json_t *v);

/* Append the text of `j`, ended by a newline. Takes no reference. -ENOMEM, also for NULL. */
int pf_json_text(const json_t *j, struct pf_buf *out);

/* The same on one line and without the newline: an element of a list. */
int pf_json_line(const json_t *j, struct pf_buf *out);

/* {"id","source_version","source_transaction_uuid","created_at","expires_at","label"} */
json_t *pf_json_pin(const struct pf_pin *p);

/*
 * design: section 5, `head`: {"version","transaction","timestamp","branch","branch_id","flags","fragments","rows","pins"}. flags is
 * {"reader": {BIT: NAME ...}, "writer": {...}}, pins their number; transaction is null if the head names none or its file is gone, branch_id on
 * main, rows if a fragment does not say. Errors of pf_txn_read (a damaged transaction too), pf_branch_id and pf_manifest_count.
 */
int pf_json_head(struct pf_branch *b, const struct pf_manifest *m, json_t **out, struct pf_why *why);

/* What `pinctl status` is made of. */
struct pf_status {
	const struct pf_manifest *head;
	const struct pf_txn *txn; /* NULL: none, or not readable */
	uint64_t fragments, rows; /* of pf_manifest_count */
	const char *branch_id;	  /* "" on main */
	bool enabled;		  /* writer bit 19 */
	size_t overdue;
	struct pf_time soonest;		 /* expiry; with pins only */
	uint64_t oldest;		 /* source of the window, with pins only */
	uint64_t span, versions;	 /* of the window: versions it should have, and those that are there */
	const struct pf_lost_list *lost; /* NULL: not known */
	bool blocked_known;
	const char *blocked; /* why destructive work is refused, NULL if it is not; or why that is not known */
};

/*
 * The members of pf_json_head, and "table","operation","pin_operation","message","writer","pins_enabled","overdue","soonest_expiry",
 * "window": {"oldest_source","head","versions","missing"}, "lost": those of pf_json_lost, or null, "lost_since": how far was looked for them,
 * "blocked": why destructive work is refused, or null; "blocked_unknown": why that is not known, or null.
 */
json_t *pf_json_status(struct pf_branch *b, const struct pf_status *s);

/* The members of pf_json_pin, times null if they are not known, and "version","writer": who dropped it. */
json_t *pf_json_lost(const struct pf_lost *l);

/* {"version","timestamp","transaction","operation","pin_operation","message","writer"}; t NULL: none, or not readable. */
json_t *pf_json_snapshot(const struct pf_manifest *m, const struct pf_txn *t);

/*
 * What a version did to a pin: the members of pf_json_snapshot, and "change","id","pin","previous_expires_at": the last for a renewal.
 * `change` and `pin` NULL: it did nothing to any. "pin" is null if only its id is known. `before` as pf_change_fn.
 */
json_t *pf_json_change(const struct pf_step *s, const char *change, const struct pf_pin *pin,
		       const struct pf_pin *before);

/* {"name","head","pins","parent","parent_version","created_at","id"}; ref NULL: main. head NULL: it cannot be read. */
json_t *pf_json_branch(const struct pf_branch_ref *ref, const struct pf_manifest *head);

/* {"name","branch","version","manifest_size","created_at","updated_at","metadata"} */
json_t *pf_json_tag(const struct pf_tag *t);

/* {"severity","branch","version","file","text"} */
json_t *pf_json_finding(const struct pf_finding *f);
json_t *pf_json_totals(const struct pf_check_totals *t);

/* {"check","branch","verdict","text","command","details"} */
json_t *pf_json_diagnosis(const struct pf_diagnosis *d);

/* {"request","id","expires_at","label","source_version","source_transaction_uuid","branch","branch_id"}: the line and its parts. */
json_t *pf_json_request(const struct pf_request *q);

/* {"committed","version","message","pin"}: the answer to an operation that succeeded. pin is null if there was none. */
json_t *pf_json_answer(const struct pf_answer *a);

/* {"held","version","branch","branch_id","reason","pin"}; branch NULL: main. */
json_t *pf_json_confirmation(const struct pf_confirmation *c, const char *branch, const struct pf_why *why);

int pf_render_pin(const struct pf_pin *p, struct pf_buf *out);
int pf_render_head(struct pf_branch *b, const struct pf_manifest *m, struct pf_buf *out, struct pf_why *why);

/* A record's text longer than this is none of ours: a label of 255 bytes, each escaped, and the fixed members fit many times. */
#define PF_RENEWAL_MAX 8192

/*
 * What somebody wrote to pins/<id>: a time, or the record's own text with another expires_at (editors). Trailing newlines are stripped, nothing else.
 * `pin` is the record as it stands: a record's text has all its keys and no other, and all but expires_at must say what it says.
 *   -EINVAL  neither; the sentence says what was expected
 */
int pf_renewal_parse(const char *s, size_t len, struct pf_time now, const struct pf_pin *pin, struct pf_time *out,
		     struct pf_why *why);

#endif
