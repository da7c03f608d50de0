/* Memory that runs out while a picture is made, at every allocation: -ENOMEM comes out and nothing leaks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "core/timeline.h"

#include "alloc.h"

static char label[] = "a label that is too long for its column", v1[] = "v1", dev[] = "dev";

static int draw(const struct pf_timeline_input *in)
{
	_cleanup_(pf_timeline_release) struct pf_timeline t = { 0 };
	_cleanup_(pf_buf_release) struct pf_buf text = PF_BUF_INIT, svg = PF_BUF_INIT;

	int r = pf_timeline_new(in, &t);
	if (r == 0)
		r = pf_timeline_text(&t, in->ascii, true, &text);
	return r < 0 ? r : pf_timeline_svg(&t, "t", &svg);
}

static void test_timeline(void **state)
{
	struct pf_surveyed_version versions[] = { { .version = 1, .readable = true },
						  { .version = 4, .readable = true } };
	struct pf_pin pins[] = { { .source_version = 1, .label = label }, { .source_version = 4, .label = v1 } };
	struct pf_tag tags[] = { { .name = v1, .version = 1 }, { .name = label, .version = 3 } };
	struct pf_branch_ref refs[] = { { .name = dev, .parent_version = 4 } };
	struct pf_survey s = {
		.versions = versions, .n_versions = 2, .pins = { pins, 2 }, .tags = { tags, 2 }, .refs = { refs, 1 }
	};
	_cleanup_(pf_retention_freep) struct pf_retention *kept = NULL;
	unsigned n = 0;
	int r;

	assert_int_equal(pf_retention_new(&(struct pf_retention_input){ .survey = &s }, &kept), 0);
	do {
		alloc_fail(++n);
		r = draw(&(struct pf_timeline_input){ .survey = &s, .kept = kept, .width = 60 });
		assert_true(r == 0 || r == -ENOMEM);
	} while (r < 0);
	assert_true(n > 20);
	alloc_fail(0);
}

int main(void)
{
	static const struct CMUnitTest tests[] = { cmocka_unit_test(test_timeline) };

	return cmocka_run_group_tests_name("timeline_oom", tests, NULL, NULL);
}
