#include "request.h"

#include <inttypes.h>
#include <string.h>

void pf_request_release(struct pf_request *q)
{
	free(q->label);
	free(q->branch);
	*q = (struct pf_request)PF_REQUEST_INIT;
}

int pf_source_parse(const char *s, size_t len, uint64_t *version, char txn[PF_UUID_TEXT], struct pf_why *why)
{
	char quoted[PF_QUOTE_TEXT];
	const char *colon = memchr(s, ':', len);
	struct pf_uuid u;
	uint64_t v;

	if (!colon || pf_u64_parse(s, (size_t)(colon - s), &v) < 0 || v == 0 ||
	    pf_uuid_parse(colon + 1, len - (size_t)(colon + 1 - s), &u, NULL) < 0)
		return pf_why_set(
			why, -EINVAL,
			"%s is not a source; expected VERSION:UUID, a version and the UUID of its transaction",
			pf_text_quote(s, len, quoted));
	*version = v;
	memcpy(txn, colon + 1, PF_UUID_TEXT - 1);
	txn[PF_UUID_TEXT - 1] = '\0';
	return 0;
}

static int get_expires_at(struct pf_request *q, struct pf_buf *v, struct pf_time now, struct pf_why *why)
{
	return pf_time_parse((const char *)v->data, v->len, now, &q->expires_at, why);
}

static int get_label(struct pf_request *q, struct pf_buf *v, struct pf_time now, struct pf_why *why)
{
	int r = pf_label_check((const char *)v->data, v->len, why);
	if (r < 0)
		return r;
	q->label = strdup((const char *)v->data);
	return q->label ? 0 : -ENOMEM;
}

static int get_source(struct pf_request *q, struct pf_buf *v, struct pf_time now, struct pf_why *why)
{
	q->has_source = true;
	return pf_source_parse((const char *)v->data, v->len, &q->source_version, q->source_txn, why);
}

static int get_branch(struct pf_request *q, struct pf_buf *v, struct pf_time now, struct pf_why *why)
{
	char quoted[PF_QUOTE_TEXT];

	if (v->len == 0 || memchr(v->data, '\0', v->len))
		return pf_why_set(why, -EINVAL, "%s is not a branch name",
				  pf_text_quote((const char *)v->data, v->len, quoted));
	q->branch = strdup((const char *)v->data);
	if (!q->branch)
		return -ENOMEM;
	return strcmp(q->branch, "main") == 0 ? 0 : pf_branch_name_check(q->branch, why);
}

static int get_branch_id(struct pf_request *q, struct pf_buf *v, struct pf_time now, struct pf_why *why)
{
	char quoted[PF_QUOTE_TEXT];
	const char *s = (const char *)v->data;

	if (v->len != PF_BRANCH_ID_TEXT - 1 || strspn(s, "0123456789abcdef") < v->len)
		return pf_why_set(why, -EINVAL, "%s is not a branch id; expected %d hex digits, lower case",
				  pf_text_quote(s, v->len, quoted), PF_BRANCH_ID_TEXT - 1);
	memcpy(q->branch_id, s, v->len);
	q->branch_id[v->len] = '\0';
	return 0;
}

enum { EXPIRES_AT, LABEL, SOURCE, BRANCH, BRANCH_ID, N_KEYS };

static const struct {
	const char *name;
	int (*get)(struct pf_request *q, struct pf_buf *value, struct pf_time now, struct pf_why *why);
} keys[N_KEYS] = {
	[EXPIRES_AT] = { "expires_at", get_expires_at },
	[LABEL] = { "label", get_label },
	[SOURCE] = { "source", get_source },
	[BRANCH] = { "branch", get_branch },
	[BRANCH_ID] = { "branch_id", get_branch_id },
};

/* One `key=value` of `len` bytes; bits of *seen are the keys that were there before. */
static int parse_item(const char *s, size_t len, struct pf_time now, unsigned *seen, struct pf_request *q,
		      struct pf_why *why)
{
	_cleanup_(pf_buf_release) struct pf_buf value = PF_BUF_INIT;
	char quoted[PF_QUOTE_TEXT];
	const char *eq = memchr(s, '=', len);
	size_t n = eq ? (size_t)(eq - s) : len, k = 0;

	while (k < N_KEYS && (strlen(keys[k].name) != n || memcmp(keys[k].name, s, n) != 0))
		k++;
	if (k == N_KEYS)
		return pf_why_set(why, -EINVAL,
				  "a request has no %s; it is ID,expires_at=T[,label=L][,source=VERSION:UUID]"
				  "[,branch=NAME][,branch_id=HEX], and a comma inside a value is %%2C",
				  pf_text_quote(s, n, quoted));
	if (!eq)
		return pf_why_set(why, -EINVAL, "the request's %s has no value", keys[k].name);
	if (*seen & 1u << k)
		return pf_why_set(why, -EINVAL, "the request says %s twice", keys[k].name);
	*seen |= 1u << k;

	int r = pf_percent_decode(eq + 1, len - n - 1, &value, why);
	if (r < 0)
		return r;
	if (!pf_buf_str(&value)) /* from here on the bytes are a C string, too */
		return -ENOMEM;
	return keys[k].get(q, &value, now, why);
}

int pf_request_parse(const char *s, size_t len, struct pf_time now, struct pf_request *out, struct pf_why *why)
{
	_cleanup_(pf_request_release) struct pf_request q = PF_REQUEST_INIT;
	const char *end = s + len, *comma = memchr(s, ',', len), *p = comma ? comma : end;
	unsigned seen = 0;

	if (len >= PF_REQUEST_LINE_MAX)
		return pf_why_set(why, -ENAMETOOLONG, "the request has %zu bytes; at most %d are allowed", len,
				  PF_REQUEST_LINE_MAX - 1);
	int r = pf_uuid_parse(s, (size_t)(p - s), &q.id, why);
	if (r < 0)
		return r;
	while (p < end) {
		s = p + 1;
		comma = memchr(s, ',', (size_t)(end - s));
		p = comma ? comma : end;
		r = parse_item(s, (size_t)(p - s), now, &seen, &q, why);
		if (r < 0)
			return r;
	}
	if (!(seen & 1u << EXPIRES_AT))
		return pf_why_set(why, -EINVAL, "the request says no expires_at; expected ID,expires_at=T");
	if (q.branch_id[0] && q.branch && strcmp(q.branch, "main") == 0)
		return pf_why_set(why, -EINVAL, "the request names a branch_id on main, which has none");
	if (!q.label && !(q.label = strdup("")))
		return -ENOMEM;

	*out = q;
	q = (struct pf_request)PF_REQUEST_INIT;
	return 0;
}

static int add_item(struct pf_buf *out, const char *key, const char *value)
{
	int r = pf_buf_addf(out, ",%s=", key);
	return r < 0 ? r : pf_percent_encode(value, strlen(value), out);
}

static int format(const struct pf_request *q, struct pf_buf *out)
{
	char id[PF_UUID_TEXT], time[PF_TIME_TEXT];
	int r;

	pf_uuid_format(&q->id, id);
	pf_time_format(q->expires_at, time);
	if ((r = pf_buf_addstr(out, id)) < 0 || (r = add_item(out, keys[EXPIRES_AT].name, time)) < 0)
		return r;
	if (q->label && q->label[0] && (r = add_item(out, keys[LABEL].name, q->label)) < 0)
		return r;
	if (q->has_source &&
	    (r = pf_buf_addf(out, ",%s=%" PRIu64 ":%s", keys[SOURCE].name, q->source_version, q->source_txn)) < 0)
		return r;
	if (q->branch && (r = add_item(out, keys[BRANCH].name, q->branch)) < 0)
		return r;
	if (q->branch_id[0] && (r = add_item(out, keys[BRANCH_ID].name, q->branch_id)) < 0)
		return r;
	return 0;
}

int pf_request_format(const struct pf_request *q, struct pf_buf *out)
{
	size_t before = out->len;
	int r = format(q, out);

	if (r == 0 && out->len - before >= PF_REQUEST_LINE_MAX)
		r = -ENAMETOOLONG;
	if (r < 0)
		out->len = before;
	return r;
}
