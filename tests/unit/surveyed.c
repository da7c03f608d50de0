#include "surveyed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

struct pf_survey *surveyed_open(struct pf_store *st, struct pf_branch **b)
{
	struct pf_survey *s;
	struct pf_why why = PF_WHY_INIT;

	if (pf_branch_open(st, NULL, b, &why) < 0)
		fail_msg("%s", why.text);
	assert_int_equal(pf_survey_new(*b, &s), 0);
	return s;
}

void surveyed_refresh(struct pf_survey *s)
{
	struct pf_why why = PF_WHY_INIT;

	if (pf_survey_refresh(s, NULL, NULL, &why) < 0)
		fail_msg("%s", why.text);
}
