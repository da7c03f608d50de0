/* The fields of a pin as extended attributes `user.pins.*`, for getfattr and for scripts without a JSON parser. */
#include "ops.h"

#include <inttypes.h>
#include <string.h>

static int add_time(struct pf_time t, struct pf_buf *out)
{
	char s[PF_TIME_TEXT];
	pf_time_format(t, s);
	return pf_buf_addstr(out, s);
}

static int id(const struct fs_branch *b, const struct pf_pin *p, struct pf_buf *out)
{
	char s[PF_UUID_TEXT];
	pf_uuid_format(&p->id, s);
	return pf_buf_addstr(out, s);
}

static int source_version(const struct fs_branch *b, const struct pf_pin *p, struct pf_buf *out)
{
	return pf_buf_addf(out, "%" PRIu64, p->source_version);
}

static int source_txn(const struct fs_branch *b, const struct pf_pin *p, struct pf_buf *out)
{
	return pf_buf_addstr(out, p->source_txn);
}

static int created_at(const struct fs_branch *b, const struct pf_pin *p, struct pf_buf *out)
{
	return add_time(p->created_at, out);
}

static int expires_at(const struct fs_branch *b, const struct pf_pin *p, struct pf_buf *out)
{
	return add_time(p->expires_at, out);
}

static int label(const struct fs_branch *b, const struct pf_pin *p, struct pf_buf *out)
{
	return pf_buf_addstr(out, p->label);
}

static int branch(const struct fs_branch *b, const struct pf_pin *p, struct pf_buf *out)
{
	return pf_buf_addstr(out, fs_line_name(b->line));
}

static const struct {
	const char *name;
	int (*value)(const struct fs_branch *b, const struct pf_pin *p, struct pf_buf *out);
} attributes[] = {
	{ "user.pins.id", id },
	{ "user.pins.source_version", source_version },
	{ "user.pins.source_transaction_uuid", source_txn },
	{ "user.pins.created_at", created_at },
	{ "user.pins.expires_at", expires_at },
	{ "user.pins.label", label },
	{ "user.pins.branch", branch },
};

/* size 0 asks how long it is. */
static void reply(fuse_req_t req, const struct pf_buf *b, size_t size)
{
	if (size == 0)
		fuse_reply_xattr(req, b->len);
	else if (b->len > size)
		fuse_reply_err(req, ERANGE);
	else
		fuse_reply_buf(req, (char *)b->data, b->len);
}

/* Every write and every `ls -l` asks for attributes of others (capabilities, ACLs): answered without looking at the table. */
void fs_op_getxattr(fuse_req_t req, fuse_ino_t ino, const char *name, size_t size)
{
	_cleanup_(fs_view_unrefp) struct fs_view *v = NULL;
	_cleanup_(pf_buf_release) struct pf_buf value = PF_BUF_INIT;
	struct pf_why why = PF_WHY_INIT;
	struct fs_node n;

	size_t i = 0;
	while (i < ARRAY_LEN(attributes) && strcmp(attributes[i].name, name) != 0)
		i++;
	if (i == ARRAY_LEN(attributes) || fs_node_get(fs_of(req), ino, &n) < 0 || n.kind != K_PIN) {
		fuse_reply_err(req, ENODATA);
		return;
	}
	int r = fs_line_view(n.branch->line, &v, &why);
	if (r == 0) {
		const struct pf_pin *p = fs_view_pin(v, &n.id);
		r = p ? attributes[i].value(n.branch, p, &value) : -ENOENT;
	}
	if (r < 0)
		fs_fail_look(req, "getxattr", &n, NULL, r, &why);
	else
		reply(req, &value, size);
}

void fs_op_listxattr(fuse_req_t req, fuse_ino_t ino, size_t size)
{
	_cleanup_(pf_buf_release) struct pf_buf names = PF_BUF_INIT;
	struct fs_node n;
	int r = 0;

	if (fs_node_get(fs_of(req), ino, &n) == 0 && n.kind == K_PIN)
		for (size_t i = 0; r == 0 && i < ARRAY_LEN(attributes); i++)
			r = pf_buf_add(&names, attributes[i].name, strlen(attributes[i].name) + 1);
	if (r < 0)
		fuse_reply_err(req, -r);
	else
		reply(req, &names, size);
}
