/* Surveys in tests: what fails is told in its own words. */
#ifndef PF_TEST_SURVEYED_H
#define PF_TEST_SURVEYED_H

#include "core/survey.h"

/* Of main; nothing is read yet. Both are the caller's. */
struct pf_survey *surveyed_open(struct pf_store *st, struct pf_branch **b);
void surveyed_refresh(struct pf_survey *s);

#endif
