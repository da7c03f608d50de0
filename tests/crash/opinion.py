"""Runs in an environment of released Lance: a path a line on stdin, what Lance makes of the table on stdout."""

import sys

import lance

for line in sys.stdin:
    try:
        ds = lance.dataset(line.strip())
        versions = [entry["version"] for entry in ds.versions()]
        ds.to_table()
        ds.read_transaction(ds.version)
        print("%d versions, newest %d" % (len(versions), ds.version), flush=True)
    except BaseException as error:
        print(" ".join(str(error).split()) or repr(error), flush=True)
