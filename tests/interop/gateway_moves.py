"""Compactions by released Lance through the gateway: each kind passes, a newest Lance that reads the table directly finds the same rows, the index answers
right, and every row of the pinned version can be followed to the head by the table's records alone."""

import contextlib
import glob
import json
import os
import subprocess
import sys

import lance

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
NEWEST = "14.0.2"
MAJOR = int(lance.__version__.split(".")[0])


def cases():
    # Releases between those whose records differ say no more than that they do not.
    if MAJOR in (14, 12, 8) or LONG:
        yield from of_all_kinds()
    else:
        yield "one handle that compacts %s, writes, compacts %s and writes" % ORDERS[0], handle, *ORDERS[0]
        yield "a pin that comes between plan and commit follows the rows", lagging
    if MAJOR == 14 or LONG:
        yield "many rows, in groups, with deletion files that are bitmaps", large


def of_all_kinds():
    for mode in MODES:
        for index in INDEXES:
            # What is not indexed no release records where rows of it went: we do.
            yield "%s, %s, rows deleted" % (mode, index or "no index"), compacted, mode, index
    for first, second in ORDERS:
        yield "one handle that compacts %s, writes, compacts %s and writes" % (first, second), handle, first, second
        yield "rows that are moved twice, %s and %s" % (first, second), chain, first, second
    yield "a pin that comes between plan and commit follows the rows", lagging
    for index in INDEXES:
        yield "stable row ids, %s" % (index or "no index"), stable, index
    yield "a tagged history", tagged
    yield "restored and overwritten", back
    yield "a history that is dropped stays as long as a pin needs it", dropped
    yield "what cannot be told is refused, and said why", unreadable


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
    answer["index"] = list(places(head, fast_search=True).items()) if head.list_indices() else []
    answer["scan"] = list(now.items())
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
from gateway_table import ask_latest
from support import LONG, Skip, equal, pinctl, scratch

MODES = ("eager", "deferred") if MAJOR >= 4 else ("eager",)
INDEXES = (None, "BTREE", "BITMAP") if LONG else (None, "BTREE")
ORDERS = [(a, b) for a in MODES for b in MODES] if LONG or MAJOR < 4 else [("deferred", "eager"), ("eager", "deferred")]


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


def verify(at, pin, sources, wanted, tagged=False):
    check(at, pin)
    said = ask_directly(at, sources, tagged)
    equal(said["rows"], sorted(wanted), "rows")
    equal(sorted(said["by index"]), sorted(wanted), "rows found by the index")
    scanned = dict(said["scan"])
    equal(dict(said["index"]), {one: scanned[one] for one, _ in said["index"]}, "what the index alone finds")
    for source, found in said["sources"].items():
        assert found["rows"] > 0
        equal(found["wrong"], [], "rows of version %s that are not where its records say" % source)


def ids(at):
    return lance.dataset(at).to_table(columns=["id"]).column("id").to_pylist()


def compacted(mode, index):
    with pinned(index) as (at, pin):
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


def large():
    """Fragments of more rows than one part of a bitmap has, and more rows deleted than an array has."""
    with scratch() as folder:
        at = os.path.join(folder, "t.lance")
        first = 0
        # The third is left as it is, between the groups.
        for count in (70_000, 150_000, 160_000, 3_000, 80_000, 100_000):
            table = rows(first, count).select(["id"])
            lance.write_dataset(table, at, mode="append" if first else "create", max_rows_per_group=8192)
            first += count
        lance.dataset(at).create_scalar_index("id", "BTREE")
        lance.dataset(at).delete("(id < 220000 or id >= 380000) and (id % 7 = 3 or (id > 65000 and id < 210000 and id % 3 = 0))")
        equal({os.path.splitext(name)[1] for name in os.listdir(at + "/_deletions")}, {".bin", ".arrow"}, "deletion files")
        pinctl(at, "enable", "--apply")
        pin = pinctl(at, "register", "+1h").strip()
        with gateway(at):
            source, wanted = lance.dataset(at).version - 1, ids(at)
            compact(lance.dataset(at), target_rows_per_fragment=150_000)
            (groups,) = [record["groups"] for record in pinctl(at, "fri", "--json")]
            # In the order in which Lance was through with them.
            equal(sorted([one["fragment"] for one in group["from"]] for group in groups), [[0, 1], [3, 4, 5]], "groups")
            ds = lance.dataset(at)
            ds.insert(rows(1_000_000, 10).select(["id"]))
            if MAJOR >= 12:
                ds.optimize.optimize_indices()
            equal(sorted(ids(at)), sorted([*wanted, *range(1_000_000, 1_000_010)]), "rows")
            for where in ("id = 65537", "id >= 65000 and id < 66000", "id > 149000 and id < 151000", "id >= 370000"):
                found = [places(lance.dataset(at), where, use_scalar_index=use) for use in (True, False)]
                equal(found[0], found[1], "what the index finds, %s" % where)
        check(at, pin)
        ask_latest("follow", at, source, False)


# --- one handle -------------------------------------------------------------------------------------------------------


def handle(first, second):
    """It knows of its own commits what it wrote, not what was published."""
    with pinned(deleted=False) as (at, pin):
        with gateway(at):
            ds = lance.dataset(at)
            source, wanted = ds.version, ids(at)
            compact(ds, first)
            wanted += range(5000, 5005)
            ds.insert(rows(5000, 5))
            equal(len(stamps(at)), 1, "records after an insert")
            for i in range(3):
                ds.insert(rows(6000 + i * 10, 10))
                wanted += range(6000 + i * 10, 6010 + i * 10)
            compact(ds, second)
            ds.insert(rows(7000, 5))
            wanted += range(7000, 7005)
            found = stamps(at)
            equal((len(found), found), (2, sorted(found)), "records")
        verify(at, pin, [source], wanted)


def drop(at):
    lance.dataset(at).drop_index("__lance_frag_reuse")


def dropped():
    with pinned() as (at, pin):
        with gateway(at):
            source, wanted = lance.dataset(at).version, ids(at)
            compact(lance.dataset(at), MODES[-1])
            before = stamps(at)
            drop(at)
            equal(stamps(at), before, "records that a pin needs")
        verify(at, pin, [source], wanted)


def chain(first, second):
    """The rows of the first compaction are moved again, by another handle."""
    with pinned(deleted=False) as (at, pin):
        with gateway(at):
            sources, wanted = [lance.dataset(at).version], ids(at)
            compact(lance.dataset(at), first, target_rows_per_fragment=100)
            equal(len(lance.dataset(at).get_fragments()), 4, "fragments")
            pinctl(at, "register", "+1h")
            sources.append(lance.dataset(at).version)
            compact(lance.dataset(at), second)
            equal(len(lance.dataset(at).get_fragments()), 1, "fragments")
            lance.write_dataset(rows(1000, 10), at, mode="append")
            wanted += range(1000, 1010)
        verify(at, pin, sources, wanted)


# --- pins that come between planning and committing ------------------------------------------------------------------


def lagging():
    """Releases up to 13 stamp the version that was planned on, and a pin of a later one would not be followed."""
    from lance.optimize import Compaction

    with pinned(deleted=False) as (at, pin):
        with gateway(at):
            ds, wanted = lance.dataset(at), ids(at)
            options = {"defer_index_remap": True} if MAJOR >= 4 else {}
            plan = Compaction.plan(ds, options=options)
            results = [task.execute(ds) for task in plan.tasks]
            sources = [ds.version]
            for i in range(2):
                lance.write_dataset(rows(1000 + i, 1), at, mode="append")
                wanted.append(1000 + i)
                pinctl(at, "register", "+1h")
                sources.append(lance.dataset(at).version - 1)
            if MAJOR >= 8:
                Compaction.commit(ds, results, options=options)
            else:
                Compaction.commit(ds, results)
            equal(stamps(at), [lance.dataset(at).version - 1], "stamps")
        verify(at, pin, sources, wanted)


# --- row ids ----------------------------------------------------------------------------------------------------------


def stable(index):
    """There the ids of the rows are the record."""
    with pinned(index, enable_stable_row_ids=True) as (at, pin):

        def known(version):
            table = lance.dataset(at, version=version).scanner(columns=["id"], with_row_id=True).to_table()
            return dict(zip(table.column("id").to_pylist(), table.column("_rowid").to_pylist()))

        with gateway(at):
            source, wanted = lance.dataset(at).version, ids(at)
            compact(lance.dataset(at))
            assert len(lance.dataset(at).get_fragments()) < 8
            lance.write_dataset(rows(1000, 10), at, mode="append")
            wanted += range(1000, 1010)
            head = lance.dataset(at).version
        equal(sorted(ids(at)), sorted(wanted), "rows")
        before, now = known(source), known(head)
        equal({one: now[one] for one in before}, before, "row ids")
        check(at, pin)


# --- tagged -----------------------------------------------------------------------------------------------------------


def tagged():
    """A table whose history has transitions."""
    if MAJOR < 14:
        raise Skip("it does not write to such a table")
    import fri

    with pinned(deleted=False) as (at, pin):
        fri.tag(at)
        with gateway(at):
            sources, wanted = [lance.dataset(at).version], ids(at)
            pinctl(at, "register", "+1h")
            ds = lance.dataset(at)
            for target in (100, 200):
                compact(ds, "deferred", target_rows_per_fragment=target)
                ds.insert(rows(1000 * target, 10))
                wanted += range(1000 * target, 1000 * target + 10)
            equal(set(stamps(at)), {None}, "records are transitions")
        verify(at, pin, sources, wanted, tagged=True)


def back():
    """Restore and overwrite have the history of the data that they bring back, or none."""
    with pinned(deleted=False) as (at, pin):
        with gateway(at):
            source, wanted = lance.dataset(at).version, ids(at)
            compact(lance.dataset(at), MODES[-1], target_rows_per_fragment=100)
            middle = lance.dataset(at).version
            compact(lance.dataset(at), MODES[-1])
            equal(len(stamps(at)), 2, "records")
            lance.dataset(at, version=middle).restore()
            equal(len(stamps(at)), 1, "records of the restored version")
            compact(lance.dataset(at), MODES[-1])
            equal(len(stamps(at)), 2, "records")
        verify(at, pin, [source], wanted)
        with gateway(at):
            lance.write_dataset(rows(0, 10), at, mode="overwrite")
            equal(stamps(at), [], "records of new data")
            check(at, pin)
            equal(sorted(lance.dataset(at, version=source).to_table(columns=["id"]).column("id").to_pylist()), sorted(wanted), "pinned rows")


# --- what is refused --------------------------------------------------------------------------------------------------


def unreadable():
    """Nobody knows any more which rows were deleted from what was compacted."""
    from lance.optimize import Compaction

    with pinned(None) as (at, pin):
        with gateway(at):
            ds = lance.dataset(at)
            results = [task.execute(ds) for task in Compaction.plan(ds, options={}).tasks]
            for name in glob.glob(os.path.join(at, ".pinfs/table/_deletions/*")):
                os.truncate(name, 10)
            try:
                Compaction.commit(ds, results)
            except OSError as error:
                assert "Structure needs cleaning" in str(error), error
            else:
                raise AssertionError("it was not refused")
            with open(os.path.join(at, ".pinfs/last_status")) as status:
                said = status.read()
            assert all(word in said for word in ("version", "is not published", "_deletions/")), said
            pinctl(at, "confirm", pin)
