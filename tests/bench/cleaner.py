"""
cleaner.py PINCTL KEEP ROUNDS TABLE COPY [THIRD]: cleanup of all but the KEEP newest versions, by pinctl on TABLE and by this release of Lance on COPY, in turns.
With THIRD, one more copy, also what it takes to unlink the files that go, and nothing else.

Prints medians in milliseconds: of pinctl, its start included; of Lance, on a table that is open; of the unlinks, or -; then files that pinctl removed, and the
most memory that its plan took, in KiB, or Python's own 9 MB if that is more.
"""

import json
import os
import resource
import statistics
import subprocess
import sys
import time

pinctl, keep, rounds, table, copy, *third = sys.argv[1:]


def pinfs(apply):
    words = [pinctl, "-d", table, "cleanup", "--retain", keep, "--json"] + ["--apply"] * apply
    return subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True).stdout


def timed(function):
    began = time.monotonic()
    result = function()
    return (time.monotonic() - began) * 1000, result


def unlink(names):
    for name in names:
        os.unlink(os.path.join(third[0], name))


files = [f["path"] for f in json.loads(pinfs(False))["branches"][0]["files"]]
ours, theirs = [], []
# A child that starts is as large as its parent for a moment: asked before that is large.
rss = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
import lance

dataset = lance.dataset(copy)
for _ in range(int(rounds)):
    ours.append(timed(lambda: pinfs(True))[0])
    ms, stats = timed(lambda: dataset.cleanup_old_versions(retain_versions=int(keep)))
    theirs.append(ms)
gone = [len(os.listdir(os.path.join(at, "_versions"))) for at in (table, copy)]
assert gone[0] == gone[1], gone
alone = "%.3f" % timed(lambda: unlink(files))[0] if third else "-"
print("%.3f\t%.3f\t%s\t%d\t%d" % (statistics.median(ours), statistics.median(theirs), alone, len(files), rss))
