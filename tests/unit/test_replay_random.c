/* Random work on a copy while its table goes on, brought back a part at a time: what is in the table then, by a model that is kept by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "core/roster.h"
#include "dice.h"
#include "on_disk.h"
#include "pair.h"
#include "whole.h"

/* What must come of it, kept by hand: each fragment is known by its file, and the copy's work is a list of what is to be done to those. */
struct model {
	struct {
		char file[16];
		unsigned copy, table; /* its ids; 0: it is not there */
		bool foreign;
	} v[64];
	unsigned n, next_copy, next_table;
	struct {
		enum { ADDS, DROPS, ELSE } what;
		unsigned of;
	} work[64];
	unsigned n_work, done;
};

/* One commit on a side: a fragment more, one of its own less (what both delete conflicts), or neither. */
static void step(struct model *m, struct pair *p, unsigned number, bool foreign)
{
	char text[64] = "UpdateConfig ck", path[64], uuid[PF_UUID_TEXT];
	unsigned what = dice(3), of = m->n ? dice(m->n) : 0;
	unsigned *id = foreign ? &m->v[of].table : &m->v[of].copy;

	if (what == DROPS && (m->n == 0 || m->v[of].foreign != foreign || *id == 0))
		what = ADDS;
	if (what == DROPS) {
		snprintf(text, sizeof(text), "Delete r%u", *id);
		*id = 0;
	} else if (what == ADDS) {
		of = m->n++;
		id = foreign ? &m->v[of].table : &m->v[of].copy;
		*id = foreign ? m->next_table++ : m->next_copy++;
		m->v[of].foreign = foreign;
		snprintf(m->v[of].file, sizeof(m->v[of].file), "%u.lance", number);
		snprintf(path, sizeof(path), "%s/data/%s", foreign ? "t" : "c", m->v[of].file);
		disk_put(path, m->v[of].file);
		snprintf(text, sizeof(text), "Append n0:%s", m->v[of].file);
	} else {
		snprintf(text, sizeof(text), "UpdateConfig c%s", foreign ? "theirs" : "ours");
	}
	commit(foreign ? p->table : p->copy, text, pair_uuid(foreign ? 'f' : 'c', number, uuid));
	if (!foreign) {
		m->work[m->n_work].what = what;
		m->work[m->n_work++].of = of;
	}
}

/* The next of the copy's work is done to the table. */
static void comes_back(struct model *m)
{
	unsigned of = m->work[m->done].of;

	if (m->work[m->done].what == ADDS)
		m->v[of].table = m->next_table++;
	else if (m->work[m->done].what == DROPS)
		m->v[of].table = 0;
	m->done++;
}

/* The head has these fragments, and the first three. */
static void want_model(struct pair *p, const struct model *m)
{
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *head = NULL;
	_cleanup_(pf_file_closep) struct pf_file *file = NULL;
	_cleanup_(pf_roster_release) struct pf_roster l = { 0 };
	unsigned there = 3;

	assert_int_equal(pf_branch_head(p->table, &head, NULL), 0);
	assert_int_equal(pf_manifest_reopen(p->t, head, &file, NULL), 0);
	assert_int_equal(pf_roster_read(&file->r, head, &l, NULL), 0);
	for (unsigned i = 0; i < m->n; i++) {
		_cleanup_(pf_buf_release) struct pf_buf message = PF_BUF_INIT;
		_cleanup_(pf_fragment_release) struct pf_fragment f = { 0 };
		char path[64];
		if (!m->v[i].table)
			continue;
		there++;
		const struct pf_slot *s = pf_roster_find(&l, m->v[i].table);
		assert_non_null(s);
		assert_int_equal(pf_slot_load(&file->r, s, &message, NULL), 0);
		assert_int_equal(pf_fragment_decode(PF_SPAN_OF(&message), &f, NULL), 0);
		assert_int_equal(f.files[0].path.n, strlen(m->v[i].file));
		assert_memory_equal(f.files[0].path.p, m->v[i].file, f.files[0].path.n);
		snprintf(path, sizeof(path), "t/data/%s", m->v[i].file);
		assert_true(disk_has(path, m->v[i].file));
	}
	assert_int_equal(l.n, there);
}

static void at_random(void **state)
{
	for (unsigned round = 0; round < 10; round++) {
		struct model m = { .next_copy = 4, .next_table = 4 };
		struct pf_replay_version v;
		struct pf_why why = PF_WHY_INIT;
		struct pair p;

		dice_seed(20261130 + round);
		new_pair_on_disk(&p);
		for (unsigned number = 1; number <= 24; number++) {
			step(&m, &p, number, dice(2));
			if (dice(6))
				continue;
			_cleanup_(pf_replay_freep) struct pf_replay *r = opened(&p);
			for (unsigned k = dice(4); k > 0 && m.done < m.n_work; k--) {
				if (pf_replay_next(r, false, &v, &why) != 1)
					fail_msg("%s", why.text);
				comes_back(&m);
				want_model(&p, &m);
			}
		}
		replayed(&p, m.n_work - m.done);
		while (m.done < m.n_work)
			comes_back(&m);
		want_model(&p, &m);
		assert_whole(p.t, "", false);
		close_pair(&p);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(at_random),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
