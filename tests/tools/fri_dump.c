/*
 * What core makes of the fragment reuse index of the newest version of a table or branch, for tests that ask Lance the same.
 *
 *   fri_dump TABLE [BRANCH] < ADDRESSES
 *
 * The history and the index entries, as JSON; and the addresses on stdin, one a line, followed through it (null: gone).
 *
 * Exit: 0; 1 and the sentence on stderr.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/fri_branch.h"
#include "core/render.h"

static void put_digests(json_t *o, const char *key, const struct pf_digest *v, size_t n)
{
	json_t *list = json_array();

	for (size_t i = 0; i < n; i++) {
		json_t *digest = json_object();

		pf_json_put(&digest, "id", pf_json_u64(v[i].id));
		pf_json_put(&digest, "physical_rows", pf_json_u64(v[i].physical_rows));
		pf_json_put(&digest, "deleted_rows", pf_json_u64(v[i].deleted_rows));
		json_array_append_new(list, digest);
	}
	pf_json_put(&o, key, list);
}

static json_t *dump_group(const struct pf_fri_group *g)
{
	static const char *const names[] = { "v0", "ordered", "partition", "unknown" };
	json_t *o = json_object();

	pf_json_put(&o, "mapping", json_string(names[g->mapping]));
	put_digests(o, "from", g->from, g->n_from);
	put_digests(o, "to", g->to, g->n_to);
	if (g->mapping == PF_MAPPING_PARTITION)
		pf_json_put(&o, "map_id", json_string(g->map_id));
	return o;
}

static json_t *dump_history(const struct pf_fri *f)
{
	json_t *o = json_object(), *records = json_array();

	for (size_t i = 0; i < f->n_records; i++) {
		json_t *record = json_object(), *groups = json_array();

		pf_json_put(&record, "stamp", f->records[i].legacy ? pf_json_u64(f->records[i].stamp) : json_null());
		for (size_t k = 0; k < f->records[i].n_groups; k++)
			json_array_append_new(groups, dump_group(&f->records[i].groups[k]));
		pf_json_put(&record, "groups", groups);
		json_array_append_new(records, record);
	}
	pf_json_put(&o, "uuid", json_string(f->uuid));
	pf_json_put(&o, "index_version", json_integer(f->index_version));
	pf_json_put(&o, "dataset_version", pf_json_u64(f->dataset_version));
	pf_json_put(&o, "external", json_boolean(f->external));
	pf_json_put(&o, "unsupported", pf_json_str(f->unsupported_why));
	pf_json_put(&o, "records", records);
	return o;
}

static int add_fragment(void *list, uint32_t v)
{
	return json_array_append_new(list, json_integer(v));
}

static int dump_index(const struct pf_index *x, json_t **out, struct pf_why *why)
{
	_cleanup_(pf_bitmap_freep) struct pf_bitmap *b = NULL;

	if (x->has_bitmap) {
		int r = pf_bitmap_decode(x->bitmap.data, x->bitmap.len, &b, why);
		if (r < 0)
			return r;
	}
	json_t *o = json_object(), *fragments = b ? json_array() : json_null();
	if (b)
		pf_bitmap_each(b, add_fragment, fragments);
	pf_json_put(&o, "name", pf_json_str(x->name));
	pf_json_put(&o, "uuid", json_string(x->uuid));
	pf_json_put(&o, "dataset_version", pf_json_u64(x->dataset_version));
	pf_json_put(&o, "index_version", json_integer(x->index_version));
	pf_json_put(&o, "type", pf_json_str(x->details_type));
	pf_json_put(&o, "fragments", fragments);
	*out = o;
	return 0;
}

static int dump_translated(const struct pf_fri *f, json_t **out, struct pf_why *why)
{
	_cleanup_(pf_freep) uint64_t *addrs = NULL;
	size_t n = 0, cap = 0;

	for (uint64_t addr; scanf("%" SCNu64, &addr) == 1;) {
		if (n == cap) {
			cap = cap ? 2 * cap : 1024;
			uint64_t *more = reallocarray(addrs, cap, sizeof(*addrs));
			if (!more)
				return -ENOMEM;
			addrs = more;
		}
		addrs[n++] = addr;
	}
	/* A history that cannot be followed can still be shown. */
	int r = n > 0 ? pf_fri_translate(f, addrs, n, why) : 0;
	if (r < 0)
		return r;
	*out = json_array();
	for (size_t i = 0; i < n; i++)
		json_array_append_new(*out, addrs[i] == PF_ROW_GONE ? json_null() : pf_json_u64(addrs[i]));
	return 0;
}

static int dump(const char *path, const char *name, json_t **out, struct pf_why *why)
{
	_cleanup_(pf_store_freep) struct pf_store *st = NULL;
	_cleanup_(pf_branch_freep) struct pf_branch *branch = NULL;
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *m = NULL;
	_cleanup_(pf_indices_release) struct pf_indices list = { 0 };
	_cleanup_(pf_fri_release) struct pf_fri f = { 0 };
	_cleanup_(json_decrefp) json_t *o = json_object();
	json_t *indices = json_array(), *part;

	pf_json_put(&o, "indices", indices);
	int r = pf_store_local_open(path, &st, why);
	if (r == 0)
		r = pf_branch_open(st, name, &branch, why);
	if (r == 0)
		r = pf_branch_head(branch, &m, why);
	if (r == 0)
		r = pf_indices_read(st, m, &list, why);
	for (size_t i = 0; r == 0 && i < list.n; i++) {
		r = dump_index(&list.v[i], &part, why);
		if (r == 0)
			json_array_append_new(indices, part);
	}
	if (r < 0)
		return r;
	pf_json_put(&o, "version", pf_json_u64(m->version));
	r = pf_fri_read_branch(branch, m, &f, why);
	if (r == -ENODATA) {
		*out = STEAL(o);
		return 0;
	}
	if (r < 0)
		return r;
	pf_json_put(&o, "history", dump_history(&f));
	r = dump_translated(&f, &part, why);
	if (r < 0)
		return r;
	pf_json_put(&o, "translated", part);
	*out = STEAL(o);
	return 0;
}

int main(int argc, char **argv)
{
	_cleanup_(pf_buf_release) struct pf_buf text = PF_BUF_INIT;
	struct pf_why why = PF_WHY_INIT;
	json_t *o = NULL;

	if (argc != 2 && argc != 3) {
		fprintf(stderr, "usage: fri_dump TABLE [BRANCH]\n");
		return 2;
	}
	int r = dump(argv[1], argv[2], &o, &why);
	if (r < 0) {
		fprintf(stderr, "fri_dump: %s (%d)\n", why.text, r);
		return 1;
	}
	r = pf_json_text(o, &text);
	json_decref(o);
	if (r < 0)
		return 1;
	printf("%s", pf_buf_str(&text));
	return 0;
}
