"""
client.py DATASET: one released Lance on one path, for gateway.py. Does what each line asks, a JSON list, and answers with the milliseconds it took.

    ["scan"]               read every row
    ["take", N, SEED]      N random rows, of a dataset that is open
    ["versions"]           list them
    ["append", FRAGMENTS]  commit them on a handle of the version before
    ["cleanup"]            remove every old version, or try to
    ["unlink", PATTERN]    try to unlink each file, whose name is known: the median of them
"""

import datetime
import errno
import glob
import json
import os
import random
import statistics
import sys
import time

import lance

at = sys.argv[1]
dataset = lance.dataset(at)
newest = dataset  # of appends: that the others open a dataset of their own is not what is measured


def scan():
    for batch in dataset.scanner().to_batches():
        assert batch.num_rows


def take(number, seed):
    chance = random.Random(seed)
    total = dataset.count_rows()
    rows = [chance.randrange(total) for _ in range(number)]
    began = time.perf_counter()
    assert dataset.take(rows).num_rows == number
    return time.perf_counter() - began


def versions():
    assert dataset.versions()


def append(texts):
    global newest
    fragments = [lance.fragment.FragmentMetadata.from_json(json.dumps(text)) for text in texts]
    began = time.perf_counter()
    newest = lance.LanceDataset.commit(newest, lance.LanceOperation.Append(fragments), read_version=newest.version)
    return time.perf_counter() - began


def cleanup():
    lance.dataset(at).cleanup_old_versions(older_than=datetime.timedelta(0), delete_unverified=True, error_if_tagged_old_versions=False)


def unlink(pattern):
    names = glob.glob(os.path.join(at, pattern))
    times = []
    for name in names:
        os.stat(name)  # so that the name is known
        began = time.perf_counter()
        try:
            os.unlink(name)
        except OSError as error:
            assert error.errno in (errno.EBUSY, errno.EPERM), error
        times.append(time.perf_counter() - began)
    return statistics.median(times)


for line in sys.stdin:
    words = json.loads(line)
    start = time.perf_counter()
    took = globals()[words[0]](*words[1:])
    print((time.perf_counter() - start if took is None else took) * 1000, flush=True)
