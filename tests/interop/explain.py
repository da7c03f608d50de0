"""What pinctl says of moved rows, on tables whose histories Lance reads but does not make: who needs a record and by which way, what a release would
free, and what cannot be told."""

import json
import os

import lance
import pyarrow as pa

from support import equal, mounted, pinctl, pinctl_status, scratch

import history
from table import Head, Move

ONE, TWO = "01234567-89ab-4cde-8f01-23456789abcd", "01234567-89ab-4cde-8f01-23456789abce"


def cases():
    yield "a tagged history: the way from each pin to a record", ways
    yield "a tagged history: what a release would free", freed
    yield "a tagged history: a source that cannot be read", untold
    yield "a mixed history: a legacy record, whole, with what follows it", mixed
    yield "a record that straddles an index's coverage", straddling
    yield "stamps: the source is included", stamps
    yield "the mount and pinctl say the same", agree


def rows(first, count):
    return pa.table({"a": pa.array(range(first, first + count), pa.int64())})


def begin(at):
    """Version 1 with fragment 0, of 10 rows, 2 with fragment 1, of 20; pins are enabled as version 3."""
    lance.write_dataset(rows(0, 10), at)
    lance.write_dataset(rows(10, 20), at, mode="append")
    pinctl(at, "enable", "--apply")


def move(at, sources, how, kept=()):
    """Publish a move of these fragments, its record behind `kept`. All records."""
    head = Head(at)
    moved = Move(at, sources)
    records = [*kept, how(moved, head)]
    moved.remove_sources(head)
    head.set_history(b"".join(records), 1)
    head.publish()
    return records


def tagged(at):
    """Pin ONE has fragments 0 and 1, which become 2, which pin TWO has, and which becomes 3 and 4."""
    begin(at)
    pinctl(at, "register", "+1d", "--id", ONE)
    records = move(at, [0, 1], lambda m, head: m.ordered(head, [30]))
    pinctl(at, "register", "+1d", "--id", TWO)
    move(at, [2], lambda m, head: m.partition(head, [0] * 12 + [1] * 18), records)
    lance.dataset(at).count_rows()


def ways():
    with scratch() as folder:
        at = os.path.join(folder, "t.lance")
        tagged(at)
        equal(
            pinctl(at, "fri"),
            "0\ttransition\t0,1>2\tpin:%s\n1\ttransition\t2>3,4\tpin:%s,pin:%s\n" % (ONE, ONE, TWO),
            "records",
        )
        first, second = pinctl(at, "fri", "--json")
        equal([pin["path"] for pin in first["needed_by"]["pins"]], [[{"fragment": 0, "record": 0}]], "way")
        equal(
            [(pin["id"], pin["source_version"], pin["path"]) for pin in second["needed_by"]["pins"]],
            [
                (ONE, 3, [{"fragment": 0, "record": 0}, {"fragment": 2, "record": 1}]),
                (TWO, 5, [{"fragment": 2, "record": 1}]),
            ],
            "ways",
        )
        (group,) = second["groups"]
        (map_file,) = os.listdir(os.path.join(at, group["map"]))
        equal(map_file, "stable_partition.lance", "map")
        equal(os.path.getsize(os.path.join(at, group["map"], map_file)), group["map_bytes"], "size of the map")
        status, said, _ = pinctl_status(at, "why", "fri/1")
        equal(
            (status, said),
            (
                0,
                "pin:%s\tfragment 0 > record 0, fragment 2 > record 1\npin:%s\tfragment 2 > record 1\n" % (ONE, TWO),
            ),
            "why",
        )
        status, said, _ = pinctl_status(at, "why", group["map"] + map_file)
        reasons = [line.split("\t")[0] for line in said.splitlines()]
        equal((status, reasons), (0, ["pin:" + ONE, "pin:" + TWO, "head"]), "why the map")


def freed():
    with scratch() as folder:
        at = os.path.join(folder, "t.lance")
        tagged(at)
        for words, records in (((ONE,), [0]), ((TWO,), []), ((ONE, TWO), [0, 1])):
            said = pinctl(at, "what-if", "release", *words, "--json")
            equal(said["fri_records_freed"], records, "freed by " + " ".join(words))
        assert pinctl(at, "what-if", "release", ONE, TWO).endswith("records    2 of 2 freed: 0, 1\n")
        # And so it is.
        pinctl(at, "release", ONE)
        equal([line.split("\t")[3] for line in pinctl(at, "fri").splitlines()], ["-", "pin:" + TWO], "needed by")
        equal(pinctl_status(at, "why", "fri/0")[0], 1, "status")


def untold():
    with scratch() as folder:
        at = os.path.join(folder, "t.lance")
        tagged(at)
        source = os.path.join(at, "_versions", Head(at, 3).name)
        os.truncate(source, 100)
        status, said, sentence = pinctl_status(at, "fri")
        listed = "0\ttransition\t0,1>2\tunknown\n1\ttransition\t2>3,4\tpin:%s,unknown\n" % TWO
        equal((status, said), (3, listed), "records")
        assert "_versions/" in sentence, sentence
        equal(pinctl_status(at, "why", "fri/0")[0], 3, "why the first")
        equal(pinctl_status(at, "why", "fri/1")[0], 0, "why the second")
        status, said, _ = pinctl_status(at, "what-if", "release", TWO)
        equal((status, said.splitlines()[-1].split(":")[0]), (3, "records    not known"), "what-if")
        # Without the pin whose source is gone all is known again, and it can be let go of.
        pinctl(at, "release", ONE)
        equal([line.split("\t")[3] for line in pinctl(at, "fri").splitlines()], ["-", "pin:" + TWO], "needed by")


def mixed():
    with scratch() as folder:
        at = os.path.join(folder, "t.lance")
        begin(at)
        pinctl(at, "register", "+1d", "--id", ONE)
        head = Head(at)
        both = [Move(at, [number]) for number in (0, 1)]
        groups = [moved.legacy_group(head, [len(moved.rows)]) for moved in both]
        for moved in both:
            moved.remove_sources(head)
        legacy = history.legacy(head.version, *groups)
        head.set_history(legacy, 0)
        head.publish()
        pinctl(at, "register", "+1d", "--id", TWO)
        move(at, [3], lambda m, new: m.ordered(new, [20]), [legacy])
        equal(
            pinctl(at, "fri"),
            "0\tversion 4\t0>2 1>3\tpin:%s\n1\ttransition\t3>4\tpin:%s,pin:%s\n" % (ONE, ONE, TWO),
            "records",
        )


# cases-open A26: what is broken so is listed and reported.
def straddling():
    with scratch() as folder:
        at = os.path.join(folder, "t.lance")
        lance.write_dataset(rows(0, 10), at)
        lance.write_dataset(rows(10, 20), at, mode="append")
        lance.dataset(at).create_scalar_index("a", "BTREE")
        lance.write_dataset(rows(30, 5), at, mode="append")
        pinctl(at, "enable", "--apply")
        head = Head(at)
        moved = Move(at, [1, 2])
        # The index was built from version 2, which is after this stamp.
        record = history.legacy(1, moved.legacy_group(head, [25]))
        moved.remove_sources(head)
        head.set_history(record, 0)
        head.publish()
        status, said, sentence = pinctl_status(at, "fri")
        equal((status, said), (3, "0\tversion 1\t1,2>3\tindex:a_idx,unknown\n"), "records")
        assert "a_idx" in sentence and "rebuild it" in sentence, sentence
        status, said, sentence = pinctl_status(at, "why", "fri/0")
        equal((status, said), (0, "index:a_idx\tit finds its rows through it\n"), "why")
        assert "rebuild it" in sentence, sentence
        status, said, _ = pinctl_status(at, "check")
        equal(status, 3, "check")
        assert "window\tmain\t" in said and "covers some but not all" in said, said
        for words in (["trim"], ["trim", "--apply"]):
            status, _, sentence = pinctl_status(at, *words)
            equal(status, 3, "trim")
            assert "a_idx" in sentence and "rebuild it" in sentence, sentence
        equal(lance.dataset(at).version, head.version + 1, "head")
        pinctl(at, "ls")
        pinctl(at, "status")


# cases-open A31, A28: stamp and fragment 0 are ordinary values.
def stamps():
    with scratch() as folder:
        at = os.path.join(folder, "t.lance")
        begin(at)
        pinctl(at, "register", "+1d", "--id", ONE)
        head = Head(at)
        made = [history.digest(number, 10) for number in range(10)]
        addresses = lambda number: [number << 32 | row for row in range(10)]
        group = lambda i: (addresses(i), [made[i]], [made[i + 1]])
        records = [history.legacy(stamp, group(i)) for i, stamp in enumerate((0, 2, 3, 4))]
        head.set_history(b"".join(records), 0)
        head.publish()
        equal(
            [line.split("\t") for line in pinctl(at, "fri").splitlines()],
            [
                ["0", "version 0", "0>1", "-"],
                ["1", "version 2", "1>2", "-"],
                ["2", "version 3", "2>3", "pin:" + ONE],
                ["3", "version 4", "3>4", "pin:" + ONE],
            ],
            "records",
        )
        equal(pinctl(at, "why", "fri/2"), "pin:%s\tits stamp is not below the source\n" % ONE, "why")


def agree():
    with scratch() as folder:
        at = os.path.join(folder, "t.lance")
        tagged(at)
        with mounted(at) as mount:
            read = lambda name: open(os.path.join(mount, "retention", name)).read()
            equal(
                [json.loads(read("fri/" + name)) for name in sorted(os.listdir(os.path.join(mount, "retention/fri")))],
                pinctl(at, "fri", "--json"),
                "records",
            )
            names = sorted(os.listdir(os.path.join(mount, "retention/snapshots")), key=int)
            versions = pinctl(at, "snapshots", "--reasons", "--json")
            equal([json.loads(read("snapshots/" + name)) for name in names], versions, "snapshots")
            summary = json.loads(read("summary"))
            usage = sorted(pinctl(at, "usage", "--json"), key=lambda pin: pin["source_version"])
            for pin in usage + summary["usage"]:
                # Those follow the clock.
                del pin["age_seconds"], pin["bytes_per_hour"]
            equal(summary["usage"], usage, "usage")
            lines = [line.split("\t") for line in read("files").splitlines()]
            elsewhere = summary["elsewhere"]
            equal(sum(int(line[0]) for line in lines), summary["bytes"]["kept"] + elsewhere["bytes"], "bytes")
            equal(len(lines), summary["files"]["kept"] + elsewhere["files"], "files")
            for size, reasons, name in lines:
                equal(os.path.getsize(os.path.join(at, name)), int(size), "size of " + name)
                said = pinctl(at, "why", name).splitlines()
                equal([line.split("\t")[0] for line in said], reasons.split(","), "reasons of " + name)
            freed_all = pinctl(at, "what-if", "release", ONE, TWO, "--json")
            equal(freed_all["snapshots_freed"], [v["version"] for v in versions[:-1] if v["reasons"]], "freed")
