/*
 * plan [-m] [-c COMMAND] TABLE: what it takes to know what is kept of a table, and why: a survey of main, and the retention of it. With -m also
 * a look at what is on disk. With -c, all of it once more after that shell command, which commits something.
 *
 * Prints a line each time: microseconds of the survey, of the look and of the retention, separated by tabs; manifests and bytes read; and
 * the most memory that the process ever had, in KiB.
 */
#include <err.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include "core/retention.h"

static int64_t us_since(int64_t from)
{
	return (pf_time_steady_ns() - from) / 1000;
}

static uint64_t bytes_read(void)
{
	unsigned long long n = 0;
	FILE *f = fopen("/proc/self/io", "re");

	if (!f || fscanf(f, "rchar: %llu", &n) != 1)
		err(1, "/proc/self/io");
	fclose(f);
	return n;
}

static void plan(struct pf_survey *s, bool look)
{
	_cleanup_(pf_retention_freep) struct pf_retention *r = NULL;
	struct pf_why why = PF_WHY_INIT;
	struct pf_retention_totals totals;
	struct rusage usage;
	uint64_t before = bytes_read();
	int64_t at = pf_time_steady_ns();

	if (pf_survey_refresh(s, NULL, NULL, &why) < 0)
		errx(1, "%s", why.text);
	int64_t survey_us = us_since(at);
	uint64_t bytes = bytes_read() - before;
	at = pf_time_steady_ns();
	if (look && pf_survey_measure(s, NULL, &why) < 0)
		errx(1, "%s", why.text);
	int64_t look_us = us_since(at);
	at = pf_time_steady_ns();
	if (pf_retention_new(&(struct pf_retention_input){ .survey = s }, &r) < 0)
		errx(1, "no memory");
	pf_retention_totals(r, &totals);
	getrusage(RUSAGE_SELF, &usage);
	printf("%" PRId64 "\t%" PRId64 "\t%" PRId64 "\t%" PRIu64 "\t%" PRIu64 "\t%ld\n", survey_us, look_us,
	       us_since(at), s->manifests_read, bytes, usage.ru_maxrss);
}

int main(int argc, char **argv)
{
	_cleanup_(pf_store_freep) struct pf_store *st = NULL;
	_cleanup_(pf_branch_freep) struct pf_branch *b = NULL;
	_cleanup_(pf_survey_freep) struct pf_survey *s = NULL;
	struct pf_why why = PF_WHY_INIT;
	const char *command = NULL;
	bool look = false;

	for (int c; (c = getopt(argc, argv, "mc:")) != -1;) {
		if (c == 'm')
			look = true;
		else if (c == 'c')
			command = optarg;
		else
			return 2;
	}
	if (argc - optind != 1)
		errx(2, "usage: plan [-m] [-c COMMAND] TABLE");
	if (pf_store_local_open(argv[optind], &st, &why) < 0 || pf_branch_open(st, NULL, &b, &why) < 0)
		errx(1, "%s", why.text);
	if (pf_survey_new(b, &s) < 0)
		errx(1, "no memory");
	plan(s, look);
	if (command) {
		if (system(command) != 0)
			errx(1, "%s failed", command);
		plan(s, look);
	}
	return 0;
}
