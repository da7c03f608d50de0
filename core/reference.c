#include "reference.h"

#include <inttypes.h>
#include <string.h>

#include "lance.pb-c.h"

/* Longer than any file system takes. */
#define PATH_MAX_BYTES 4096

static const char *const class_names[PF_FILE_CLASSES] = {
	[PF_FILE_MANIFEST] = "manifest", [PF_FILE_TRANSACTION] = "transaction",
	[PF_FILE_DATA] = "data",	 [PF_FILE_DELETION] = "deletion",
	[PF_FILE_INDEX] = "index",	 [PF_FILE_MAP] = "map",
	[PF_FILE_BLOB] = "blob",	 [PF_FILE_ROW_IDS] = "row-ids",
};

const char *pf_file_class_name(enum pf_file_class c)
{
	return class_names[c];
}

struct deletion {
	bool present, has_base;
	uint32_t base_id;
	uint64_t type, read_version, id;
};

struct walk {
	struct pf_wire *w;
	struct pf_buf *path; /* of the reference being told */
	pf_reference_fn fn;
	void *arg;
};

static int take_base(const struct pf_field *f, bool *has_base, uint32_t *id, struct pf_why *why)
{
	uint64_t v;
	int r = pf_wire_u64(f, &v, why);

	if (r < 0)
		return r;
	if (v > UINT32_MAX)
		return pf_why_set(why, -EBADMSG, "offset %" PRIu64 ": expected a base id of 32 bits, found %" PRIu64,
				  f->start, v);
	*has_base = true;
	*id = (uint32_t)v;
	return 0;
}

/* Is there a component of `path` that leads elsewhere than down? */
static bool leaves(const char *path)
{
	for (const char *p = path;; p++) {
		size_t n = strcspn(p, "/");
		if (n == 0 || (n == 1 && p[0] == '.') || (n == 2 && p[0] == '.' && p[1] == '.'))
			return true;
		p += n;
		if (!*p)
			return false;
	}
}

/* The payload of `f` below `folder` ("data/", ""), in k->path. */
static int take_path(struct walk *k, const char *folder, const struct pf_field *f, struct pf_why *why)
{
	char quoted[PF_QUOTE_TEXT];

	pf_buf_reset(k->path);
	int r = pf_buf_addstr(k->path, folder);
	size_t at = k->path->len;
	if (r == 0)
		r = pf_wire_take(k->w, f, PATH_MAX_BYTES, k->path, why);
	if (r < 0)
		return r;
	const char *path = pf_buf_str(k->path);
	if (!path)
		return -ENOMEM;
	size_t len = k->path->len - at;
	if (memchr(path + at, '\0', len) || !pf_utf8_valid(path + at, len) || leaves(path + at))
		return pf_why_set(why, -EBADMSG, "offset %" PRIu64 ": expected the path of a file, found %s", f->start,
				  pf_text_quote(path + at, len, quoted));
	return 0;
}

/* Lance takes the path of a data file as one name: `/` in it is spelled %2F on disk. */
static int escape_slashes(struct pf_buf *path, size_t at)
{
	_cleanup_(pf_freep) char *name = NULL;

	if (!memchr(path->data + at, '/', path->len - at))
		return 0;
	name = strndup((const char *)path->data + at, path->len - at);
	if (!name)
		return -ENOMEM;
	path->len = at;
	int r = 0;
	for (const char *p = name; r == 0 && *p; p++)
		r = *p == '/' ? pf_buf_addstr(path, "%2F") : pf_buf_addch(path, *p);
	return r;
}

static int tell(struct walk *k, const struct pf_reference *ref)
{
	struct pf_reference r = *ref;

	r.path = pf_buf_str(k->path);
	return r.path ? k->fn(k->arg, &r) : -ENOMEM;
}

static int data_file(struct walk *k, const struct pf_field *file, struct pf_why *why)
{
	struct pf_reference ref = { .cls = PF_FILE_DATA };
	uint64_t major = 0;
	bool named = false;
	struct pf_field f;
	int r = pf_wire_expect(file, PF_WIRE_LEN, why);

	if (r < 0)
		return r;
	uint64_t end = pf_wire_enter(k->w, file);
	while ((r = pf_wire_next(k->w, &f, why)) > 0) {
		if (f.number == LANCE__DATA_FILE__FIELD__PATH) {
			r = take_path(k, "data/", &f, why);
			if (r == 0)
				r = escape_slashes(k->path, strlen("data/"));
			named = true;
		} else if (f.number == LANCE__DATA_FILE__FIELD__FILE_MAJOR_VERSION) {
			r = pf_wire_u64(&f, &major, why);
		} else if (f.number == LANCE__DATA_FILE__FIELD__FILE_SIZE_BYTES) {
			r = pf_wire_u64(&f, &ref.size, why);
		} else if (f.number == LANCE__DATA_FILE__FIELD__BASE_ID) {
			r = take_base(&f, &ref.has_base, &ref.base_id, why);
		}
		if (r < 0)
			return r;
	}
	pf_wire_leave(k->w, end);
	if (r < 0)
		return r;
	if (!named)
		return pf_why_set(why, -EBADMSG, "offset %" PRIu64 ": expected a data file to have a path",
				  file->start);
	/* Lance 0.39 says of legacy files how long some part of them is. */
	if (major == 0)
		ref.size = 0;
	return tell(k, &ref);
}

static int overlay(struct walk *k, const struct pf_field *field, struct pf_why *why)
{
	struct pf_field f;
	int r = pf_wire_expect(field, PF_WIRE_LEN, why);

	if (r < 0)
		return r;
	uint64_t end = pf_wire_enter(k->w, field);
	while ((r = pf_wire_next(k->w, &f, why)) > 0) {
		r = f.number == LANCE__DATA_OVERLAY_FILE__FIELD__DATA_FILE ? data_file(k, &f, why) : 0;
		if (r != 0)
			return r;
	}
	pf_wire_leave(k->w, end);
	return r;
}

static int external_file(struct walk *k, const struct pf_field *field, struct pf_why *why)
{
	const struct pf_reference ref = { .cls = PF_FILE_ROW_IDS };
	bool named = false;
	struct pf_field f;
	int r = pf_wire_expect(field, PF_WIRE_LEN, why);

	if (r < 0)
		return r;
	uint64_t end = pf_wire_enter(k->w, field);
	while ((r = pf_wire_next(k->w, &f, why)) > 0) {
		if (f.number != LANCE__EXTERNAL_FILE__FIELD__PATH)
			continue;
		r = take_path(k, "", &f, why);
		if (r < 0)
			return r;
		named = true;
	}
	pf_wire_leave(k->w, end);
	if (r < 0)
		return r;
	if (!named)
		return pf_why_set(why, -EBADMSG, "offset %" PRIu64 ": expected an external file to have a path",
				  field->start);
	return tell(k, &ref);
}

static int take_deletion(struct walk *k, const struct pf_field *field, struct deletion *out, struct pf_why *why)
{
	struct deletion d = { .present = true };
	struct pf_field f;
	int r = pf_wire_expect(field, PF_WIRE_LEN, why);

	if (r < 0)
		return r;
	uint64_t end = pf_wire_enter(k->w, field);
	while ((r = pf_wire_next(k->w, &f, why)) > 0) {
		switch (f.number) {
		case LANCE__DELETION_FILE__FIELD__FILE_TYPE:
			r = pf_wire_u64(&f, &d.type, why);
			break;
		case LANCE__DELETION_FILE__FIELD__READ_VERSION:
			r = pf_wire_u64(&f, &d.read_version, why);
			break;
		case LANCE__DELETION_FILE__FIELD__ID:
			r = pf_wire_u64(&f, &d.id, why);
			break;
		case LANCE__DELETION_FILE__FIELD__BASE_ID:
			r = take_base(&f, &d.has_base, &d.base_id, why);
			break;
		default:
			break;
		}
		if (r < 0)
			return r;
	}
	pf_wire_leave(k->w, end);
	if (r < 0)
		return r;
	if (d.type != LANCE__DELETION_FILE__TYPE__ARROW_ARRAY && d.type != LANCE__DELETION_FILE__TYPE__BITMAP)
		return pf_why_set(why, -EBADMSG,
				  "offset %" PRIu64 ": expected a deletion file of type 0 or 1, found %" PRIu64,
				  field->start, d.type);
	*out = d;
	return 0;
}

int pf_deletion_file_name(uint64_t fragment, uint64_t read_version, uint64_t id, uint64_t type, struct pf_buf *out)
{
	return pf_buf_addf(out, "_deletions/%" PRIu64 "-%" PRIu64 "-%" PRIu64 ".%s", fragment, read_version, id,
			   type == LANCE__DELETION_FILE__TYPE__BITMAP ? "bin" : "arrow");
}

/* Its name has the fragment's id, so it is told when the fragment was seen whole. */
static int tell_deletion(struct walk *k, uint64_t fragment, const struct deletion *d)
{
	const struct pf_reference ref = { .cls = PF_FILE_DELETION, .has_base = d->has_base, .base_id = d->base_id };

	pf_buf_reset(k->path);
	int r = pf_deletion_file_name(fragment, d->read_version, d->id, d->type, k->path);
	return r < 0 ? r : tell(k, &ref);
}

static int take_fragment(struct walk *k, const struct pf_field *fragment, struct pf_why *why)
{
	struct deletion d = { .present = false };
	uint64_t id = 0;
	struct pf_field f;
	int r = pf_wire_expect(fragment, PF_WIRE_LEN, why);

	if (r < 0)
		return r;
	uint64_t end = pf_wire_enter(k->w, fragment);
	while ((r = pf_wire_next(k->w, &f, why)) > 0) {
		switch (f.number) {
		case LANCE__DATA_FRAGMENT__FIELD__ID:
			r = pf_wire_u64(&f, &id, why);
			break;
		case LANCE__DATA_FRAGMENT__FIELD__FILES:
			r = data_file(k, &f, why);
			break;
		case LANCE__DATA_FRAGMENT__FIELD__DELETION_FILE:
			r = take_deletion(k, &f, &d, why);
			break;
		case LANCE__DATA_FRAGMENT__FIELD__EXTERNAL_ROW_IDS:
		case LANCE__DATA_FRAGMENT__FIELD__EXTERNAL_LAST_UPDATED_AT_VERSIONS:
		case LANCE__DATA_FRAGMENT__FIELD__EXTERNAL_CREATED_AT_VERSIONS:
			r = external_file(k, &f, why);
			break;
		case LANCE__DATA_FRAGMENT__FIELD__OVERLAYS:
			r = overlay(k, &f, why);
			break;
		default:
			r = 0;
			break;
		}
		if (r != 0)
			return r;
	}
	pf_wire_leave(k->w, end);
	if (r == 0 && d.present)
		r = tell_deletion(k, id, &d);
	return r;
}

int pf_fragment_references(struct pf_wire *w, const struct pf_field *f, struct pf_buf *path, pf_reference_fn fn,
			   void *arg, struct pf_why *why)
{
	struct walk k = { .w = w, .path = path, .fn = fn, .arg = arg };

	return take_fragment(&k, f, why);
}

static int tell_directory(struct walk *k, const char *folder, const char *name, const struct pf_reference *ref)
{
	pf_buf_reset(k->path);
	int r = pf_buf_addf(k->path, "%s/%s", folder, name);
	return r < 0 ? r : tell(k, ref);
}

int pf_index_references(const struct pf_indices *l, pf_reference_fn fn, void *arg)
{
	_cleanup_(pf_buf_release) struct pf_buf path = PF_BUF_INIT;
	struct walk k = { .path = &path, .fn = fn, .arg = arg };
	int r = 0;

	for (size_t i = 0; r == 0 && i < l->n; i++) {
		const struct pf_index *x = &l->v[i];
		const struct pf_reference ref = { .cls = PF_FILE_INDEX,
						  .has_base = x->has_base,
						  .base_id = x->base_id,
						  .optional = pf_index_is_system(x),
						  .size = x->files_size };
		r = tell_directory(&k, "_indices", x->uuid, &ref);
	}
	return r;
}

int pf_fri_references(const struct pf_fri *fri, pf_reference_fn fn, void *arg)
{
	_cleanup_(pf_buf_release) struct pf_buf path = PF_BUF_INIT;
	struct walk k = { .path = &path, .fn = fn, .arg = arg };
	const struct pf_reference entry = { .cls = PF_FILE_INDEX, .has_base = fri->has_base, .base_id = fri->base_id };
	int r = fri->external ? tell_directory(&k, "_indices", fri->uuid, &entry) : 0;

	for (size_t i = 0; r == 0 && i < fri->n_groups; i++) {
		const struct pf_fri_group *g = &fri->groups[i];
		const struct pf_reference map = {
			.cls = PF_FILE_MAP, .has_base = g->has_base, .base_id = g->base_id, .size = g->map_size
		};
		if (g->mapping == PF_MAPPING_PARTITION)
			r = tell_directory(&k, "_fri", g->map_id, &map);
	}
	return r;
}
