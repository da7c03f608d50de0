/*
 * Work that was committed on a copy of a table, told in the numbers of the table: ids of fragments and of rows, and versions, that the copy gave since it
 * was made are others in the table, if that went on meanwhile. Numbers from before are the same in both. Pure.
 */
#ifndef PF_RENUMBER_H
#define PF_RENUMBER_H

#include "operation.h"

/* [from, from + n) of the copy is [to, to + n) of the table. Ascending on both sides. */
struct pf_shift {
	uint64_t from, to, n;
};
struct pf_shifts {
	uint64_t first; /* of the copy's own; below it nothing changes */
	struct pf_shift *v;
	size_t n, cap;
};

/* The next n numbers of the copy, and what they are in the table. */
int pf_shifts_add(struct pf_shifts *s, uint64_t from, uint64_t to, uint64_t n);
/* All but the last of them. */
void pf_shifts_take_back(struct pf_shifts *s);
void pf_shifts_release(struct pf_shifts *s);

/* 0, or -ENOENT: the copy never gave this number. */
int pf_shifts_find(const struct pf_shifts *s, uint64_t number, uint64_t *out);

/* Is any number another one? */
bool pf_shifts_move(const struct pf_shifts *s);

struct pf_renumber {
	struct pf_shifts fragments, rows, versions;
	/* Versions of the table, ascending, that moved rows which others had written. An index built before one of them must not look as if it were newer. */
	struct pf_numbers moves;
	bool stable; /* rows have stable ids */
	/* Remapped indices of the copy, whose files do not fit, and those that are there in the table instead, which follow by the history of moved rows. */
	struct pf_alias {
		char theirs[PF_UUID_TEXT], ours[PF_UUID_TEXT];
	} * aliases;
	size_t n_aliases;
};
void pf_renumber_release(struct pf_renumber *r);

/* Does what a Rewrite remapped not fit the table any more? Its indices are then left as they are, and o is to be told by pf_renumber_remember once it landed. */
bool pf_renumber_drops(const struct pf_renumber *r, const struct pf_operation *o);
int pf_renumber_remember(struct pf_renumber *r, const struct pf_operation *o);

/*
 * Append the Transaction message of o, prepared on `read_version`. A fragment that says 0 as its id has none yet.
 *   -EINVAL      it says a number that the copy never gave
 *   -EOPNOTSUPP  row ids or versions that are others now stand in a data file, where they cannot be changed
 *   -EBADMSG     damaged
 */
int pf_renumber_operation(const struct pf_renumber *r, const struct pf_operation *o, uint64_t read_version,
			  struct pf_buf *out, struct pf_why *why);

/* Append the treemap of rows in the ids of the table. */
int pf_renumber_rows(const struct pf_renumber *r, struct pf_span rows, struct pf_buf *out, struct pf_why *why);

/*
 * The files of an index that o makes say which rows they mean in numbers of the copy. 0, or -EOPNOTSUPP if some of those are others in the table: the
 * sentence says what to do.
 */
int pf_renumber_check_indices(const struct pf_renumber *r, const struct pf_operation *o, struct pf_why *why);

#endif
