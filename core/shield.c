#include "shield.h"

#include <string.h>

#include "cleanup_parts.h"
#include "flags.h"
#include "survey_parts.h"

/* One line and what its own pins keep. */
struct guard {
	const struct pf_line *line;
	const char *dir;
	struct pf_retention *kept; /* NULL: it cannot be surveyed */
};

struct pf_shield {
	struct guard *v;
	size_t n;
	bool enabled;
	char *unknown; /* what keeps it from being told; NULL if nothing does */
};

void pf_shield_free(struct pf_shield *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < s->n; i++)
		pf_retention_free(s->v[i].kept);
	free(s->v);
	free(s->unknown);
	free(s);
}

void pf_shield_freep(struct pf_shield **s)
{
	pf_shield_free(*s);
}

static int set_unknown(struct pf_shield *s, const char *text)
{
	if (s->unknown)
		return 0;
	s->unknown = strdup(text);
	return s->unknown ? 0 : -ENOMEM;
}

static int add_line(struct pf_shield *s, const struct pf_line *line)
{
	struct guard *g = &s->v[s->n];
	struct pf_why why = PF_WHY_INIT;

	*g = (struct guard){ .line = line };
	s->n++;
	if (!line->survey || !line->survey->head) {
		/* Its pins are not known, nor whether they were ever enabled. */
		s->enabled = true;
		return set_unknown(s, line->unknown ? line->unknown : "a branch cannot be read");
	}
	const struct pf_retention_input in = { .survey = line->survey, .now = pf_time_now() };
	g->dir = pf_survey_dir(line->survey);
	s->enabled |= line->survey->head->writer_flags & PF_FLAG_PINS;
	int r = pf_retention_new(&in, &g->kept);
	if (r < 0)
		return r;
	r = line->survey->pins.n ? pf_retention_verify(g->kept, &why) : 0;
	return r == -EBUSY ? set_unknown(s, why.text) : r;
}

int pf_shield_new(const struct pf_lines *l, struct pf_shield **out)
{
	_cleanup_(pf_shield_freep) struct pf_shield *s = calloc(1, sizeof(*s));

	if (!s || !(s->v = calloc(l->n ? l->n : 1, sizeof(*s->v))))
		return -ENOMEM;
	for (size_t i = 0; i < l->n; i++) {
		int r = add_line(s, &l->v[i]);
		if (r < 0)
			return r;
	}
	*out = STEAL(s);
	return 0;
}

struct first {
	struct pf_buf text;
};

static int see_reason(void *arg, const struct pf_named_reason *reason)
{
	struct first *f = arg;
	int r = reason->kind == PF_KEPT_PIN || reason->kind == PF_KEPT_HEAD ? pf_reason_text(reason, &f->text) : 0;
	return r < 0 ? r : f->text.len > 0;
}

/* Does the line keep file `i` of its survey? */
static int check_file(const struct guard *g, const char *path, size_t i, struct pf_why *why)
{
	const struct pf_surveyed_file *file = &g->line->survey->files[i];
	const char *branch = g->line->name ? g->line->name : "main";
	unsigned bits = pf_retention_file(g->kept, i);

	if (file->own) {
		if (!(bits & (PF_KEPT_PIN | PF_KEPT_HEAD)))
			return 0;
		struct first f = { PF_BUF_INIT };
		int r = pf_retention_file_each(g->kept, i, see_reason, &f);
		const char *text = r < 0 ? NULL : pf_buf_str(&f.text);
		if (text)
			pf_why_set(why, 0, "branch %s needs %s: %s; `pinctl why` names all that keep it", branch, path,
				   text);
		pf_buf_release(&f.text);
		return text ? -EBUSY : -ENOMEM;
	}
	if (file->n_iv == 0)
		return 0;
	return pf_why_set(why, -EBUSY, "versions of branch %s refer to %s", branch, path);
}

/* Of `path` as a file that may lie in the line `of`. */
static int check_as(const struct pf_shield *s, const struct guard *of, const char *path, bool *known,
		    struct pf_why *why)
{
	for (size_t i = 0; i < s->n; i++) {
		const struct guard *g = &s->v[i];
		if (!g->kept)
			continue;
		int64_t file = pf_clean_known(&g->line->survey->state->set, path, of->dir);
		if (file < 0 && file != -ENOENT)
			return (int)file;
		*known |= file >= 0;
		int r = file < 0 ? 0 : check_file(g, path, (size_t)file, why);
		if (r < 0)
			return r;
	}
	return 0;
}

int pf_shield_check(const struct pf_shield *s, const char *path, bool *known, struct pf_why *why)
{
	/* Of a branch without a ref nobody commits anything. */
	bool in_line = strncmp(path, "tree/", 5) != 0;

	*known = !s->enabled;
	if (!s->enabled)
		return 0;
	/* Whose folder it is in is not decided here (place.h): any that it may be in is asked for. */
	for (size_t i = 0; i < s->n; i++) {
		const struct guard *g = &s->v[i];
		if (!g->kept || strncmp(path, g->dir, strlen(g->dir)) != 0)
			continue;
		in_line |= g->dir[0] != '\0';
		int r = check_as(s, g, path, known, why);
		if (r < 0)
			return r;
	}
	*known |= !in_line;
	if (s->unknown)
		return pf_why_set(why, -EBUSY, "what pins need cannot be told, so nothing is removed: %s", s->unknown);
	return 0;
}
