"""
Runs in an environment of released Lance: a request a line on stdin, what Lance makes of it on stdout.

  PATH                        opens the table: "N versions, newest N"
  each PATH                   opens and reads each version that is listed: "1: 10 rows, 2: 12 rows"
  content PATH                opens it: "N versions, N rows, N found" and a digest of both, then what branches and tags it lists, and rows of branches
  follow PATH VERSION [IN]    where the records of moved rows of the head, or of version IN, say that rows of a version are: "N rows, N followed", those
                              that are there
  append PATH                 appends a row, through a handle of its own: the version
  tag PATH VERSION NAME       a tag; branch PATH VERSION NAME: a branch from main: "done"
"""

import hashlib
import sys

import lance
import pyarrow as pa


def opens(path):
    ds = lance.dataset(path)
    versions = [entry["version"] for entry in ds.versions()]
    ds.to_table()
    ds.read_transaction(ds.version)
    return "%d versions, newest %d" % (len(versions), ds.version)


def each(path):
    versions = sorted(entry["version"] for entry in lance.dataset(path).versions())
    return ", ".join("%d: %d rows" % (v, len(lance.dataset(path, version=v).to_table())) for v in versions)


def digest(ds):
    """Of all rows in their order, and of those that a filter finds, by an index if there is one."""
    rows, found = ds.to_table(), ds.to_table(filter="id < 20").sort_by("id")
    text = repr((rows.to_pylist(), found.to_pylist()))
    return "%d rows, %d found, %s" % (rows.num_rows, found.num_rows, hashlib.sha256(text.encode()).hexdigest()[:12])


def content(path):
    ds = lance.dataset(path)
    branches = {name: digest(ds.checkout_version((name, None))) for name in sorted(ds.branches.list())}
    return "%d versions, %s; branches %s, tags %s" % (len(ds.versions()), digest(ds), branches, sorted(ds.tags.list()))


def places(ds):
    """(address, id) of each row."""
    found = ds.scanner(columns=["id"], with_row_address=True).to_table()
    return list(zip(found.column("_rowaddr").to_pylist(), found.column("id").to_pylist()))


def follow(path, version, until=None):
    then = lance.dataset(path, version=until and int(until))
    before, now = places(lance.dataset(path, version=int(version))), set(places(then))
    followed = then.remap_row_addrs(pa.array([address for address, _ in before], pa.uint64())).to_pylist()
    right = [one for (_, one), address in zip(before, followed) if (address, one) in now]
    return "%d rows, %d followed" % (len(before), len(right))


def append(path):
    ds = lance.dataset(path)
    ds.insert(ds.head(1))
    return str(ds.version)


def tag(path, version, name):
    lance.dataset(path).tags.create(name, int(version))
    return "done"


def branch(path, version, name):
    lance.dataset(path).create_branch(name, int(version))
    return "done"


for line in sys.stdin:
    words = line.split()
    try:
        act = {"each": each, "content": content, "follow": follow, "append": append, "tag": tag, "branch": branch}.get(words[0])
        print(act(*words[1:]) if act else opens(line.strip()), flush=True)
    except BaseException as error:
        print("error: " + (" ".join(str(error).split()) or repr(error)), flush=True)
