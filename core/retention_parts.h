/* What the files that make up retention.h share among themselves. */
#ifndef PF_RETENTION_PARTS_H
#define PF_RETENTION_PARTS_H

#include "retention.h"

struct pf_retention {
	struct pf_retention_input in;
	const struct pf_pin **pins; /* that count, by source, ascending */
	size_t n_pins;
	const struct pf_tag **tags; /* that count */
	size_t n_tags;
	uint8_t *versions, *files; /* bits of enum pf_reason */
};

/* How many of the pins have a source at or below v: a prefix of them. */
size_t pf_retention_pins_upto(const struct pf_retention *r, uint64_t v);

/* The newest version that refers to a file; it has an interval. */
uint64_t pf_retention_newest(const struct pf_retention *r, const struct pf_surveyed_file *f);

/* Something refers to it: else it is only remembered. */
bool pf_retention_counts(const struct pf_retention *r, size_t file);

#endif
