"""explainer.py DATASET: plan a cleanup of all old versions for each line read, and answer each with a line."""

import datetime
import sys

import lance

dataset = lance.dataset(sys.argv[1])
for _ in sys.stdin:
    plan = dataset.explain_cleanup_old_versions(older_than=datetime.timedelta(microseconds=1))
    assert plan.stats.old_versions > 0
    print(flush=True)
