#include "on_disk.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "core/store_mem.h"
#include "table.h"

void disk_enter(char dir[64])
{
	strcpy(dir, "/tmp/pf-disk-XXXXXX");
	assert_non_null(mkdtemp(dir));
	assert_int_equal(chdir(dir), 0);
}

void disk_leave(const char *dir)
{
	char cmd[96];

	assert_int_equal(chdir("/"), 0);
	snprintf(cmd, sizeof(cmd), "rm -rf %s", dir);
	assert_int_equal(system(cmd), 0);
}

static void put(const char *path, const void *p, size_t n)
{
	char part[512];

	assert_true(strlen(path) < sizeof(part));
	for (const char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		snprintf(part, sizeof(part), "%.*s", (int)(slash - path), path);
		mkdir(part, 0755);
	}
	FILE *f = fopen(path, "wb");
	assert_non_null(f);
	assert_int_equal(fwrite(p, 1, n, f), n);
	assert_int_equal(fclose(f), 0);
}

void disk_put(const char *path, const char *text)
{
	put(path, text, strlen(text));
}

bool disk_has(const char *path, const char *text)
{
	char found[256] = "";
	FILE *f = fopen(path, "rb");

	if (!f)
		return false;
	size_t n = fread(found, 1, sizeof(found) - 1, f);
	fclose(f);
	return n == strlen(text) && memcmp(found, text, n) == 0;
}

bool disk_same_file(const char *a, const char *b)
{
	struct stat x, y;

	return lstat(a, &x) == 0 && lstat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

struct pf_store *disk_table(struct pf_store *mem, const char *name)
{
	_cleanup_(pf_buf_release) struct pf_buf list = PF_BUF_INIT;
	struct pf_store *st;
	char *save;

	table_list(mem, ".", &list);
	assert_non_null(pf_buf_str(&list));
	for (char *file = strtok_r((char *)list.data, "\n", &save); file; file = strtok_r(NULL, "\n", &save)) {
		_cleanup_(pf_buf_release) struct pf_buf bytes = PF_BUF_INIT;
		char path[512];
		assert_int_equal(pf_store_get(mem, file, 1 << 20, &bytes), 0);
		snprintf(path, sizeof(path), "%s/%s", name, file);
		put(path, bytes.data, bytes.len);
	}
	assert_int_equal(pf_store_local_open(name, &st, NULL), 0);
	return st;
}
