"""Where rows went: core's reading of fragment reuse histories against Lance's own translation, for histories that
Lance made and for those that it only reads (tests/fri); and what either refuses."""

import json
import os
import random
import struct
import subprocess
import uuid

import lance
import pyarrow as pa

from support import BUILD, LONG, copy, equal, fixtures, scratch

import history
import roaring
import wire
from histories import History
from table import Head, Move

DUMP = os.path.join(BUILD, "tests/fri_dump")
SEED = 20261129
ROUNDS = 40 if LONG else 6


def cases():
    for fixture in fixtures():
        if fixture.endswith("/fri.lance"):
            yield "%s: every row ends where Lance says" % fixture, fixture_rows, fixture
    yield "v0 histories that Lance made at random (seed %d)" % SEED, chains, "v0"
    yield "v0 histories of random tables and their branches (seed %d)" % SEED, histories
    for form in ("v0", "tagged", "mixed"):
        yield "an external history that Lance made, %s" % form, external, form
    yield "tagged histories that Lance made at random (seed %d)" % SEED, chains, "tagged"
    yield "mixed histories that Lance made at random (seed %d)" % SEED, chains, "mixed"
    yield "sources of a v0 group that do not ascend", descending
    yield "histories with stable partitions (seed %d)" % SEED, partitions
    for name, version, make in defects():
        yield "%s: refused by both" % name, defect, version, make
    for name, version, make in oddities():
        yield "%s: read by both" % name, oddity, version, make, False
    for name, version, make in unknowns():
        yield "%s: read by both, and marked" % name, oddity, version, make, True


# --- what both say ----------------------------------------------------------------------------------------------------


def dump(at, addresses=None, branch=None):
    """What core says of the newest version, with the addresses followed; and its exit status and sentence."""
    given = "\n".join(map(str, addresses or []))
    command = [DUMP, at, *([branch] if branch else [])]
    done = subprocess.run(command, input=given, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    return (json.loads(done.stdout) if done.returncode == 0 else None), done.returncode, done.stderr


def follow(at, addresses, branch=None):
    said, status, sentence = dump(at, addresses, branch)
    assert status == 0, sentence
    return dict(zip(addresses, said["translated"]))


def all_addresses(layout):
    """Every row of these fragments, {id: physical rows}, and one behind the last."""
    return [number << 32 | row for number, rows in layout.items() for row in range(rows + 1)]


def layout_of(ds):
    return {fragment.fragment_id: fragment.physical_rows for fragment in ds.get_fragments()}


def compare_v0(at, addresses):
    ours = follow(at, addresses)
    theirs = lance.dataset(at).remap_row_addrs(pa.array(addresses, pa.uint64())).to_pylist()
    equal([ours[address] for address in addresses], theirs, "addresses")


def scan(ds):
    """{value of the unique column: row address}."""
    return places(ds.scanner(columns=["a"], filter="a >= 0", with_row_address=True, use_scalar_index=False))


def indexed(ds):
    """The same from the index alone, which has nothing to go by but addresses of its day and the history. Empty if the
    index covers nothing any more: Lance compacts fragments with a tagged history together with what is not indexed."""
    scanner = ds.scanner(columns=["a"], filter="a >= 0", with_row_address=True, fast_search=True)
    return places(scanner) if "ScalarIndexQuery" in scanner.explain_plan() else {}


def places(scanner):
    found = scanner.to_table()
    values = found.column("a").to_pylist()
    assert len(values) == len(set(values)), "a row was found twice"
    return dict(sorted(zip(values, found.column("_rowaddr").to_pylist())))


def compare_index(at, before):
    """before: addresses of values in the version that the index was built on. How many rows Lance's index found."""
    ds = lance.dataset(at)
    scanned, by_index = scan(ds), indexed(ds)
    equal(by_index, {value: address for value, address in scanned.items() if value in by_index}, "Lance's index")
    ours, now = follow(at, list(before.values())), set(scanned.values())
    for value, address in before.items():
        if value in scanned:
            equal(ours[address], scanned[value], "the place of row %d" % value)
        else:
            # Deleted before it was moved, or where it is.
            assert ours[address] not in now, "row %d is deleted, and is at %r" % (value, ours[address])
    return len(by_index)


# --- tables that Lance makes ------------------------------------------------------------------------------------------


def rows(first, count):
    values = list(range(first, first + count))
    return pa.table({"a": pa.array(values, pa.int64()), "b": pa.array([str(value) for value in values])})


def new_table(at, sizes, index=True):
    first = 0
    for size in sizes:
        lance.write_dataset(rows(first, size), at, mode="append" if first else "create")
        first += size
    ds = lance.dataset(at)
    if index:
        ds.create_scalar_index("a", "BTREE")
    return lance.dataset(at)


def compact(at, target):
    lance.dataset(at).optimize.compact_files(
        target_rows_per_fragment=target, defer_index_remap=True, materialize_deletions_threshold=0.0
    )


def tag(at):
    """From here on Lance writes transitions."""
    head = Head(at)
    head.flag(history.TAGGED)
    head.publish()


def fixture_rows(fixture):
    with copy(fixture) as at:
        layouts = {}
        for entry in lance.dataset(at).versions():
            layouts.update(layout_of(lance.dataset(at, version=entry["version"])))
        compare_v0(at, all_addresses(layouts))


def chains(form):
    legacy = transitions = found = 0
    for number in range(ROUNDS):
        dice = random.Random("%d %s %d" % (SEED, form, number))
        with scratch() as folder:
            records, by_index = chain(os.path.join(folder, "t.lance"), form, dice)
        found += by_index
        legacy += sum(record["stamp"] is not None for record in records)
        transitions += sum(record["stamp"] is None for record in records)
    assert (legacy >= ROUNDS // 2) == (form != "tagged"), "%d legacy records" % legacy
    assert (transitions >= ROUNDS // 2) == (form != "v0"), "%d transitions" % transitions
    assert found >= 20 * ROUNDS, "the index found %d rows" % found


def chain(at, form, dice):
    ds = new_table(at, [dice.randint(1, 30) for _ in range(dice.randint(6, 12))])
    before, layouts = scan(ds), layout_of(ds)
    if form == "tagged":
        tag(at)
    recorded = 0
    for step in range(8):
        ds = lance.dataset(at)
        # See indexed(): an append would soon take its coverage from the index.
        kind = dice.choice(["append" if form == "v0" or step == 7 else "delete", "delete", "compact", "compact"])
        if kind == "append":
            lance.write_dataset(rows(100_000 + 1000 * step, dice.randint(1, 30)), at, mode="append")
        elif kind == "delete":
            ds.delete("a %% %d = %d" % (dice.randint(3, 9), dice.randint(0, 2)))
        else:
            if form == "mixed" and recorded == 1:
                tag(at)
            compact(at, 20 << step // 2)
            said, status, sentence = dump(at)
            assert status == 0, sentence
            recorded = len(said.get("history", {}).get("records", []))
        layouts.update(layout_of(lance.dataset(at)))
    said, status, sentence = dump(at)
    assert status == 0, sentence
    if "history" not in said:
        return [], 0
    records = said["history"]["records"]
    tagged = [record["stamp"] is None for record in records]
    equal(said["history"]["index_version"], int(any(tagged)), "index_version")
    equal(tagged, sorted(tagged), "legacy records first")
    if not any(tagged):
        compare_v0(at, all_addresses(layouts))
    return records, compare_index(at, before)


def external(form):
    """Two million rows, every third deleted: bitsets of more than 200 KB in one record."""
    with scratch() as folder:
        at = os.path.join(folder, "t.lance")
        count = 2_000_000
        lance.write_dataset(pa.table({"a": pa.array(range(count), pa.int32())}), at, max_rows_per_file=count // 4)
        lance.dataset(at).create_scalar_index("a", "BTREE")
        layouts = layout_of(lance.dataset(at))
        if form == "tagged":
            tag(at)
        for number, target in enumerate((count // 2, 2 * count)):
            lance.dataset(at).delete("a %% 3 = %d and a %% %d < 900" % (number, 1000 - 50 * number))
            layouts.update(layout_of(lance.dataset(at)))
            compact(at, target)
            if form == "mixed" and number == 0:
                tag(at)
        said, status, sentence = dump(at)
        assert status == 0, sentence
        assert said["history"]["external"], "it is inline"
        legacy = [record["stamp"] is not None for record in said["history"]["records"]]
        equal(legacy, {"v0": [True, True], "tagged": [False, False], "mixed": [True, False]}[form], "legacy records")
        if form == "v0":
            compare_v0(at, random.Random(SEED).sample(all_addresses(layouts), 20_000))
        else:
            compare_parts(at, count)


def compare_parts(at, count):
    """Some parts of the table that external() made, whose rows were in order."""
    ds = lance.dataset(at)
    for first in (0, count // 4 - 2000, count // 2 + 31, count - 4000):
        part = "a >= %d and a < %d" % (first, first + 4000)
        scanner = lambda **options: ds.scanner(columns=["a"], filter=part, with_row_address=True, **options)
        scanned, by_index = places(scanner(use_scalar_index=False)), places(scanner(fast_search=True))
        assert len(scanned) > 1000, len(scanned)
        equal(by_index, scanned, "Lance's index")
        before = {value: value // (count // 4) << 32 | value % (count // 4) for value in range(first, first + 4000)}
        ours, now = follow(at, list(before.values())), set(scanned.values())
        for value, address in before.items():
            if value in scanned:
                equal(ours[address], scanned[value], "the place of row %d" % value)
            else:
                assert ours[address] not in now, "row %d is deleted, and is at %r" % (value, ours[address])


def histories():
    """Every address that any version of a line has ever had."""
    records = 0
    for number in range(2 * ROUNDS):
        weights = {"compact": 12, "index": 8, "tagged": 0, "overwrite": 0.2, "merge_column": 0, "detached": 0}
        with scratch() as folder:
            made = History(folder, "fri %d" % (SEED + number), others=0.2, weights=weights)
            for step in ("append", "index", "append", "index", "compact", "compact"):
                made.step(step)
            made.run(18)
            try:
                records += sum(history_of_line(made.at, name) for name in [None, *made.branches()])
            except Exception as error:
                raise AssertionError(str(made)) from error
    assert records >= ROUNDS, "%d records" % records


def history_of_line(at, name):
    """How many records its history has."""
    ds = lance.dataset(at)
    line = ds.checkout_version((name, None)) if name else ds
    said, status, sentence = dump(at, branch=name)
    assert status == 0, sentence
    if "history" not in said:
        return 0
    layouts = {}
    for entry in line.versions():
        layouts.update(layout_of(line.checkout_version((name, entry["version"]))))
    addresses = all_addresses(layouts)
    theirs = line.remap_row_addrs(pa.array(addresses, pa.uint64())).to_pylist()
    ours = follow(at, addresses, name)
    equal([ours[address] for address in addresses], theirs, "addresses")
    return len(said["history"]["records"])


def descending():
    """Lance refuses to write them, and reads the rows of the fragment that is named first as the first ones."""
    with scratch() as folder:
        at = os.path.join(folder, "t.lance")
        ds = new_table(at, [3, 4, 5])
        layouts = layout_of(ds)
        head = Head(at)
        move = Move(at, [2, 0])
        group = move.legacy_group(head, [2, 6])
        move.remove_sources(head)
        head.set_history(history.legacy(head.version, group), 0)
        head.publish()
        layouts.update(layout_of(lance.dataset(at)))
        compare_v0(at, all_addresses(layouts))


# --- tables that Lance only reads -------------------------------------------------------------------------------------


def partitions():
    kinds = []
    for number in range(ROUNDS):
        dice = random.Random("%d partitions %d" % (SEED, number))
        with scratch() as folder:
            kinds += made_up(os.path.join(folder, "t.lance"), dice)
    for kind in ("legacy", "ordered", "partition"):
        assert kinds.count(kind) >= ROUNDS, "only %d of %s" % (kinds.count(kind), kind)


def split(dice, count):
    sizes = []
    while count > 0:
        sizes.append(dice.randint(1, count))
        count -= sizes[-1]
    return sizes


def made_up(at, dice):
    """A chain of every kind of record. Lance's index, which has nothing but the history, must find what its scan finds:
    the proof that the generator writes what it means. Then core must say the same."""
    ds = new_table(at, [dice.randint(2, 20) for _ in range(6)])
    before = scan(ds)
    ours = []
    for step in range(6):
        ds = lance.dataset(at)
        if dice.random() < 0.5:
            ds.delete("a %% %d = %d" % (dice.randint(4, 9), dice.randint(0, 2)))
            ds = lance.dataset(at)
        sources = dice.sample([f.fragment_id for f in ds.get_fragments()], 2)
        head = Head(at)
        kind = dice.choice(["legacy", "ordered", "partition", "partition"]) if step else "legacy"
        if kind == "legacy" and any(made != "legacy" for made, _ in ours):
            kind = "ordered"
        move = Move(at, sorted(sources) if kind == "legacy" else sources)
        if len(move.rows) < 4:
            continue
        if kind == "legacy":
            element = history.legacy(head.version, move.legacy_group(head, split(dice, len(move.rows))))
        elif kind == "ordered":
            element = move.ordered(head, split(dice, len(move.rows)))
        else:
            labels = [0, 1] + [dice.randint(0, 2) for _ in range(len(move.rows) - 3)] + [2]
            dice.shuffle(labels)
            element = move.partition(head, labels)
        ours.append((kind, element))
        # The order of transitions means nothing.
        transitions = [made for name, made in ours if name != "legacy"]
        dice.shuffle(transitions)
        content = b"".join([made for name, made in ours if name == "legacy"] + transitions)
        move.remove_sources(head)
        head.set_history(content, 1, external=dice.random() < 0.3)
        head.publish()
    ds = lance.dataset(at)
    scanned = scan(ds)
    equal(indexed(ds), {value: scanned[value] for value in before if value in scanned}, "what Lance's index finds")
    said, status, sentence = dump(at)
    assert status == 0, sentence
    equal(len(said["history"]["records"]), len(ours), "records")
    check_translated(at, before, scanned, said["history"]["records"])
    return [kind for kind, _ in ours]


def check_translated(at, before, scanned, records):
    """All but what goes through a partition, which only Lance follows."""
    through = {
        digest["id"]
        for record in records
        for group in record["groups"]
        if group["mapping"] == "partition"
        for digest in group["from"]
    }
    makes = {}
    for record in records:
        for group in record["groups"]:
            for digest in group["from"]:
                makes.setdefault(digest["id"], []).extend(d["id"] for d in group["to"])

    def partitioned(fragment):
        return fragment in through or any(partitioned(to) for to in makes.get(fragment, []))

    known = {value: address for value, address in before.items() if not partitioned(address >> 32)}
    ours = follow(at, list(known.values()))
    for value, address in known.items():
        if value in scanned:
            equal(ours[address], scanned[value], "the place of row %d" % value)
    blocked = [address for address in before.values() if address >> 32 in through]
    if blocked:
        _, status, sentence = dump(at, blocked[:1])
        assert status == 1 and "which is not read here" in sentence, sentence


# --- what both refuse, and what both take -----------------------------------------------------------------------------

# Fragments 0, 1, 2 of 5, 5 and 6 rows; what is moved goes to 6 and on, which need not be there to be judged.
D = history.digest


def run(fragment, first, last):
    return [fragment << 32 | row for row in range(first, last + 1)]


def moved(first=0, made=6):
    """A good transition."""
    return history.ordered(run(first, 0, 4), [D(first, 5)], [D(made, 5)])


def defects():
    """(name, index_version, content or a function that puts an entry into a head)."""
    some = run(0, 0, 4)
    raw = lambda bitmap: struct.pack("<QI", 1, 0) + bitmap
    plain = struct.pack("<II", 12346, 1)
    o, ver, g = history.ordered, history.legacy, lambda *a: a
    map_id = b"0badcafe-0000-4000-9000-000000000001"
    part = lambda *fields: history.transition([D(0, 5)], [D(6, 5)], (4, wire.encode(fields)))
    huge = history.transition([D(1, 1 << 32)], [D(7, 1 << 32)], (4, wire.encode([(1, map_id), (2, 9)])))
    yield "more deleted than there are", 1, o(some, [D(0, 5, 6)], [D(6, 5)])
    yield "fragment 2^32-1", 1, o(some, [D(0xFFFFFFFF, 5)], [D(6, 5)])
    yield "fragment 2^32", 1, o(some, [D(1 << 32, 5)], [D(6, 5)])
    yield "2^32 rows", 1, part((1, map_id), (2, 9)) + huge
    yield "fewer rows than live ones", 1, o(some, [D(0, 5)], [D(6, 4)])
    yield "no destination", 1, o(some, [D(0, 5)], [])
    yield "deletions in a destination", 1, o(some, [D(0, 5)], [D(6, 6, 1)])
    yield "no sources", 1, o([], [], [D(6, 0)])
    yield "a source twice", 1, o(some, [D(0, 5), D(0, 5)], [D(6, 10)])
    yield "a destination twice", 1, o(some, [D(0, 5)], [D(6, 2), D(6, 3)])
    yield "an address outside the sources", 1, o(run(9, 0, 4), [D(0, 5)], [D(6, 5)])
    yield "an address behind the last row", 1, o(run(0, 1, 5), [D(0, 5)], [D(6, 5)])
    yield "two producers", 1, moved(0) + moved(1)
    yield "two consumers", 1, moved(0) + moved(0, 7)
    yield "a record twice", 1, moved(0) + moved(0)
    yield "a cycle", 1, o(run(0, 0, 4), [D(0, 5)], [D(1, 5)]) + o(run(1, 0, 4), [D(1, 5)], [D(0, 5)])
    yield "two sizes of a fragment", 1, moved(0) + o(run(6, 0, 5), [D(6, 6)], [D(7, 6)])
    yield "no mapping", 1, history.transition([D(0, 5)], [D(6, 5)])
    yield "two mappings", 1, history.transition([D(0, 5)], [D(6, 5)], (3, b""), (4, b""))
    yield "one mapping twice", 1, history.transition([D(0, 5)], [D(6, 5)], (3, b""), (3, b""))
    uneven = run(0, 0, 4) + run(1, 0, 3)
    yield "rows of one source for those of another", 1, o(uneven, [D(0, 5, 1), D(1, 5)], [D(6, 9)])
    yield "bytes behind a treemap", 1, o(roaring.treemap(some) + b"?", [D(0, 5)], [D(6, 5)])
    yield "a short treemap", 1, o(roaring.treemap(some)[:-1], [D(0, 5)], [D(6, 5)])
    yield "a short treemap in v0", 0, ver(3, g(roaring.treemap(some)[:-1], [D(0, 5)], [D(6, 5)]))
    descends = plain + struct.pack("<HHIHH", 0, 1, 16, 4, 3)
    yield "an array that descends", 0, ver(3, g(raw(descends), [D(0, 5)], [D(6, 2)]))
    yield "a bitset of another count", 0, ver(
        3, g(raw(plain + struct.pack("<HHI", 0, 4999, 16) + b"\xff" * 8192), [D(0, 65536)], [D(6, 5000)])
    )
    yield "runs that overlap", 0, ver(
        3, g(raw(struct.pack("<IBHHHHHHH", 12347, 1, 0, 3, 2, 0, 1, 1, 1)), [D(0, 5)], [D(6, 4)])
    )
    yield "runs that touch", 0, ver(
        3, g(raw(struct.pack("<IBHHHHHHH", 12347, 1, 0, 3, 2, 0, 1, 2, 1)), [D(0, 5)], [D(6, 4)])
    )
    passes = struct.pack("<IBHHHHH", 12347, 1, 0, 1, 1, 65535, 1)
    yield "a run past 65535", 0, ver(3, g(raw(passes), [D(0, 65536)], [D(6, 2)]))
    yield "container keys that descend", 0, ver(
        3, g(raw(struct.pack("<IIHHHHIIHH", 12346, 2, 1, 0, 0, 0, 24, 26, 0, 0)), [D(0, 70000)], [D(6, 2)])
    )
    yield "65537 containers", 0, ver(3, g(raw(struct.pack("<II", 12346, 65537)), [D(0, 5)], [D(6, 5)]))
    yield "an unknown cookie", 0, ver(3, g(raw(struct.pack("<II", 12345, 0)), [D(0, 5)], [D(6, 5)]))
    yield "a map id that is no uuid", 1, part((1, b"xyz"), (2, 9))
    yield "a map of no bytes", 1, part((1, map_id), (2, 0))
    yield "no map id", 1, part((2, 9))
    yield "v0: rows that do not add up", 0, ver(3, g(some, [D(0, 5)], [D(6, 4)]))
    yield "v0: an address outside the group", 0, ver(3, g(run(1, 0, 4), [D(0, 5)], [D(6, 5)]))
    yield "v0: an address behind the last row", 0, ver(3, g(run(0, 1, 5), [D(0, 5)], [D(6, 5)]))
    yield "v0: a source twice", 0, ver(3, g(some, [D(0, 5), D(0, 5)], [D(6, 5)]))
    yield "v0: a source in two groups", 0, ver(3, g(some, [D(0, 5)], [D(6, 5)]), g(some, [D(0, 5)], [D(7, 5)]))
    yield "mixed: deletions that do not add up", 1, ver(3, g(some, [D(0, 5, 1)], [D(6, 5)]))
    yield "mixed: two records move a fragment", 1, ver(3, g(some, [D(0, 5)], [D(6, 5)])) + moved(0, 7)
    yield "a length that passes the end", 1, b"\x12\x7f\x00"
    yield "a length of 2^64-1", 0, b"\x0a" + b"\xff" * 9 + b"\x01"
    yield "a group that is a number", 0, b"\x0a\x02\x18\x01"
    yield "index_version 2", 2, b""
    yield "no details", 1, lambda head: head.index.append(history.entry(None, 1, head.version))
    yield "details of another type", 1, lambda head: head.index.append(
        history.entry(history.inline(b""), 1, head.version, type_url="/lance.table.BTreeIndexDetails")
    )
    yield "no content", 1, lambda head: head.index.append(history.entry(b"", 1, head.version))
    yield "two contents", 1, lambda head: head.index.append(
        history.entry(history.inline(b"") + history.inline(b""), 1, head.version)
    )
    yield "two entries", 1, lambda head: head.index.extend(
        [history.entry(history.inline(moved(0)), 1, head.version), history.entry(history.inline(b""), 0, head.version)]
    )
    yield "an external file that is too short", 1, short_external
    yield "an external file that is missing", 1, missing_external


def short_external(head):
    ours = os.urandom(16)
    details = history.external(head.at, ours, moved(0))
    path = os.path.join(head.at, "_indices", str(uuid.UUID(bytes=ours)), "details.binpb")
    os.truncate(path, os.path.getsize(path) - 1)
    head.index.append(history.entry(details, 1, head.version, uuid_bytes=ours))


def missing_external(head):
    details = wire.field(2, wire.encode([(1, b"details.binpb"), (3, 10)]))
    head.index.append(history.entry(details, 1, head.version))


def oddities():
    some = run(0, 0, 4)
    o, ver, g = history.ordered, history.legacy, lambda *a: a
    yield "v0: a wrong count of deletions", 0, ver(3, g(some, [D(0, 5, 9)], [D(6, 5)]))
    yield "v0: bytes behind a treemap", 0, ver(3, g(roaring.treemap(some) + b"??", [D(0, 5)], [D(6, 5)]))
    yield "v0: no groups", 0, ver(3)
    yield "v0: nothing at all", 0, b""
    yield "tagged: nothing at all", 1, b""
    yield "tagged: transitions in reverse", 1, o(run(6, 0, 4), [D(6, 5)], [D(7, 5)]) + moved(0)
    yield "tagged: everything deleted", 1, o([], [D(0, 5, 5)], [])
    yield "tagged: sources in any order", 1, o(run(0, 0, 4) + run(1, 0, 4), [D(1, 5), D(0, 5)], [D(6, 10)])
    yield "tagged: unknown fields in digests and mapping", 1, history.transition(
        [D(0, 5) + wire.field(9, 1)], [D(6, 5)], (3, wire.encode([[9, 1], [1, roaring.treemap(some)]]))
    )
    yield "an external file that is longer", 1, longer_external


def unknowns():
    """What trims and writers must leave alone."""
    yield "v0: a transition that nobody reads", 0, history.legacy(3, (run(0, 0, 4), [D(0, 5)], [D(6, 5)])) + moved(1, 7)
    yield "an unknown field of a transition", 1, moved(0) + history.transition([D(1, 5)], [D(7, 5)], (9, b""))
    yield "an unknown record", 1, moved(0) + b"\x1a\x00"


def longer_external(head):
    ours = os.urandom(16)
    details = history.external(head.at, ours, moved(0), padding=b"????")
    head.index.append(history.entry(details, 1, head.version, uuid_bytes=ours))


def publish_entry(at, version, make):
    new_table(at, [5, 5, 6])
    head = Head(at)
    if callable(make):
        make(head)
        if version:
            head.flag(history.TAGGED)
    else:
        head.set_history(make, version, bitmap=[0, 1])
    head.publish()


def lance_refuses(at):
    """Why Lance cannot load the indices of this table; None if it can."""
    ds = lance.dataset(at)
    try:
        ds.list_indices()
        ds.scanner(filter="a = 3", fast_search=True).to_table()
        ds.remap_row_addrs(pa.array([0], pa.uint64()))
    except BaseException as error:
        if isinstance(error, (KeyboardInterrupt, SystemExit)):
            raise
        return error
    return None


def defect(version, make):
    with scratch() as folder:
        at = os.path.join(folder, "t.lance")
        publish_entry(at, version, make)
        assert lance_refuses(at) is not None, "Lance takes it"
        _, status, sentence = dump(at)
        assert status == 1 and sentence.endswith(("(-74)\n", "(-95)\n", "(-2)\n")), "core takes it: %s" % sentence


def oddity(version, make, marked):
    with scratch() as folder:
        at = os.path.join(folder, "t.lance")
        publish_entry(at, version, make)
        error = lance_refuses(at)
        assert error is None, "Lance refuses it: %r" % error
        said, status, sentence = dump(at)
        assert status == 0, "core refuses it: %s" % sentence
        equal(said["history"]["unsupported"] is not None, marked, "unsupported")
