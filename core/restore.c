#include "restore.h"

#include <inttypes.h>
#include <string.h>

#include "fri_branch.h"
#include "lance.pb-c.h"
#include "roster.h"
#include "source.h"

/* A version as far as this looks at it. */
struct layout {
	struct pf_manifest *m;
	struct pf_roster roster;
	struct pf_fri fri;
	bool has_fri;
	bool *leads; /* a group of fri: all that its rows became is in the layout; see follow */
};

static void layout_release(struct layout *l)
{
	pf_manifest_unref(l->m);
	pf_roster_release(&l->roster);
	pf_fri_release(&l->fri);
	free(l->leads);
}

void pf_restore_plan_release(struct pf_restore_plan *p)
{
	pf_numbers_release(&p->back);
	pf_numbers_release(&p->gone);
	for (size_t i = 0; i < p->n_pins; i++)
		free(p->pins[i].unknown);
	free(p->pins);
	*p = (struct pf_restore_plan){ 0 };
}

static int read_fragments(struct pf_branch *b, struct layout *l, struct pf_why *why)
{
	_cleanup_(pf_file_closep) struct pf_file *f = NULL;

	int r = pf_manifest_reopen(pf_branch_store(b), l->m, &f, why);
	return r < 0 ? r : pf_roster_read(&f->r, l->m, &l->roster, why);
}

static int read_layout(struct pf_branch *b, struct layout *l, struct pf_why *why)
{
	int r = read_fragments(b, l, why);

	if (r == 0)
		r = pf_fri_read_branch(b, l->m, &l->fri, why);
	l->has_fri = r == 0;
	return r == -ENODATA ? 0 : r;
}

/* The ids of `a` that are not in `b`. */
static int subtract(const struct pf_roster *a, const struct pf_roster *b, struct pf_numbers *out)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < a->n; i++)
		if (!pf_roster_find(b, a->v[i].id))
			r = pf_numbers_add(out, a->v[i].id);
	return r;
}

/* Is the record there, byte for byte? Histories only grow at the end or are trimmed, so a hash would be more than they need. */
static bool has_record(const struct pf_fri *f, const struct pf_fri *of, const struct pf_fri_record *x)
{
	for (size_t i = 0; i < f->n_records; i++)
		if (f->records[i].len == x->len &&
		    memcmp(f->content.data + f->records[i].off, of->content.data + x->off, (size_t)x->len) == 0)
			return true;
	return false;
}

/* Does every way of a fragment's rows, from group `from` on, end in the restored layout, as far as that is known of the groups? */
static bool leads_there(const struct layout *to, uint64_t fragment, size_t from)
{
	const struct pf_fri_source *s =
		to->has_fri && fragment <= UINT32_MAX ? pf_fri_source_of(&to->fri, (uint32_t)fragment, from) : NULL;

	return s ? to->leads[s->group] : pf_roster_find(&to->roster, fragment) != NULL;
}

static bool group_leads_there(const struct layout *to, size_t group)
{
	const struct pf_fri_group *g = &to->fri.groups[group];
	const struct pf_fri_record *record = &to->fri.records[g->record];
	/* A history of version 0 moves rows record after record, a tagged one in whatever order its records stand. */
	size_t from = to->fri.index_version ? 0 : (size_t)(record->groups - to->fri.groups) + record->n_groups;

	for (size_t i = 0; i < g->n_to; i++)
		if (!leads_there(to, g->to[i].id, from))
			return false;
	return true;
}

/* Later groups first: then one round is enough, but for histories out of order. */
static int follow(struct layout *to)
{
	bool more = true;

	to->leads = calloc(to->fri.n_groups + 1, sizeof(*to->leads));
	if (!to->leads)
		return -ENOMEM;
	while (more) {
		more = false;
		for (size_t g = to->fri.n_groups; g-- > 0;)
			if (!to->leads[g] && group_leads_there(to, g))
				to->leads[g] = more = true;
	}
	return 0;
}

static int look_at_pin(struct pf_branch *b, const struct pf_pin *pin, const struct layout *to,
		       struct pf_restore_pin *out)
{
	_cleanup_(layout_release) struct layout source = { 0 };
	struct pf_why inner = PF_WHY_INIT;

	*out = (struct pf_restore_pin){ .id = pin->id, .source = pin->source_version };
	int r = pf_source_open(b, pin, &source.m, &inner);
	if (r == 0)
		r = read_fragments(b, &source, &inner);
	if (r == 0 && to->fri.unsupported)
		r = pf_why_set(&inner, -EOPNOTSUPP, "%s", to->fri.unsupported_why);
	if (r == -ENOMEM)
		return r;
	if (r < 0) {
		out->unknown = strdup(inner.text[0] ? inner.text : strerror(-r));
		return out->unknown ? 0 : -ENOMEM;
	}
	out->fragments = source.roster.n;
	for (size_t i = 0; i < source.roster.n; i++)
		out->stranded += !leads_there(to, source.roster.v[i].id, 0);
	return 0;
}

static int compare(struct pf_branch *b, const struct layout *head, const struct layout *to, struct pf_restore_plan *p)
{
	int r = subtract(&to->roster, &head->roster, &p->back);

	if (r == 0)
		r = subtract(&head->roster, &to->roster, &p->gone);
	if (r < 0)
		return r;
	p->fragments = to->roster.n;
	p->records = to->fri.n_records;
	for (size_t i = 0; i < head->fri.n_records; i++)
		p->dropped += !has_record(&to->fri, &head->fri, &head->fri.records[i]);
	p->pins = calloc(head->m->pins.n + 1, sizeof(*p->pins));
	if (!p->pins)
		return -ENOMEM;
	for (size_t i = 0; r == 0 && i < head->m->pins.n; i++) {
		r = look_at_pin(b, &head->m->pins.v[i], to, &p->pins[i]);
		p->n_pins++;
	}
	return r;
}

int pf_restore_look(struct pf_branch *b, uint64_t version, struct pf_restore_plan *out, struct pf_why *why)
{
	_cleanup_(pf_restore_plan_release) struct pf_restore_plan p = { .version = version };
	_cleanup_(layout_release) struct layout head = { 0 }, to = { 0 };

	int r = pf_branch_head(b, &head.m, why);
	if (r == 0)
		r = pf_branch_version(b, version, &to.m, why);
	if (r == 0)
		r = read_layout(b, &head, why);
	if (r == 0)
		r = read_layout(b, &to, why);
	if (r == 0)
		r = follow(&to);
	if (r < 0)
		return r;
	p.head = head.m->version;
	r = compare(b, &head, &to, &p);
	if (r < 0)
		return r;
	*out = p;
	p = (struct pf_restore_plan){ 0 };
	return 0;
}

int pf_restore_operation(uint64_t read_version, uint64_t version, struct pf_operation *out, struct pf_why *why)
{
	_cleanup_(pf_buf_release) struct pf_buf bytes = PF_BUF_INIT, op = PF_BUF_INIT;
	char uuid[PF_UUID_TEXT];
	struct pf_uuid u;

	pf_uuid_new(&u);
	pf_uuid_format(&u, uuid);
	int r = pf_wire_put_u64(&op, LANCE__TRANSACTION__RESTORE__FIELD__VERSION, version);
	if (r == 0)
		r = pf_wire_put_u64(&bytes, LANCE__TRANSACTION__FIELD__READ_VERSION, read_version);
	if (r == 0)
		r = pf_wire_put_bytes(&bytes, LANCE__TRANSACTION__FIELD__UUID, uuid, strlen(uuid));
	if (r == 0)
		r = pf_put_span(&bytes, LANCE__TRANSACTION__OPERATION__RESTORE, PF_SPAN_OF(&op));
	return r < 0 ? r : pf_operation_decode(&bytes, out, why);
}
