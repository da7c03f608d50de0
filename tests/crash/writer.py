"""
Runs in an environment of released Lance: a request a line on stdin, what came of it on stdout. Every request opens the table anew.

  make PATH COUNT              a table of rows 0 to COUNT - 1, with an index and deletions: "done"
  add PATH ID                  appends the row: the version
  drop PATH ID                 deletes it: the version
  begin PATH ID                writes the table anew, of this row alone: the version
  restore PATH VERSION         makes that version the head: its version now
  ids PATH [VERSION]           all rows: their ids
  compact PATH                 with a record of what moved: "done"
  clean PATH                   away with everything that nobody needs, however young: how much went
  follow PATH VERSION          where the rows of that version are now: how many of how many; those that are gone are so by the head's own count
"""

import datetime
import sys

import lance
import pyarrow as pa


def rows(ids):
    return pa.table({"id": pa.array(ids, pa.int64()), "v": ["row %d" % i for i in ids]})


def make(path, count):
    ids = list(range(int(count)))
    for half in (ids[: len(ids) // 2], ids[len(ids) // 2 :]):
        lance.write_dataset(rows(half), path, mode="append" if half[0] else "create", max_rows_per_file=16)
    lance.dataset(path).create_scalar_index("id", "BTREE")
    lance.dataset(path).delete("id in (3, 11, 29)")
    return "done"


def add(path, row):
    return str(lance.write_dataset(rows([int(row)]), path, mode="append").version)


def drop(path, row):
    ds = lance.dataset(path)
    ds.delete("id = %d" % int(row))
    return str(ds.version)


def begin(path, row):
    return str(lance.write_dataset(rows([int(row)]), path, mode="overwrite").version)


def restore(path, version):
    ds = lance.dataset(path, version=int(version))
    ds.restore()
    return str(lance.dataset(path).version)


def ids(path, version=None):
    table = lance.dataset(path, version=version and int(version)).to_table(columns=["id", "v"])
    found = table["id"].to_pylist()
    assert table["v"].to_pylist() == ["row %d" % i for i in found], "rows are mixed up"
    return " ".join(map(str, sorted(found)))


def compact(path):
    lance.dataset(path).optimize.compact_files(defer_index_remap=True)
    return "done"


def clean(path):
    stats = lance.dataset(path).cleanup_old_versions(
        older_than=datetime.timedelta(0), delete_unverified=True, error_if_tagged_old_versions=False
    )
    return "%d bytes, %d versions" % (stats.bytes_removed, stats.old_versions)


def follow(path, version):
    source, head = lance.dataset(path, version=int(version)), lance.dataset(path)
    before = source.scanner(columns=["id"], with_row_address=True).to_table()
    after = head.scanner(columns=["id"], with_row_address=True).to_table()
    now = dict(zip(after["id"].to_pylist(), after["_rowaddr"].to_pylist()))
    addresses = before["_rowaddr"].to_pylist()
    moved = head.remap_row_addrs(pa.array(addresses, pa.uint64()))
    followed = addresses if moved is None else moved.to_pylist()  # None: nothing ever moved
    kept = 0
    for row, at in zip(before["id"].to_pylist(), followed):
        # The record of a move knows no deletions that came after it.
        assert row not in now or at == now[row], "row %d is at %d and was followed to %s" % (row, now[row], at)
        kept += row in now
    return "%d of %d" % (kept, len(followed))


ACTS = {act.__name__: act for act in (make, add, drop, begin, restore, ids, compact, clean, follow)}

for line in sys.stdin:
    name, *words = line.split()
    try:
        print(ACTS[name](*words), flush=True)
    except BaseException as error:
        print("error: " + (" ".join(str(error).split()) or repr(error)), flush=True)
