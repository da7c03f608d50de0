"""Histories of releases that stamp records with the version that a compaction was planned on: an index that was built between plan and commit looks younger
than the record that its payload needs (lance-14-fri correction 4). A trim by pinctl keeps such a record, and every row is found by the index; once the index
was built anew it goes, and what stays is byte for byte what it was."""

import os
import random

import lance
import pyarrow as pa
from lance.optimize import Compaction

from manifest import fields, manifest
from support import LONG, RELEASE, equal, pinctl, scratch

SEED = 20261130
ROUNDS = 20 if LONG else 4
HISTORY = b"__lance_frag_reuse"


def cases():
    yield "an index that was built between plan and commit", between
    yield "random tables, planned and committed at any time, trimmed in between (seed %d)" % SEED, at_random


# --- tables -----------------------------------------------------------------------------------------------------------


def rows(first, count):
    values = pa.array(range(first, first + count), pa.int64())
    return pa.table({"a": values, "b": values})


def plan(ds, target):
    options = dict(target_rows_per_fragment=target, defer_index_remap=True, num_threads=1)
    return [task.execute(ds) for task in Compaction.plan(ds, options=options).tasks]


def commit(ds, results):
    """False if another commit is in the way."""
    try:
        Compaction.commit(ds, results, options=dict(defer_index_remap=True))
    except OSError as error:
        assert "conflict" in str(error), error
        return False
    return True


def entries(at):
    return [fields(entry) for entry in manifest(at, lance.dataset(at).version).get("index", [])]


def elements(at):
    """The records of the head, as bytes."""
    (entry,) = [e for e in entries(at) if e[3] == [HISTORY]] or [None]
    return fields(fields(fields(entry[6][-1])[2][-1])[1][-1]).get(1, []) if entry else []


def stamp(element):
    return fields(element).get(1, [0])[-1]


def built_on(at, name):
    return [e.get(4, [0])[-1] for e in entries(at) if e[3] == [name.encode()]]


def all_found(at, values):
    ds = lance.dataset(at)
    for value in values:
        equal(ds.to_table(columns=["a"], filter="a = %d" % value).num_rows, 1, "row %d" % value)
    equal(ds.count_rows(), len(values), "rows")


def trim(at):
    """How many records went. Those that stay are as they were, in their order."""
    before = elements(at)
    said = pinctl(at, "trim", "--apply", "--json")
    after = elements(at)
    equal(after, [element for element in before if element in after], "records that are left")
    equal(len(before) - len(after), said["dropped"], "records that went")
    return said["dropped"]


# --- cases ------------------------------------------------------------------------------------------------------------


def between():
    with scratch() as folder:
        at = os.path.join(folder, "t.lance")
        lance.write_dataset(rows(0, 20), at, max_rows_per_file=5)
        # Without an index nothing would be recorded.
        lance.dataset(at).create_scalar_index("b", "BTREE")
        handle = lance.dataset(at)
        results = plan(handle, 100)
        lance.write_dataset(rows(20, 5), at, mode="append")
        lance.dataset(at).create_scalar_index("a", "BTREE")
        assert commit(handle, results), "the compaction conflicts with a new index"
        lance.dataset(at).drop_index("b_idx")
        lance.write_dataset(rows(25, 5), at, mode="append")
        (record,) = elements(at)
        # Else this shows nothing.
        assert stamp(record) < built_on(at, "a_idx")[0], "release %s stamps otherwise" % RELEASE
        equal(trim(at), 0, "records that went while the index needs them")
        all_found(at, range(30))
        lance.dataset(at).create_scalar_index("a", "BTREE", replace=True)
        equal(trim(at), 1, "records that went once the index was built anew")
        all_found(at, range(30))
        # The release goes on with what we left.
        lance.write_dataset(rows(30, 5), at, mode="append")
        assert commit(lance.dataset(at), plan(lance.dataset(at), 200)), "a compaction after the trim"
        all_found(at, range(35))
        trim(at)
        all_found(at, range(35))


def at_random():
    older = dropped = 0
    for number in range(ROUNDS):
        dice = random.Random("%d %d" % (SEED, number))
        with scratch() as folder:
            some = one(os.path.join(folder, "t.lance"), dice)
        older, dropped = older + some[0], dropped + some[1]
    assert older and dropped, "%d records kept that look older, %d dropped" % (older, dropped)


def one(at, dice):
    lance.write_dataset(rows(0, 20), at, max_rows_per_file=4)
    lance.dataset(at).create_scalar_index("b", "BTREE")
    count, waiting, older, dropped = 20, [], 0, 0
    for _ in range(14):
        step = dice.choice(["append", "plan", "index", "index", "commit", "commit", "trim"])
        if step == "append":
            lance.write_dataset(rows(count, 4), at, mode="append")
            count += 4
        elif step == "plan":
            handle = lance.dataset(at)
            waiting.append((handle, plan(handle, dice.choice([8, 12, 20]))))
        elif step == "index":
            lance.dataset(at).create_scalar_index(dice.choice("ab"), "BTREE", replace=True)
        elif step == "commit" and waiting:
            handle, results = waiting.pop(dice.randrange(len(waiting)))
            if results:
                commit(handle, results)
        elif step == "trim":
            dropped += trim(at)
            stamps = [stamp(element) for element in elements(at)]
            young = [version for name in ("a_idx", "b_idx") for version in built_on(at, name)]
            older += any(s < version for s in stamps for version in young)
            all_found(at, range(count))
    dropped += trim(at)
    all_found(at, range(count))
    return older, dropped
