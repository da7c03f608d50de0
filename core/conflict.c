#include "conflict.h"

#include <inttypes.h>

#include "key_filter.h"
#include "lance.pb-c.h"

#define OPERATIONS 16

/*
 * Rows: ours; columns: theirs; both from 100, Append, to 115, DataOverlay. `.` allowed, `R` retryable, `X` incompatible; letters stand for functions
 * below. A row without text is an operation that is not committed here.
 */
static const char matrix[OPERATIONS][OPERATIONS + 1] = {
	/*                        Ap De Ov CI Rw Me Rs RF Up Pr UC DR MW Cl UB DO */
	[0] /* Append */ = "..X...X.....X...",
	[1] /* Delete */ = ".fX.fRX.f..fX...",
	[2] /* Overwrite */ = "..o.......o.X...",
	[3] /* CreateIndex */ = "..Xiw.X....gX...",
	[4] /* Rewrite */ = ".fXcrRX.f..f...f",
	[5] /* Merge */ = "RRX.RRX.RX.RX..R",
	[6] /* Restore */ = "............X...",
	[7] /* ReserveFragments */ = "..X...X.........",
	[8] /* Update */ = "kfX.fRX.uq.f...v",
	[9] /* Project */ = "..X..RX..R..X...",
	[10] /* UpdateConfig */ = "..a.......u.....",
	[11] /* DataReplacement */ = ".dXgfRX.eh.sX...",
	[12] /* UpdateMemWalState */ = "",
	[13] /* Clone */ = "",
	[14] /* UpdateBases */ = "..............b.",
	[15] /* DataOverlay */ = "",
};

struct pair {
	const struct pf_operation *ours, *theirs;
	const struct pf_conflict_view *view;
	struct pf_why *why;
};

/* The fragments that an operation changes or removes. */
static int touched(const struct pf_operation *o, struct pf_numbers *out)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < o->updated.n; i++)
		r = pf_numbers_add(out, o->updated.v[i].id);
	for (size_t i = 0; r == 0 && i < o->removed.n; i++)
		r = pf_numbers_add(out, o->removed.v[i]);
	for (size_t g = 0; r == 0 && g < o->n_groups; g++)
		for (size_t i = 0; r == 0 && i < o->groups[g].from.n; i++)
			r = pf_numbers_add(out, o->groups[g].from.v[i].id);
	for (size_t i = 0; r == 0 && i < o->n_replacements; i++)
		r = pf_numbers_add(out, o->replacements[i].fragment);
	for (size_t i = 0; r == 0 && i < o->overlaid.n; i++)
		r = pf_numbers_add(out, o->overlaid.v[i]);
	return r;
}

static int cmp_u64(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/* f: of one fragment, which rows are affected is not known. */
static int share_fragments(const struct pair *p)
{
	_cleanup_(pf_numbers_release) struct pf_numbers ours = { 0 }, theirs = { 0 };
	int r = touched(p->ours, &ours);

	if (r == 0)
		r = touched(p->theirs, &theirs);
	if (r < 0 || ours.n == 0 || theirs.n == 0)
		return r;
	qsort(theirs.v, theirs.n, sizeof(*theirs.v), cmp_u64);
	for (size_t i = 0; i < ours.n; i++)
		if (bsearch(&ours.v[i], theirs.v, theirs.n, sizeof(*theirs.v), cmp_u64))
			return PF_RETRYABLE;
	return PF_ALLOWED;
}

/* r: a tagged record that was to consume what is consumed can never be written. */
static int share_sources(const struct pair *p)
{
	int r = share_fragments(p);

	return r == PF_RETRYABLE && p->view->records && p->view->tagged ? PF_INCOMPATIBLE : r;
}

static const struct pf_map_entry *entry_of(const struct pf_map_edit *e, struct pf_span key)
{
	for (size_t i = 0; i < e->n; i++)
		if (pf_span_eq(e->v[i].key, key))
			return &e->v[i];
	return NULL;
}

/* Does one set a key that the other names? Two removals do not hurt each other; keys that only a replacement drops are not named. */
static bool share_keys(const struct pf_map_edit *a, const struct pf_map_edit *b)
{
	for (size_t i = 0; i < a->n; i++) {
		const struct pf_map_entry *e = entry_of(b, a->v[i].key);
		if (e && (e->has_value || a->v[i].has_value))
			return true;
	}
	return false;
}

/* o: whoever overwrites may want to look at the other's table first. */
static int overwrite(const struct pair *p)
{
	if (share_keys(&p->ours->config, &p->theirs->config))
		return PF_INCOMPATIBLE;
	return p->theirs->number == LANCE__TRANSACTION__OPERATION__OVERWRITE ? PF_RETRYABLE : PF_ALLOWED;
}

/* a: settings over a table that is another one now. */
static int config_over_overwrite(const struct pair *p)
{
	if (p->ours->schema_edit.there || p->ours->n_field_edits || share_keys(&p->ours->config, &p->theirs->config))
		return PF_INCOMPATIBLE;
	return PF_ALLOWED;
}

static bool share_map(const struct pf_map_edit *a, const struct pf_map_edit *b)
{
	if (!a->there || !b->there)
		return false;
	if (a->replace || b->replace)
		return true;
	for (size_t i = 0; i < a->n; i++)
		if (entry_of(b, a->v[i].key))
			return true;
	return false;
}

/* u */
static int config_over_config(const struct pair *p)
{
	const struct pf_operation *a = p->ours, *b = p->theirs;

	if (share_keys(&a->config, &b->config) || share_map(&a->table_metadata, &b->table_metadata) ||
	    (a->schema_edit.there && b->schema_edit.there))
		return PF_INCOMPATIBLE;
	for (size_t i = 0; i < a->n_field_edits; i++)
		for (size_t k = 0; k < b->n_field_edits; k++)
			if (a->field_edits[i].field == b->field_edits[k].field)
				return PF_INCOMPATIBLE;
	return PF_ALLOWED;
}

static bool named(const struct pf_indices *l, const char *name)
{
	for (size_t i = 0; i < l->n; i++)
		if (strcmp(l->v[i].name, name) == 0)
			return true;
	return false;
}

static bool has_uuid(const struct pf_indices *l, const char *uuid)
{
	for (size_t i = 0; i < l->n; i++)
		if (strcmp(l->v[i].uuid, uuid) == 0)
			return true;
	return false;
}

/* Does `adds` extend an index by a segment without replacing one, while the other removes segments of it? */
static bool extends_removed(const struct pf_operation *adds, const struct pf_operation *removes)
{
	for (size_t i = 0; i < adds->new_indices.n; i++) {
		const char *name = adds->new_indices.v[i].name;
		if (!named(&adds->removed_indices, name) && named(&removes->removed_indices, name))
			return true;
	}
	return false;
}

/* i */
static int index_over_index(const struct pair *p)
{
	const struct pf_operation *a = p->ours, *b = p->theirs;

	for (size_t i = 0; i < a->new_indices.n; i++)
		if (named(&b->new_indices, a->new_indices.v[i].name))
			return PF_RETRYABLE;
	if (extends_removed(a, b) || extends_removed(b, a))
		return PF_RETRYABLE;
	for (size_t i = 0; i < a->removed_indices.n; i++) {
		const struct pf_index *x = &a->removed_indices.v[i];
		for (size_t k = 0; k < b->removed_indices.n; k++) {
			const struct pf_index *y = &b->removed_indices.v[k];
			if (strcmp(x->uuid, y->uuid) == 0 &&
			    (named(&a->new_indices, x->name) || named(&a->new_indices, y->name) ||
			     named(&b->new_indices, x->name) || named(&b->new_indices, y->name)))
				return PF_RETRYABLE;
		}
	}
	return PF_ALLOWED;
}

static int bitmap_of(const struct pf_index *x, struct pf_bitmap **out, struct pf_why *why)
{
	*out = NULL;
	return x->has_bitmap ? pf_bitmap_decode(x->bitmap.data, x->bitmap.len, out, why) : 0;
}

/* How many of the group's old fragments are in b. */
static size_t count_covered(const struct pf_rewrite_group *g, const struct pf_bitmap *b)
{
	size_t n = 0;

	for (size_t i = 0; i < g->from.n; i++)
		n += pf_bitmap_has(b, (uint32_t)g->from.v[i].id);
	return n;
}

/* Does the head's history say where the group's rows went? */
static bool is_recorded(const struct pf_fri *f, const struct pf_rewrite_group *g)
{
	if (!f || g->from.n == 0)
		return false;
	for (size_t i = 0; i < f->n_groups; i++) {
		size_t n = 0;
		for (size_t k = 0; k < g->from.n; k++)
			for (size_t m = 0; m < f->groups[i].n_from; m++)
				n += f->groups[i].from[m].id == g->from.v[k].id;
		if (n == g->from.n && n == f->groups[i].n_from)
			return true;
	}
	return false;
}

static bool is_ngram(const struct pf_index *x)
{
	static const char end[] = "NGramIndexDetails";
	size_t n = x->details_type ? strlen(x->details_type) : 0;

	return n >= sizeof(end) - 1 && strcmp(x->details_type + n - (sizeof(end) - 1), end) == 0;
}

/* Does the index have rows of the group, under the fragments that these were made from by recorded compactions, too? */
static int has_rows_of(const struct pf_fri *f, const struct pf_rewrite_group *g, const struct pf_bitmap *b)
{
	_cleanup_(pf_numbers_release) struct pf_numbers ids = { 0 };
	int r = 0;

	for (size_t i = 0; r == 0 && i < g->from.n; i++)
		r = pf_fri_ancestors(f, g->from.v[i].id, &ids);
	if (r < 0)
		return r;
	for (size_t i = 0; i < ids.n; i++)
		if (pf_bitmap_has(b, (uint32_t)ids.v[i]))
			return 1;
	return 0;
}

/*
 * w: an index whose rows were moved meanwhile can only follow them by a record, and one of n-grams not even so. A record of version 0 is one of the
 * whole compaction, or none.
 */
static int index_over_rewrite(const struct pair *p)
{
	const struct pf_fri *history = p->view->history;
	bool tagged = history && history->index_version != 0, all = p->theirs->n_groups > 0;

	/* What ours removes is there under another uuid, and would stay. */
	for (size_t i = 0; i < p->theirs->n_swaps; i++)
		if (strcmp(p->theirs->swaps[i].from, p->theirs->swaps[i].to) != 0 &&
		    has_uuid(&p->ours->removed_indices, p->theirs->swaps[i].from))
			return PF_RETRYABLE;
	for (size_t g = 0; g < p->theirs->n_groups; g++)
		all = all && is_recorded(history, &p->theirs->groups[g]);
	for (size_t i = 0; i < p->ours->new_indices.n; i++) {
		_cleanup_(pf_bitmap_freep) struct pf_bitmap *b = NULL;
		const struct pf_index *x = &p->ours->new_indices.v[i];
		int r = bitmap_of(x, &b, p->why);
		if (r < 0)
			return r;
		if (!b && (tagged || !all))
			return PF_RETRYABLE;
		for (size_t g = 0; b && g < p->theirs->n_groups; g++) {
			const struct pf_rewrite_group *group = &p->theirs->groups[g];
			bool recorded = tagged ? is_recorded(history, group) : all;
			if (count_covered(group, b) > 0 && (!recorded || is_ngram(x)))
				return PF_RETRYABLE;
			r = recorded && !tagged && is_ngram(x) ? has_rows_of(history, group, b) : 0;
			if (r != 0)
				return r < 0 ? r : PF_RETRYABLE;
		}
	}
	return PF_ALLOWED;
}

/* c: ours moves rows that a new index covers. With a record it follows, if it covers a group whole. */
static int rewrite_over_index(const struct pair *p)
{
	for (size_t i = 0; i < p->theirs->new_indices.n; i++) {
		_cleanup_(pf_bitmap_freep) struct pf_bitmap *b = NULL;
		const struct pf_index *x = &p->theirs->new_indices.v[i];
		if (pf_index_is_system(x))
			continue;
		int r = bitmap_of(x, &b, p->why);
		if (r < 0)
			return r;
		if (!b)
			return PF_RETRYABLE;
		for (size_t g = 0; g < p->ours->n_groups; g++) {
			size_t n = count_covered(&p->ours->groups[g], b);
			if (n > 0 && (!p->view->records || n < p->ours->groups[g].from.n))
				return PF_RETRYABLE;
		}
	}
	return PF_ALLOWED;
}

static bool has_column(const struct pf_indices *l, int32_t field)
{
	for (size_t i = 0; i < l->n; i++)
		for (size_t k = 0; k < l->v[i].n_fields; k++)
			if (l->v[i].fields[k] == field)
				return true;
	return false;
}

/* g: also of fragments that the index does not cover. With a tagged history the coverage is withdrawn instead. */
static int index_over_replacement(const struct pair *p)
{
	bool ours = p->ours->number == LANCE__TRANSACTION__OPERATION__CREATE_INDEX;
	const struct pf_operation *index = ours ? p->ours : p->theirs, *data = ours ? p->theirs : p->ours;

	if (ours && p->view->history && p->view->history->index_version != 0)
		return PF_ALLOWED;
	for (size_t i = 0; i < data->n_replacements; i++)
		for (size_t k = 0; k < data->replacements[i].file.n_fields; k++)
			if (has_column(&index->new_indices, data->replacements[i].file.fields[k]))
				return PF_RETRYABLE;
	return PF_ALLOWED;
}

/* k: rows came that may have the keys of ours. */
static int keys_over_append(const struct pair *p)
{
	return p->ours->has_filter ? PF_RETRYABLE : PF_ALLOWED;
}

/* u of Update */
static int update_over_update(const struct pair *p)
{
	int r = 0;

	/* Keys that both insert. */
	if (p->ours->has_filter)
		r = p->theirs->has_filter ? pf_key_filters_meet(p->ours->filter, p->theirs->filter, p->why) : 1;
	if (r < 0)
		return r;
	return r ? PF_RETRYABLE : share_fragments(p);
}

/* q */
static int update_over_project(const struct pair *p)
{
	for (size_t i = 0; i < p->ours->fields_modified.n; i++)
		if (!pf_schema_find(&p->theirs->schema, (int32_t)p->ours->fields_modified.v[i]))
			return PF_RETRYABLE;
	return PF_ALLOWED;
}

/* v: an overlay says other values than those that ours was made from. */
static int update_over_overlay(const struct pair *p)
{
	return p->ours->in_place || p->ours->added.n ? share_fragments(p) : PF_ALLOWED;
}

/* d: rows that are deleted do not matter, fragments that are gone do. */
static int replacement_over_delete(const struct pair *p)
{
	for (size_t i = 0; i < p->ours->n_replacements; i++)
		if (pf_numbers_has(&p->theirs->removed, p->ours->replacements[i].fragment))
			return PF_INCOMPATIBLE;
	return PF_ALLOWED;
}

static bool has_modified(const struct pf_operation *o, const struct pf_data_file *f)
{
	for (size_t i = 0; i < f->n_fields; i++)
		if (f->fields[i] >= 0 && pf_numbers_has(&o->fields_modified, (uint64_t)f->fields[i]))
			return true;
	return false;
}

/* e */
static int replacement_over_update(const struct pair *p)
{
	bool moved = p->theirs->added.n > 0 && !p->theirs->in_place;
	int r = replacement_over_delete(p);

	for (size_t i = 0; r == PF_ALLOWED && i < p->ours->n_replacements; i++)
		for (size_t k = 0; k < p->theirs->updated.n; k++)
			if (p->theirs->updated.v[k].id == p->ours->replacements[i].fragment &&
			    (moved || has_modified(p->theirs, &p->ours->replacements[i].file)))
				r = PF_RETRYABLE;
	return r;
}

/* h */
static int replacement_over_project(const struct pair *p)
{
	for (size_t i = 0; i < p->ours->n_replacements; i++) {
		const struct pf_data_file *f = &p->ours->replacements[i].file;
		for (size_t k = 0; k < f->n_fields; k++)
			if (f->fields[k] >= 0 && !pf_schema_find(&p->theirs->schema, f->fields[k]))
				return PF_INCOMPATIBLE;
	}
	return PF_ALLOWED;
}

/* s: of one fragment and one column. */
static int replacement_over_replacement(const struct pair *p)
{
	for (size_t i = 0; i < p->ours->n_replacements; i++) {
		const struct pf_replacement *x = &p->ours->replacements[i];
		for (size_t k = 0; k < p->theirs->n_replacements; k++) {
			const struct pf_replacement *y = &p->theirs->replacements[k];
			for (size_t j = 0; x->fragment == y->fragment && j < x->file.n_fields; j++)
				if (pf_data_file_has(&y->file, x->file.fields[j]))
					return PF_RETRYABLE;
		}
	}
	return PF_ALLOWED;
}

/* b */
static int bases_over_bases(const struct pair *p)
{
	for (size_t i = 0; i < p->ours->n_bases; i++) {
		const struct pf_base_edit *x = &p->ours->bases[i];
		for (size_t k = 0; k < p->theirs->n_bases; k++) {
			const struct pf_base_edit *y = &p->theirs->bases[k];
			if ((x->id && x->id == y->id) || pf_span_eq(x->path, y->path) ||
			    (x->has_name && y->has_name && pf_span_eq(x->name, y->name)))
				return PF_INCOMPATIBLE;
		}
	}
	return PF_ALLOWED;
}

static bool is(const struct pf_operation *o, unsigned number)
{
	return o->number == number;
}

static bool may_forbid_nulls(const struct pf_operation *o)
{
	return !o->keeps_nulls &&
	       (is(o, LANCE__TRANSACTION__OPERATION__PROJECT) || is(o, LANCE__TRANSACTION__OPERATION__MERGE));
}

static bool supplies_values(const struct pf_operation *o)
{
	return is(o, LANCE__TRANSACTION__OPERATION__APPEND) || is(o, LANCE__TRANSACTION__OPERATION__UPDATE) ||
	       is(o, LANCE__TRANSACTION__OPERATION__DATA_REPLACEMENT) ||
	       is(o, LANCE__TRANSACTION__OPERATION__DATA_OVERLAY);
}

static bool edits(const struct pf_map_edit *e)
{
	return e->there && (e->replace || e->n > 0);
}

static bool edits_schema_metadata(const struct pf_operation *o)
{
	if (!is(o, LANCE__TRANSACTION__OPERATION__UPDATE_CONFIG))
		return false;
	for (size_t i = 0; i < o->n_field_edits; i++)
		if (edits(&o->field_edits[i].map))
			return true;
	return edits(&o->schema_edit);
}

/* What holds in either order, before the matrix. */
static int either_way(const struct pf_operation *a, const struct pf_operation *b)
{
	/* A column may have been made required by looking at values that were there. */
	if (may_forbid_nulls(a) && supplies_values(b))
		return PF_RETRYABLE;
	/* A Merge brings the schema whole, a Restore an old one: either would undo the other's metadata. */
	if (is(a, LANCE__TRANSACTION__OPERATION__MERGE) && edits_schema_metadata(b))
		return PF_RETRYABLE;
	if (is(a, LANCE__TRANSACTION__OPERATION__RESTORE) && edits_schema_metadata(b))
		return PF_INCOMPATIBLE;
	return PF_ALLOWED;
}

static int refine(char c, const struct pair *p)
{
	switch (c) {
	case '.':
		return PF_ALLOWED;
	case 'R':
		return PF_RETRYABLE;
	case 'f':
		return share_fragments(p);
	case 'r':
		return share_sources(p);
	case 'o':
		return overwrite(p);
	case 'a':
		return config_over_overwrite(p);
	case 'u':
		return is(p->ours, LANCE__TRANSACTION__OPERATION__UPDATE) ? update_over_update(p)
									  : config_over_config(p);
	case 'i':
		return index_over_index(p);
	case 'w':
		return index_over_rewrite(p);
	case 'c':
		return rewrite_over_index(p);
	case 'g':
		return index_over_replacement(p);
	case 'k':
		return keys_over_append(p);
	case 'q':
		return update_over_project(p);
	case 'v':
		return update_over_overlay(p);
	case 'd':
		return replacement_over_delete(p);
	case 'e':
		return replacement_over_update(p);
	case 'h':
		return replacement_over_project(p);
	case 's':
		return replacement_over_replacement(p);
	case 'b':
		return bases_over_bases(p);
	default:
		return PF_INCOMPATIBLE;
	}
}

static int judge(const struct pair *p)
{
	unsigned a = p->ours->number - LANCE__TRANSACTION__OPERATION__APPEND,
		 b = p->theirs->number - LANCE__TRANSACTION__OPERATION__APPEND;

	/* What cannot be understood may have touched anything; but base paths are added to whatever there is. */
	if (b >= OPERATIONS)
		return is(p->ours, LANCE__TRANSACTION__OPERATION__UPDATE_BASES) ? PF_ALLOWED : PF_INCOMPATIBLE;
	if (a >= OPERATIONS || !matrix[a][0])
		return PF_INCOMPATIBLE;
	int r = either_way(p->ours, p->theirs);
	if (r == PF_ALLOWED)
		r = either_way(p->theirs, p->ours);
	return r == PF_ALLOWED ? refine(matrix[a][b], p) : r;
}

int pf_conflict(const struct pf_operation *ours, const struct pf_operation *theirs, uint64_t version,
		const struct pf_conflict_view *view, struct pf_why *why)
{
	const struct pair p = { ours, theirs, view, why };
	int r = judge(&p);

	if (r == PF_RETRYABLE)
		pf_why_set(why, r,
			   "this %s, prepared on version %" PRIu64
			   ", conflicts with the %s committed as version %" PRIu64 ": prepare it anew",
			   pf_operation_name(ours), ours->read_version, pf_operation_name(theirs), version);
	else if (r == PF_INCOMPATIBLE)
		pf_why_set(why, r,
			   "this %s, prepared on version %" PRIu64
			   ", is incompatible with the %s committed as version %" PRIu64 ", and will always be",
			   pf_operation_name(ours), ours->read_version, pf_operation_name(theirs), version);
	return r;
}
