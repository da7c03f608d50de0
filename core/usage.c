#include <string.h>

#include "retention_parts.h"

/*
 * Bytes of files that exactly the first k + 1 pins hold, by k: all that something else holds too, and the part that the head does without. And those that
 * only the first pin holds, and nothing else.
 */
struct held {
	uint64_t *by_last, *old_by_last;
	uint64_t alone;
};

static void held_release(struct held *h)
{
	free(h->by_last);
	free(h->old_by_last);
}

static void sum_files(const struct pf_retention *r, struct held *h)
{
	const struct pf_survey *s = r->in.survey;

	for (size_t i = 0; i < s->n_files; i++) {
		const struct pf_surveyed_file *f = &s->files[i];
		if (!f->own || !(r->files[i] & PF_KEPT_PIN))
			continue;
		/* Windows nest: of those that hold it, all but the one with the oldest source share it with that one. */
		size_t n = pf_retention_pins_upto(r, pf_retention_newest(r, f));
		if (n == 1 && r->files[i] == PF_KEPT_PIN)
			h->alone += f->size;
		else
			h->by_last[n - 1] += f->size;
		if (!(r->files[i] & PF_KEPT_HEAD))
			h->old_by_last[n - 1] += f->size;
	}
}

int pf_retention_usage(const struct pf_retention *r, struct pf_pin_usage *out, size_t *n)
{
	const struct pf_survey *s = r->in.survey;
	size_t done = 0, room = r->n_pins ? r->n_pins : 1;
	_cleanup_(held_release) struct held h = { .by_last = calloc(room, sizeof(*h.by_last)),
						  .old_by_last = calloc(room, sizeof(*h.old_by_last)) };

	if (!h.by_last || !h.old_by_last)
		return -ENOMEM;
	sum_files(r, &h);
	/* From "up to this one" to "this one": whoever has a newer source holds less. */
	for (size_t k = r->n_pins; k > 1; k--) {
		h.by_last[k - 2] += h.by_last[k - 1];
		h.old_by_last[k - 2] += h.old_by_last[k - 1];
	}
	for (size_t i = 0; i < s->pins.n; i++) {
		size_t k = 0;
		while (k < r->n_pins && r->pins[k] != &s->pins.v[i])
			k++;
		if (k == r->n_pins)
			continue;
		out[done++] = (struct pf_pin_usage){
			.pin = r->pins[k],
			.exclusive_bytes = k == 0 ? h.alone : 0,
			.shared_bytes = h.by_last[k],
			.old_bytes = h.old_by_last[k],
			.versions = s->n_versions - pf_survey_below(s, r->pins[k]->source_version),
		};
	}
	*n = done;
	return 0;
}
