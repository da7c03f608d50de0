"""Compactions by released Lance through the gateway, of tables that are no matter of course: large fragments, bitmaps of deleted rows, deletions that come between plan
and commit, columns that came later, branches. Each row of the pinned versions is followed to the head (gateway_histories)."""

import atexit
import contextlib
import functools
import glob
import json
import os
import random
import shutil
import subprocess

import lance
import pyarrow as pa
from lance.optimize import Compaction

from gateway import check, gateway
from support import LONG, ROOT, Skip, equal, pinctl, scratch

HERE = os.path.dirname(os.path.abspath(__file__))
NEWEST = "14.0.2"
MAJOR = int(lance.__version__.split(".")[0])


# What is eager has no record but ours; Lance's own are what its older releases stamp.
MODES = ("eager", "deferred") if LONG else ("eager",) if MAJOR >= 14 else ("deferred",)


def cases():
    for mode in MODES:
        yield "large fragments with many deleted rows, %s" % mode, large, mode
        yield "many groups, committed in any order, %s" % mode, groups, mode
        yield "columns that came and went, %s" % mode, columns, mode
        yield "a branch of the pinned version, %s" % mode, branch, mode
        yield "fragments whose rows are all deleted, %s" % mode, emptied, mode
        yield "after the index was extended, %s" % mode, extended, mode
        yield "restored to between two pins, and compacted again, %s" % mode, restored, mode
        for by in ("Lance", "pinctl"):
            yield "rows are deleted by %s between plan and commit, %s" % (by, mode), late, mode, by
    if "eager" in MODES:
        yield "large fragments with many deleted rows, stable row ids", large, "eager", True
        yield "columns that came and went, stable row ids", columns, "eager", True


def rows(first, count):
    values = range(first, first + count)
    return pa.table({"a": pa.array(values, pa.int64()), "b": pa.array([str(value) for value in values])})


@contextlib.contextmanager
def pinned(counts, index=True, stable=False, before=None):
    """A table of fragments of so many rows, with a pin, through the gateway. Then every row is where the records say."""
    with scratch() as folder:
        at, first = os.path.join(folder, "t.lance"), 0
        for count in counts:
            options = {"enable_stable_row_ids": True} if stable else {}
            lance.write_dataset(rows(first, count), at, mode="append" if first else "create", **options)
            first += count
        if index:
            lance.dataset(at).create_scalar_index("a", "BTREE")
        if before:
            before(at)
        pinctl(at, "enable", "--apply")
        pins = []
        with gateway(at):
            pin(at, pins)
            yield at, pins
        said = judge().ask(at, pins, stable)
        assert not said, said


class Judge:
    """The newest release, which has the history of any."""

    def __init__(self):
        (python,) = subprocess.check_output([os.path.join(ROOT, "tools", "venv"), NEWEST], text=True).split()
        words = [python, "-W", "ignore", os.path.join(HERE, "gateway_histories.py")]
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        atexit.register(self.process.stdin.close)

    def ask(self, *words):
        print(json.dumps(words), file=self.process.stdin, flush=True)
        return json.loads(self.process.stdout.readline())


@functools.cache
def judge():
    return Judge()


def pin(at, pins, name=None):
    one = pinctl(at, "register", "+1h", "--no-guard", branch=name).strip()
    (source,) = [found["source_version"] for found in pinctl(at, "ls", "--json", branch=name) if found["id"] == one]
    pins.append((name, source))


def prepare(ds, mode, **options):
    if mode == "deferred":
        options["defer_index_remap"] = True
    plan = Compaction.plan(ds, options=options)
    return [task.execute(ds) for task in plan.tasks], options


def commit(ds, results, options):
    if MAJOR >= 8:
        return Compaction.commit(ds, results, options=options)
    return Compaction.commit(ds, results)


def compact(at, mode, **options):
    results, options = prepare(lance.dataset(at), mode, **options)
    assert results, "there is nothing to compact"
    return commit(lance.dataset(at), results, options)


def values(at):
    return sorted(lance.dataset(at).to_table(columns=["a"]).column("a").to_pylist())


def large(mode, stable=False):
    """Bitmaps beyond arrays, runs over more than one container, and a group that becomes several fragments."""
    with pinned([150_000, 150_000, 70_000], stable=stable) as (at, pins):
        ds = lance.dataset(at)
        ds.delete("a % 7 = 0 and a < 150000")
        lance.dataset(at).delete("a >= 160000 and a < 240000")
        lance.dataset(at).delete("a = 369999")
        assert glob.glob(os.path.join(at, "_deletions", "*.bin")), "no bitmap of deleted rows"
        pin(at, pins)
        wanted = values(at)
        compact(at, mode, target_rows_per_fragment=100_000)
        lance.write_dataset(rows(1_000_000, 10), at, mode="append")
        equal(values(at), wanted + list(range(1_000_000, 1_000_010)), "rows")
        compact(at, mode, target_rows_per_fragment=1_000_000)


def groups(mode):
    """Two tasks a commit: what is compacted together stands between what is large enough."""
    dice = random.Random(mode)
    with pinned([10, 10, 100, 10, 10, 100, 10, 10, 10, 100, 10, 10]) as (at, pins):
        lance.dataset(at).delete("a % 9 = 0")
        pin(at, pins)
        wanted = values(at)
        ds = lance.dataset(at)
        results, options = prepare(ds, mode, target_rows_per_fragment=80, materialize_deletions=False)
        assert len(results) == 4, results
        dice.shuffle(results)
        commit(ds, results, options)
        equal(values(at), wanted, "rows")
        compact(at, mode, target_rows_per_fragment=1000)
        equal(values(at), wanted, "rows")


def columns(mode, stable=False):
    with pinned([20, 20, 20], stable=stable) as (at, pins):
        ds = lance.dataset(at)
        ds.add_columns({"c": "a * 2", "d": "a * 3"})
        lance.dataset(at).delete("a in (3, 25, 26)")
        pin(at, pins)
        lance.dataset(at).drop_columns(["c"])
        compact(at, mode, target_rows_per_fragment=40)
        lance.dataset(at).add_columns({"e": "a * 5"})
        lance.dataset(at).drop_columns(["b"])
        for value in (1000, 1001):
            lance.write_dataset(lance.dataset(at).take([0]).set_column(0, "a", [[value]]), at, mode="append")
        pin(at, pins)
        compact(at, mode)
        found = lance.dataset(at).to_table(columns=["a", "d", "e"], filter="a < 1000").to_pylist()
        equal([(one["d"], one["e"]) for one in found], [(3 * one["a"], 5 * one["a"]) for one in found], "rows")


def branch(mode):
    """Its files are those of main, and deletion files of both. On a branch Lance 14 itself loses an index that it remaps (lance-14-fri)."""
    with pinned([20, 20, 20, 20], index=mode == "deferred") as (at, pins):
        lance.dataset(at).delete("a in (3, 4, 61)")
        pin(at, pins)
        ds = lance.dataset(at)
        on = ds.create_branch("x", pins[-1][1])
        on.delete("a in (25, 61, 62)")
        on = lambda: lance.dataset(at).checkout_version(("x", None))
        pin(at, pins, "x")
        results, options = prepare(on(), mode, target_rows_per_fragment=40)
        commit(on(), results, options)
        pin(at, pins, "x")
        lance.write_dataset(rows(1000, 10), on(), mode="append")
        results, options = prepare(on(), mode, target_rows_per_fragment=1000)
        commit(on(), results, options)
        compact(at, mode)


def emptied(mode):
    """Each of two handles deletes a half, so that Lance sees of neither that the fragment could go."""
    with pinned([10, 10, 10, 10]) as (at, pins):
        first, second = lance.dataset(at), lance.dataset(at)
        first.delete("a >= 10 and a < 15")
        second.delete("a >= 15 and a < 20")
        lance.dataset(at).delete("a = 31")
        pin(at, pins)
        compact(at, mode)
        equal(values(at), [*range(10), *range(20, 31), *range(32, 40)], "rows")


def extended(mode):
    if MAJOR < 12:
        raise Skip("where there are records its optimize_indices loses rows of an index, without a gateway as well")
    with pinned([20, 20]) as (at, pins):
        for i in range(2):
            lance.write_dataset(rows(100 + 20 * i, 20), at, mode="append")
            lance.dataset(at).optimize.optimize_indices(num_indices_to_merge=i)
            pin(at, pins)
        wanted = values(at)
        compact(at, mode, target_rows_per_fragment=40)
        lance.dataset(at).optimize.optimize_indices()
        for first in (1000, 1005):
            lance.write_dataset(rows(first, 5), at, mode="append")
        lance.dataset(at).optimize.optimize_indices()
        compact(at, mode)
        equal(values(at), wanted + list(range(1000, 1010)), "rows")


def restored(mode):
    """Its history is that of the version which is restored: it leads there from the pin before, and the one behind needs nothing."""
    with pinned([20, 20, 20, 20]) as (at, pins):
        compact(at, mode, target_rows_per_fragment=40)
        middle = lance.dataset(at)
        wanted = values(at)
        lance.write_dataset(rows(100, 20), at, mode="append")
        lance.write_dataset(rows(120, 20), at, mode="append")
        compact(at, mode)
        pin(at, pins)
        before = len(pinctl(at, "fri", "--json"))
        middle.restore()
        equal((before, len(pinctl(at, "fri", "--json"))), (2, 1), "records before and after")
        equal(values(at), wanted, "rows")
        for i in range(2):
            lance.write_dataset(rows(200 + 20 * i, 20), at, mode="append")
        pin(at, pins)
        compact(at, mode, target_rows_per_fragment=1000)
        equal(len(pinctl(at, "fri", "--json")), 2, "records")


def late(mode, by):
    """What was compacted has rows that are deleted by now: Lance sees it, whoever committed them, and plans anew."""
    with pinned([20, 20, 20, 20]) as (at, pins):
        ds = lance.dataset(at)
        results, options = prepare(ds, mode, target_rows_per_fragment=40)
        for where in ("a = 5", "a in (21, 22) or a = 79"):
            if by == "Lance":
                lance.dataset(at).delete(where)
            else:
                by_pinctl(at, where)
            pin(at, pins)
        before = lance.dataset(at).version
        try:
            commit(ds, results, options)
        except Exception as error:
            assert "conflict" in str(error).lower(), error
        else:
            raise AssertionError("rows that were deleted are back")
        wanted = [value for value in range(80) if value not in (5, 21, 22, 79)]
        equal(values(at), wanted, "rows")
        equal([len(record["groups"]) for record in pinctl(at, "fri", "--json")], [], "records")
        compact(at, mode)
        equal(values(at), wanted, "rows")


def by_pinctl(at, where):
    with scratch() as folder:
        copy = os.path.join(folder, "t.lance")
        shutil.copytree(at, copy, ignore=shutil.ignore_patterns(".pinfs"))
        made = lance.dataset(copy)
        made.delete(where)
        (name,) = set(os.listdir(copy + "/_transactions")) - set(os.listdir(at + "/_transactions"))
        for file in set(os.listdir(copy + "/_deletions")) - set(os.listdir(at + "/_deletions") if os.path.exists(at + "/_deletions") else []):
            os.makedirs(at + "/_deletions", exist_ok=True)
            shutil.copy(os.path.join(copy, "_deletions", file), os.path.join(at, "_deletions", file))
        pinctl(at, "commit", "--transaction", os.path.join(copy, "_transactions", name))
