#include "whole.h"

#include <inttypes.h>
#include <string.h>

#include "lance.pb-c.h"
#include "reference.h"
#include "text.h"

struct looking {
	struct pf_store *st;
	const char *dir;
	struct pf_buf path; /* room for names of references, */
	struct pf_buf name; /* and for those in the store */
	struct pf_why *why;
};

static void looking_release(struct looking *l)
{
	pf_buf_release(&l->path);
	pf_buf_release(&l->name);
}

static int missing(const struct looking *l, int err)
{
	const char *name = (const char *)l->name.data;
	char quoted[PF_QUOTE_TEXT];

	pf_text_quote(name, strlen(name), quoted);
	if (err == -ENOENT || err == -ENOTDIR)
		return pf_why_set(
			l->why, -ENOENT,
			"its file %s is gone: a cleanup took it for left over, and the work is to be done again",
			quoted);
	return pf_why_set(l->why, err, "cannot look at %s: %s", quoted, strerror(-err));
}

static int too_short(const struct looking *l, uint64_t size, uint64_t expected)
{
	const char *name = (const char *)l->name.data;
	char quoted[PF_QUOTE_TEXT];

	return pf_why_set(l->why, -ENOENT,
			  "its file %s has %" PRIu64 " of %" PRIu64
			  " bytes: some were never written, or removed since, and "
			  "the work is to be done again",
			  pf_text_quote(name, strlen(name), quoted), size, expected);
}

static int add_size(void *arg, const char *name, enum pf_entry_kind kind, const struct pf_stat *st)
{
	uint64_t *sum = arg;

	*sum += st->size;
	return 0;
}

static int see(void *arg, const struct pf_reference *ref)
{
	struct looking *l = arg;
	uint64_t size = 0;
	struct pf_stat st;

	if (ref->has_base || ref->optional)
		return 0;
	pf_buf_reset(&l->name);
	int r = pf_buf_addf(&l->name, "%s%s", l->dir, ref->path);
	if (r < 0 || !pf_buf_str(&l->name))
		return -ENOMEM;
	if (ref->cls == PF_FILE_INDEX) {
		r = pf_store_scan(l->st, (char *)l->name.data, add_size, &size);
	} else {
		r = pf_store_stat(l->st, (char *)l->name.data, &st);
		size = r < 0 ? 0 : st.size;
	}
	return r < 0 ? missing(l, r) : size < ref->size ? too_short(l, size, ref->size) : 0;
}

/* Of a DataFragment message. */
static int look_at(struct looking *l, struct pf_span message)
{
	struct pf_field f = { .type = PF_WIRE_LEN, .len = message.n };
	struct pf_mem_reader mem;
	struct pf_wire w;

	pf_mem_reader_init(&mem, message.p, message.n);
	pf_wire_init(&w, &mem.base, 0, message.n);
	int r = pf_fragment_references(&w, &f, &l->path, see, l, l->why);
	pf_wire_release(&w);
	return r;
}

static int look_at_all(struct looking *l, const struct pf_fragments *v)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < v->n; i++)
		r = look_at(l, v->v[i].message);
	return r;
}

/* As of a fragment that has nothing but this file. */
static int look_at_file(struct looking *l, const struct pf_data_file *file)
{
	_cleanup_(pf_buf_release) struct pf_buf fragment = PF_BUF_INIT;

	int r = pf_wire_put_bytes(&fragment, LANCE__DATA_FRAGMENT__FIELD__FILES, file->message.p, file->message.n);
	return r < 0 ? r : look_at(l, PF_SPAN_OF(&fragment));
}

static int look_at_swap(struct looking *l, const struct pf_index_swap *swap)
{
	char name[] = "";
	struct pf_index index = { .name = name };
	struct pf_indices one = { &index, 1 };

	memcpy(index.uuid, swap->to, sizeof(index.uuid));
	return pf_index_references(&one, see, l);
}

int pf_operation_whole(struct pf_store *st, const char *dir, const struct pf_operation *o, struct pf_why *why)
{
	_cleanup_(looking_release) struct looking l = { .st = st, .dir = dir, .why = why };

	int r = look_at_all(&l, &o->added);
	if (r == 0)
		r = look_at_all(&l, &o->updated);
	for (size_t i = 0; r == 0 && i < o->n_groups; i++)
		r = look_at_all(&l, &o->groups[i].to);
	for (size_t i = 0; r == 0 && i < o->n_replacements; i++)
		r = look_at_file(&l, &o->replacements[i].file);
	if (r == 0)
		r = pf_index_references(&o->new_indices, see, &l);
	for (size_t i = 0; r == 0 && i < o->n_swaps; i++)
		r = look_at_swap(&l, &o->swaps[i]);
	return r;
}
