"""Compactions by released Lance through the gateway: each kind passes, a newest Lance that reads the table directly finds the same rows, the index answers
right, and every row of the pinned version can be followed to the head by the table's records alone."""

import contextlib
import json
import os
import subprocess
import sys

import lance
import pyarrow as pa

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
NEWEST = "14.0.2"
MAJOR = int(lance.__version__.split(".")[0])


def cases():
    for mode in ("eager", "deferred"):
        for index in (None, "BTREE", "BITMAP"):
            for deleted in (False, True):
                yield (
                    "%s, %s index, %s" % (mode, index or "no", "rows deleted" if deleted else "nothing deleted"),
                    compacted, mode, index, deleted,
                )


# --- asked in the environment of the newest release -------------------------------------------------------------------


def places(ds, where="id >= 0", **options):
    table = ds.scanner(columns=["id"], filter=where, with_row_address=True, **options).to_table()
    return dict(zip(table.column("id").to_pylist(), table.column("_rowaddr").to_pylist()))


def direct(at, sources, tagged):
    """Of each version: how many of its rows are where its records say, and how many are lost."""
    import fri

    head = lance.dataset(at)
    now = places(head, use_scalar_index=False)
    answer = {"rows": sorted(head.to_table(columns=["id"]).column("id").to_pylist()), "by index": [], "sources": {}}
    for one in now:
        answer["by index"] += head.to_table(columns=["id"], filter="id = %d" % one).column("id").to_pylist()
    for source in sources:
        before = places(lance.dataset(at, version=source), use_scalar_index=False)
        moved = fri.follow(at, list(before.values()))
        if not tagged:
            fri.compare_v0(at, list(before.values()))
        wrong = [one for one, address in before.items() if one in now and moved[address] != now[one]]
        answer["sources"][source] = {"rows": len(before), "wrong": wrong}
    print(json.dumps(answer))


def ask_directly(at, sources, tagged=False):
    """What the newest release says of the table, without the gateway."""
    (python,) = subprocess.check_output([os.path.join(ROOT, "tools", "venv"), NEWEST], text=True).split()
    words = [python, "-W", "ignore", __file__, at, json.dumps([sources, tagged])]
    return json.loads(subprocess.check_output(words, env=dict(os.environ, PYTHONPATH=HERE)))


if __name__ == "__main__":
    sys.path.insert(0, os.path.join(ROOT, "tests", "fri"))
    direct(sys.argv[1], *json.loads(sys.argv[2]))
    sys.exit()

from gateway import check, gateway, rows
from support import RELEASE, Skip, equal, pinctl, scratch


@contextlib.contextmanager
def pinned(index="BTREE", deleted=True, **options):
    with scratch() as folder:
        at = os.path.join(folder, "t.lance")
        for i in range(4):
            lance.write_dataset(rows(i * 100, 100), at, mode="append" if i else "create", max_rows_per_file=50, **options)
        if index:
            lance.dataset(at).create_scalar_index("id", index)
        if deleted:
            lance.dataset(at).delete("id in (3, 77, 210) or (id >= 300 and id < 310)")
        pinctl(at, "enable", "--apply")
        yield at, pinctl(at, "register", "+1h").strip()


def compact(ds, mode="eager", **options):
    if mode == "deferred":
        options["defer_index_remap"] = True
    return ds.optimize.compact_files(**options)


def stamps(at):
    return [record["stamp"] for record in pinctl(at, "trim", "--json")["records"]]


def verify(at, pin, sources, wanted):
    check(at, pin)
    said = ask_directly(at, sources)
    equal(said["rows"], sorted(wanted), "rows")
    equal(sorted(said["by index"]), sorted(wanted), "rows found by the index")
    for source, found in said["sources"].items():
        assert found["rows"] > 0
        equal(found["wrong"], [], "rows of version %s that are not where its records say" % source)


def ids(at):
    return lance.dataset(at).to_table(columns=["id"]).column("id").to_pylist()


def compacted(mode, index, deleted):
    if mode == "deferred" and MAJOR < 4:
        raise Skip("it defers nothing")
    with pinned(index, deleted) as (at, pin):
        with gateway(at):
            source = lance.dataset(at).version
            wanted = ids(at)
            compact(lance.dataset(at), mode)
            head = lance.dataset(at).version
            assert head > source and len(lance.dataset(at).get_fragments()) < 8
            equal(stamps(at), [head - 1], "stamps of its records")
            equal(sorted(ids(at)), sorted(wanted), "rows through the gateway")
            lance.write_dataset(rows(1000, 10), at, mode="append")
        verify(at, pin, [source], wanted + list(range(1000, 1010)))
