#include "whole.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "core/txn.h"

struct look {
	struct pf_store *st;
	const char *dir;
	struct pf_buf versions, txns; /* names, each ended by a newline */
	unsigned staged;
};

static bool is_staged(const char *name)
{
	return strncmp(name, ".tmp", 4) == 0;
}

static int see_version(void *arg, const char *name, bool is_dir)
{
	struct look *l = arg;
	uint64_t version;
	bool v2;

	if (pf_manifest_name_parse(name, &version, &v2))
		assert_int_equal(pf_buf_addf(&l->versions, "%s\n", name), 0);
	else if (!is_staged(name) && strcmp(name, "latest_version_hint.json") != 0)
		fail_msg("%s_versions/%s should not be there", l->dir, name);
	return 0;
}

static int see_txn(void *arg, const char *name, bool is_dir)
{
	struct look *l = arg;

	if (!is_staged(name))
		assert_int_equal(pf_buf_addf(&l->txns, "%s\n", name), 0);
	return 0;
}

static void drop_line(struct pf_buf *b, const char *line)
{
	char *at = (char *)strstr(pf_buf_str(b), line);
	size_t n = strlen(line) + 1;

	if (!at)
		return;
	memmove(at, at + n, b->len - (size_t)(at + n - (char *)b->data));
	b->len -= n;
}

static void check_both_copies(struct look *l, const struct pf_manifest *m)
{
	_cleanup_(pf_buf_release) struct pf_buf all = PF_BUF_INIT, file = PF_BUF_INIT;
	char name[256];

	snprintf(name, sizeof(name), "%s_transactions/%s", l->dir, m->transaction_file);
	assert_true(m->transaction.present);
	assert_int_equal(pf_store_get(l->st, m->name, 1 << 20, &all), 0);
	if (pf_store_get(l->st, name, 1 << 20, &file) < 0)
		fail_msg("%s names %s, which is not there", m->name, name);
	assert_int_equal(file.len, m->transaction.len);
	assert_memory_equal(file.data, all.data + m->transaction.off, file.len);
}

static void check_manifest(struct look *l, const char *name)
{
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *m = NULL;
	_cleanup_(pf_txn_release) struct pf_txn txn = PF_TXN_INIT;
	struct pf_why why = PF_WHY_INIT;

	if (pf_manifest_open(l->st, name, &m, &why) < 0 || pf_txn_read(l->st, l->dir, m, &txn, &why) < 0)
		fail_msg("%s", why.text);
	if (txn.kind != PF_OP_NONE)
		check_both_copies(l, m);
	if (m->transaction_file)
		drop_line(&l->txns, m->transaction_file);
}

void assert_whole(struct pf_store *st, const char *dir, bool loose)
{
	struct look l = { .st = st, .dir = dir };
	uint64_t first = UINT64_MAX, last = 0, n = 0, version;
	unsigned schemes = 0;
	char name[256];
	bool v2;

	snprintf(name, sizeof(name), "%s_versions", dir);
	assert_int_equal(pf_store_list(st, name, see_version, &l), 0);
	snprintf(name, sizeof(name), "%s_transactions", dir);
	int r = pf_store_list(st, name, see_txn, &l);
	assert_true(r == 0 || r == -ENOENT);

	const char *text = pf_buf_str(&l.versions);
	for (const char *line = text, *end; (end = strchr(line, '\n')); line = end + 1) {
		char base[64];
		snprintf(base, sizeof(base), "%.*s", (int)(end - line), line);
		assert_true(pf_manifest_name_parse(base, &version, &v2));
		schemes |= v2 ? 2 : 1;
		first = version < first ? version : first;
		last = version > last ? version : last;
		n++;
		snprintf(name, sizeof(name), "%s_versions/%s", dir, base);
		check_manifest(&l, name);
	}
	assert_true(schemes == 1 || schemes == 2);
	assert_int_equal(last - first + 1, n);
	if (l.txns.len > 0 && !loose)
		fail_msg("transaction files that no manifest names: %s", pf_buf_str(&l.txns));
	pf_buf_release(&l.versions);
	pf_buf_release(&l.txns);
}

unsigned count_landed(struct pf_store *st, const char *uuid, uint64_t *version)
{
	_cleanup_(pf_branch_freep) struct pf_branch *b = NULL;
	_cleanup_(pf_freep) struct pf_version_entry *v = NULL;
	unsigned landed = 0;
	size_t n;

	assert_int_equal(pf_branch_open(st, NULL, &b, NULL), 0);
	assert_int_equal(pf_branch_versions(b, &v, &n, NULL), 0);
	for (size_t i = 0; i < n; i++) {
		_cleanup_(pf_manifest_unrefp) struct pf_manifest *m = NULL;
		_cleanup_(pf_txn_release) struct pf_txn txn = PF_TXN_INIT;
		assert_int_equal(pf_branch_version(b, v[i].version, &m, NULL), 0);
		assert_int_equal(pf_txn_read(st, "", m, &txn, NULL), 0);
		if (strcmp(txn.uuid, uuid) == 0) {
			landed++;
			*version = v[i].version;
		}
	}
	return landed;
}

static int see_staged(void *arg, const char *name, bool is_dir)
{
	struct look *l = arg;

	l->staged += is_staged(name);
	return 0;
}

unsigned count_staged(struct pf_store *st, const char *dir)
{
	struct look l = { .staged = 0 };

	assert_int_equal(pf_store_list(st, dir, see_staged, &l), 0);
	return l.staged;
}
