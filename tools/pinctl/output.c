#include "pinctl.h"

#include <inttypes.h>
#include <string.h>

static int no_memory(void)
{
	return ctl_fail(-ENOMEM, &(struct pf_why)PF_WHY_INIT);
}

int ctl_print_json(json_t *j)
{
	_cleanup_(pf_buf_release) struct pf_buf text = PF_BUF_INIT;

	int r = pf_json_text(j, &text);
	json_decref(j);
	if (r < 0)
		return no_memory();
	fwrite(text.data, 1, text.len, stdout);
	return 0;
}

int json_list_add(struct json_list *l, json_t *element)
{
	_cleanup_(pf_buf_release) struct pf_buf text = PF_BUF_INIT;

	int r = pf_json_line(element, &text);
	json_decref(element);
	if (r < 0)
		return no_memory();
	fputs(l->n++ ? ",\n" : "[\n", stdout);
	fwrite(text.data, 1, text.len, stdout);
	return 0;
}

void json_list_end(struct json_list *l)
{
	fputs(l->n ? "\n]\n" : "[]\n", stdout);
}

int table_add(struct table *t, const char *const *cells, size_t n)
{
	char *(*row)[TABLE_COLUMNS] = reallocarray(t->row, t->n + 1, sizeof(*row));
	if (!row)
		return -ENOMEM;
	t->row = row;
	memset(row[t->n], 0, sizeof(row[t->n]));
	t->n++;
	for (size_t i = 0; i < n; i++) {
		char *cell = strdup(cells[i]);
		if (!cell)
			return -ENOMEM;
		t->row[t->n - 1][i] = cell;
	}
	return 0;
}

void table_release(struct table *t)
{
	for (size_t i = 0; i < t->n; i++)
		for (size_t k = 0; k < TABLE_COLUMNS; k++)
			free(t->row[i][k]);
	free(t->row);
	*t = (struct table){ 0 };
}

/* Characters, not bytes: names may be of any script. */
static size_t width(const char *s)
{
	size_t n = 0;

	for (; *s; s++)
		n += (*s & 0xc0) != 0x80;
	return n;
}

void table_print(const struct table *t)
{
	size_t widest[TABLE_COLUMNS] = { 0 };

	for (size_t i = 0; i < t->n; i++)
		for (size_t k = 0; k < TABLE_COLUMNS && t->row[i][k]; k++)
			if (width(t->row[i][k]) > widest[k])
				widest[k] = width(t->row[i][k]);
	for (size_t i = 0; i < t->n; i++) {
		size_t owed = 0; /* blanks, written only if something follows them */
		for (size_t k = 0; k < TABLE_COLUMNS && t->row[i][k]; k++) {
			const char *cell = t->row[i][k];
			if (cell[0])
				printf("%*s%s", (int)owed, "", cell);
			owed = cell[0] ? 0 : owed;
			owed += widest[k] - width(cell) + 2;
		}
		putchar('\n');
	}
}

const char *span_format(int64_t s, char out[SPAN_TEXT])
{
	static const struct {
		int64_t seconds;
		char unit;
	} units[] = { { 86400, 'd' }, { 3600, 'h' }, { 60, 'm' }, { 1, 's' } };
	size_t i = 0;

	while (i < ARRAY_LEN(units) - 1 && s < units[i].seconds)
		i++;
	int64_t rest = s % units[i].seconds;
	int n = snprintf(out, SPAN_TEXT, "%" PRId64 "%c", s / units[i].seconds, units[i].unit);
	if (i + 1 < ARRAY_LEN(units) && rest >= units[i + 1].seconds)
		snprintf(out + n, SPAN_TEXT - (size_t)n, " %" PRId64 "%c", rest / units[i + 1].seconds,
			 units[i + 1].unit);
	return out;
}

const char *safe(const char *s, struct pf_buf *buf)
{
	pf_buf_reset(buf);
	if (pf_text_escape(s, strlen(s), buf) < 0)
		return "";
	s = pf_buf_str(buf);
	return s ? s : "";
}
