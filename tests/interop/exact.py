"""What is committed is what Lance would have built, in the corners: tables and transactions that few people have; and
every kind of bad input, each refused with the sentence that says which, and nothing changed.
"""

import json
import os
import shutil

import lance
import pyarrow as pa
from lance.dataset import LanceOperation as Op
from lance.fragment import FragmentMetadata, write_fragments
from lance.optimize import Compaction

import roaring
import wire
from commit import Twins, compare, compare_rows, new_table
from deeds import append, commit, field_id, replace_column, replace_data, rows, update_columns
from manifest import fields, manifest, readable
from support import bring, equal, pinctl, pinctl_status, scratch


def cases():
    for name, (make, deed) in CORNERS.items():
        yield name, corner, make, deed
    yield "data format 2.0 as it was numbered first", first_numbering
    yield "a Merge that changes a column must bring new data for it", merge_of_another_type
    for kind in ("plain", "tagged"):
        yield "an index on a column that was brought anew meanwhile, on a table that is %s" % kind, index_over_merge, kind, pa.int32()
    yield "an index on a column that is of another type meanwhile", index_over_merge, "tagged", pa.int64()
    for name, function in BAD.items():
        yield "bad input: " + name, function


# --- corners ----------------------------------------------------------------------------------------------------------


class Own(Twins):
    """Twins of a table of one's own."""

    def __init__(self, make, folder):
        self.pinned, self.copy = os.path.join(folder, "pinned.lance"), os.path.join(folder, "copy.lance")
        make(self.pinned)
        pinctl(self.pinned, "enable", "--apply")
        pinctl(self.pinned, "register", "+2h")
        self.make_copy()


def corner(make, deed):
    with scratch() as folder:
        twins = Own(make, folder)
        deed(twins.copy)
        last = lance.dataset(twins.copy).version
        assert last > twins.head, "the deed committed nothing"
        twins.bring_files()
        for version in range(twins.head + 1, last + 1):
            pinctl(twins.pinned, "commit", "--transaction", twins.transaction(version))
            compare(twins, version)
        compare_rows(twins)
        equal(pinctl(twins.pinned, "check"), "", "check")


def blobs(first, nested=False):
    """Two blob columns as they were before data format 2.2; nested: in a struct."""
    kind = {"lance-encoding:blob": "true", "also": "this"}
    schema = pa.schema([("id", pa.int64()), pa.field("b", pa.large_binary(), metadata=kind), ("n", pa.int32())])
    schema = schema.append(pa.field("c", pa.large_binary(), metadata=kind))
    return pa.table([[first, first + 1], [b"x", b"yy"], [1, 2], [b"z", None]], schema)


def blob_table(at):
    lance.write_dataset(blobs(0), at, data_storage_version="2.1")
    lance.dataset(at).add_columns({"later": "n + 1"})
    lance.dataset(at).drop_columns(["later"])  # ids of columns that are gone count


def append_new_blobs(at):
    """The schema changes with the first of them, and no more."""
    lance.dataset(at).update_config({"k": "v"})
    for first in (2, 4):
        lance.write_dataset(blobs(first), at, mode="append", data_storage_version="2.2")
    lance.dataset(at).update_config({"k": "w"})


def clustered(at):
    """Row ids with holes in clusters, which a compaction leaves."""
    ds = lance.write_dataset(rows(0, 8000), at, max_rows_per_file=4000, enable_stable_row_ids=True)
    ds.create_scalar_index("id", "BITMAP")
    lance.dataset(at).delete("id % 1000 < 300 and id < 4000")
    lance.dataset(at).optimize.compact_files(target_rows_per_fragment=4000)


def ask_for_ranges(at):
    ds = lance.dataset(at)
    ds.update_config({"lance.row_ids.range_segments": "True"})
    lance.dataset(at).update({"n": "0"}, where="id % 1000 < 300 and id >= 4000")
    append(at)
    lance.dataset(at).delete("id = 4001")
    lance.dataset(at).update_config({"lance.row_ids.range_segments": "no"})
    lance.dataset(at).update({"n": "1"}, where="id % 1000 >= 500 and id >= 4000")
    lance.dataset(at).update_config({"lance.row_ids.range_segments": "yes"})


def struct_table(at):
    inner = pa.struct([("a", pa.int64()), ("l", pa.list_(pa.int32()))])
    table = pa.table([[1, 2], [{"a": 1, "l": [1]}, {"a": 2, "l": []}]], pa.schema([("id", pa.int64()), ("t", inner)]))
    lance.write_dataset(table, at, max_rows_per_file=1)


def append_structs(at):
    lance.write_dataset(lance.dataset(at).to_table(), at, mode="append")
    lance.dataset(at).drop_columns(["t.a"])
    lance.dataset(at).update({"id": "id + 1"}, where="id = 2")


def managed_blobs(at):
    lance.dataset(at).update_schema_metadata({"lance.blob.managed": "true"})
    append(at)


def own_columns(at):
    """Fragments whose columns are in several files, of which one is left without a live column."""
    new_table("indexed", at)
    for _ in range(2):
        update_columns(at)


def merge_after_updates(at):
    for name in ("n * 2", "n * 3"):
        merged = []
        for fragment in lance.dataset(at).get_fragments():
            one, schema = fragment.merge_columns(lambda batch: pa.record_batch({name[-1] + "x": batch["n"]}), ["n"])
            merged.append(one)
        commit(at, Op.Merge(merged, schema))
    update_columns(at)


def table_of_2_0(at):
    lance.write_dataset(rows(0, 20), at, max_rows_per_file=10, data_storage_version="2.0")


def with_less(at):
    lance.write_dataset(rows(20, 5).drop(["n"]), at, mode="append")
    fragment = lance.dataset(at).get_fragments()[0]
    replace_column(at, fragment, "n", pa.array(range(10), pa.int32()), data_storage_version="2.0")
    lance.dataset(at).update({"n": "1"}, where="id = 11")


def extension_names(at):
    for value in ("my.type", "your.type", None):
        commit(at, Op.UpdateConfig(field_metadata_updates={2: Op.UpdateMap({"ARROW:extension:name": value, "k": "v"})}))
    commit(at, Op.UpdateConfig(field_metadata_updates={1: Op.UpdateMap({"ARROW:extension:name": "a"}, replace=True)}))
    commit(at, Op.UpdateConfig(field_metadata_updates={1: Op.UpdateMap({"k": "v"})}))
    commit(at, Op.UpdateConfig(field_metadata_updates={1: Op.UpdateMap({"k": "w"}, replace=True)}))


def first_numbering():
    """Files of data format 2.0 said 0.3 first; they are none of the legacy format, whose fragments have every column."""
    with scratch() as folder:
        at, place = folder + "/t.lance", folder + "/scratch.lance"
        table_of_2_0(at)
        pinctl(at, "enable", "--apply")
        (fragment,) = write_fragments(rows(20, 5).drop(["n"]), place, data_storage_version="2.0")
        one = fragment.to_json()
        one["files"][0].update(fields=[0, 2], file_major_version=0, file_minor_version=3)
        pinctl(at, "commit", "--append", save(folder, [one]), "--from", place)
        equal(lance.dataset(at).to_table(filter="id >= 20")["n"].to_pylist(), [None] * 5, "column that it lacks")


CORNERS = {
    "a blob column takes its new form with the first file that has it": (blob_table, append_new_blobs),
    "row ids are put in ranges where the table asks for it": (clustered, ask_for_ranges),
    "columns within columns": (struct_table, append_structs),
    "managed blobs are asked for by schema metadata": (lambda at: new_table("plain", at), managed_blobs),
    "data format 2.0": (table_of_2_0, with_less),
    "a column of an extension type, by its metadata": (lambda at: new_table("plain", at), extension_names),
    "columns in files of their own are merged": (own_columns, merge_after_updates),
}


def anew(at, folder, kind):
    """A Merge by which column n has other data in every fragment, under the id it had."""
    ds = lance.dataset(at)
    merged, number = [], field_id(ds, "n")
    for fragment in ds.get_fragments():
        where = "%s/n%d.lance" % (folder, fragment.fragment_id)
        new = lance.write_dataset(pa.table({"n": pa.array(range(fragment.physical_rows), kind)}), where, mode="overwrite")
        file = new.get_fragments()[0].data_files()[0]
        shutil.copy(where + "/data/" + file.path, at + "/data/" + file.path)
        one = fragment.metadata.to_json()
        for old in one["files"]:
            old["fields"] = [-2 if f == number else f for f in old["fields"]]
        one["files"].append({**one["files"][0], "path": file.path, "fields": [number], "column_indices": [0]})
        one["files"][-1]["file_size_bytes"] = file.file_size_bytes
        merged.append(FragmentMetadata.from_json(json.dumps(one)))
    schema = pa.schema([pa.field("id", pa.int64()), pa.field("n", kind), pa.field("s", pa.string())])
    commit(at, Op.Merge(merged, schema))


def index_over_merge(kind, to):
    """An index was built, and then a Merge brought its column anew."""
    with scratch() as folder:
        twins = Twins(kind, folder)
        aside = folder + "/aside.lance"
        shutil.copytree(twins.copy, aside)
        lance.dataset(aside).create_scalar_index("n", "BTREE")
        index = os.path.join(aside, "_transactions", manifest(aside, twins.head + 1)[12][0].decode())
        anew(twins.copy, folder, to)
        bring(aside, twins.copy)
        twins.bring_files()
        pinctl(twins.pinned, "commit", "--transaction", twins.transaction(twins.head + 1))
        compare(twins, twins.head + 1)
        if to != pa.int32():
            found, _, said = pinctl_status(twins.pinned, "commit", "--transaction", index)
            assert found == 75 and 'changed the type of column "n"' in said, said
            return
        pinctl(twins.pinned, "commit", "--transaction", index)
        # By a handle of then: Lance takes the fragments that its handle has for those that the index was built on.
        then = lance.dataset(twins.copy, version=twins.head)
        lance.LanceDataset.commit(then, lance.dataset(aside).read_transaction(twins.head + 1))
        ours, theirs = (readable(manifest(at, twins.head + 2)) for at in (twins.pinned, twins.copy))
        (entry,) = [one for one in ours["indices"] if one[3] == [b"n_idx"]]
        equal(entry[5], set(), "coverage")
        if kind == "tagged":
            equal(ours["indices"], theirs["indices"], "indices")
        ds = lance.dataset(twins.pinned)
        for value in (3, 50):
            equal(ds.to_table(filter="n = %d" % value), ds.scanner(filter="n = %d" % value, use_scalar_index=False).to_table(), "answer")


def merge_of_another_type():
    with scratch() as folder:
        twins = Twins("plain", folder)
        anew(twins.copy, folder, pa.int64())
        twins.bring_files()
        version = twins.head + 1
        good = open(twins.transaction(version), "rb").read()

        def with_merge(change):
            return edit(good, 105, change)

        def without_one(body):
            """One fragment as it was."""
            old = fields_of(manifest_bytes(twins.pinned, twins.head), 2)[1]
            at = [i for i, (number, _) in enumerate(body) if number == 1][1]
            body[at] = [1, old]

        def renumbered(body):
            """A new id for a column, whose data all stays under the old one."""
            for i, (number, value) in enumerate(body):
                if number == 2 and dict(wire.decode(value)).get(2) == b"s":
                    body[i] = [2, wire.encode([[n, 9 if n == 3 else v] for n, v in wire.decode(value)])]

        with Refusal(twins.pinned) as refusal:
            refusal.of(with_merge(without_one), 2, 'changes the type, encoding or nullability of column "n"')
            refusal.of(with_merge(renumbered), 2, 'gives column "s" the id 9')
        pinctl(twins.pinned, "commit", "--transaction", twins.transaction(version))
        compare(twins, version)
        compare_rows(twins)


# --- transactions by hand ---------------------------------------------------------------------------------------------


def manifest_bytes(at, version):
    import struct

    from manifest import manifest_name, section

    with open(manifest_name(at, version), "rb") as file:
        data = file.read()
    return section(data, struct.unpack_from("<q", data, len(data) - 16)[0])


def fields_of(data, number):
    return [value for n, value in wire.decode(data) if n == number]


def edit(transaction, operation, change):
    """With the message of its operation changed, as a list of [number, value]."""
    out = []
    for number, value in wire.decode(transaction):
        if number == operation:
            body = wire.decode(value)
            change(body)
            value = wire.encode(body)
        out.append([number, value])
    return wire.encode(out)


def transaction(operation, *body, read_version=1, uuid="00000000-0000-4000-8000-000000000001"):
    return wire.encode([[1, read_version], [2, uuid.encode()], [operation, wire.encode(body)]])


class Refusal:
    """Bad input, given to pinctl in its different forms; afterwards every file is where it was."""

    def __init__(self, *places):
        self.at, self.places = places[0], places

    def files(self):
        return sorted(
            (os.path.join(folder, name), os.stat(os.path.join(folder, name)).st_nlink)
            for place in self.places
            for folder, _, names in os.walk(place)
            for name in names
        )

    def __enter__(self):
        self.folder = scratch()
        self.file = os.path.join(self.folder.__enter__(), "bad")
        return self

    def __exit__(self, *error):
        self.folder.__exit__(*error)

    def of(self, what, status, sentence, form="--transaction", more=()):
        """form: how it is given. Both commit and, where it can be asked, gate."""
        with open(self.file, "wb") as file:
            file.write(what if isinstance(what, bytes) else json.dumps(what).encode())
        before = self.files()
        found, out, said = pinctl_status(self.at, "commit", form, self.file, *more)
        allowed = status if isinstance(status, tuple) else (status,)
        assert found in allowed and sentence in said, "exit %d, %r; wanted %r, %r" % (found, said, status, sentence)
        equal(out, "", "output")
        equal(self.files(), before, "files")


# --- bad input --------------------------------------------------------------------------------------------------------


def compaction(at):
    """One result of a compaction, as JSON."""
    ds = lance.dataset(at)
    plan = Compaction.plan(ds, {"target_rows_per_fragment": 20, "defer_index_remap": True})
    return [json.loads(task.execute(ds).json()) for task in plan.tasks]


def bare_rewrite(at, results, ids=()):
    """The same as a transaction; ids: of the new fragments."""
    groups = []
    for i, result in enumerate(results):
        old, new = ([FragmentMetadata.from_json(json.dumps(f)) for f in result[part]] for part in ("original_fragments", "new_fragments"))
        if ids:
            new[0].id = ids[i]
        groups.append(Op.RewriteGroup(old, new))
    ds = commit(at, Op.Rewrite(groups, []))
    return os.path.join(at, "_transactions", manifest(at, ds.version)[12][0].decode())


class Bad:
    """Twins, and an append that Lance wrote into a dataset of its own."""

    def __init__(self, kind="plain"):
        self.kind = kind

    def __enter__(self):
        self.scratch = scratch()
        folder = self.folder = self.scratch.__enter__()
        self.twins = Twins(self.kind, folder)
        self.at, self.copy, self.place = self.twins.pinned, self.twins.copy, folder + "/scratch.lance"
        written = write_fragments(rows(100, 15), self.place, max_rows_per_file=10)
        self.fragments = [fragment.to_json() for fragment in written]
        self.refusal = Refusal(self.at, self.place).__enter__()
        return self

    def __exit__(self, *error):
        self.refusal.__exit__(*error)
        self.scratch.__exit__(*error)

    def txn(self, deed):
        """The transaction of a deed on a fresh copy, whose files are brought."""
        shutil.rmtree(self.copy)
        self.twins.make_copy()
        deed(self.copy)
        self.twins.bring_files()
        return open(self.twins.transaction(self.twins.head + 1), "rb").read()

    def append(self, status, sentence, fragments):
        self.refusal.of(fragments, status, sentence, "--append", ("--from", self.place))

    def rewrite(self, status, sentence, results):
        self.refusal.of(results, status, sentence, "--rewrite")

    def transaction(self, status, sentence, data, *more):
        self.refusal.of(data, status, sentence, more=more)


def truncated():
    with Bad() as bad:
        good = {
            "--transaction": bad.txn(append),
            "--append": json.dumps(bad.fragments).encode(),
            "--rewrite": json.dumps(compaction(bad.at)).encode(),
        }
        for form, data in good.items():
            for part in range(12):
                bad.refusal.of(data[: len(data) * part // 12], (2, 3), "", form)
            bad.refusal.of(data[:-1], (2, 3), "", form)
        assert len(bad.refusal.files()) > 0


def another_table():
    with Bad() as bad:
        other = bad.folder + "/other.lance"
        for i in range(bad.twins.head + 3):
            lance.write_dataset(rows(i, 3), other, mode="append")
        last = lance.dataset(other).version
        names = {v: os.path.join(other, "_transactions", manifest(other, v)[12][0].decode()) for v in range(2, last + 1)}

        def theirs(version):
            return open(names[version], "rb").read()

        bad.transaction(2, "is it work for another table or branch?", theirs(last))
        bad.transaction(2, "is it work for another table, or was it cleaned up?", theirs(bad.twins.head))
        # Its files are here, and have no column of this table.
        strange = write_fragments(pa.table({"x": [1]}), bad.folder + "/strange.lance")
        one = strange[0].to_json()
        one["files"][0]["fields"] = [7]
        bad.refusal.of([one], 2, "no column of this table", "--append", ("--from", bad.folder + "/strange.lance"))
        # Made like it, version for version, of other files.
        new_table("plain", other + "2")
        while lance.dataset(other + "2").version < bad.twins.head:
            lance.dataset(other + "2").update_config({"b": "1"})
        bad.rewrite(2, "another table", compaction(other + "2"))


def missing():
    with Bad("indexed") as bad:
        head = bad.twins.head

        def txn(operation, *body):
            return transaction(operation, *body, read_version=head)

        def file(path, ids=(0, 1, 2), base=None):
            return wire.message((1, path), (2, bytes(ids)), (3, bytes(range(len(ids)))), (4, 2), (5, 1), (6, 100), (7, base))

        def fragment(number, *files):
            return wire.message((1, number), *((2, one) for one in files), (4, 10))

        deleted = wire.message((1, 1), *((2, one) for one in fields(fields_of(manifest_bytes(bad.at, head), 2)[1])[2]), (3, wire.message((2, 1), (3, 7), (4, 1))), (4, 10))
        index = wire.message((1, wire.message((1, b"0123456789abcdef"))), (2, b"\1"), (3, b"x_idx"), (4, head))
        for sentence, data in (
            ('data/none.lance", which is not there', txn(100, [1, fragment(0, file(b"none.lance"))])),
            ("base 7", txn(100, [1, fragment(0, file(b"none.lance", base=7))])),
            ("fragment 99, which is not there", txn(101, [2, wire.varint(99)])),
            ('_deletions/1-1-7.arrow", which is not there', txn(101, [1, deleted])),
            ("fragment 99, which is not there", txn(108, [1, wire.varint(99)])),
            ("fragment 99, which is not there", txn(108, [2, fragment(99, file(b"none.lance"))])),
            ("fragment 99, which is not there", txn(111, [1, wire.message((1, 99), (2, file(b"none.lance", (1,))))])),
            ('data/none.lance", which is not there', txn(111, [1, wire.message((1, 1), (2, file(b"none.lance", (1,))))])),
            ("fragment 99, which is not there", txn(104, [3, wire.message((1, fragment(99, file(b"none.lance"))))])),
            ("which are not there", txn(103, [1, index])),
            ("id 9, which is not there", txn(103, [1, index.replace(b"\x12\x01\1", b"\x12\x01\x09")])),
            ("version 99, which is not there", txn(106, [1, 99])),
            ("id 9, which is not there", txn(110, [9, wire.message((1, 9), (2, wire.message((1, wire.message((1, b"k"), (2, b"v"))))))])),
        ):
            bad.transaction(2, sentence, data)
        bad.append(2, "is not there, and not in the table", [{**bad.fragments[0], "files": [{**bad.fragments[0]["files"][0], "path": "none.lance"}]}])
        results = compaction(bad.at)
        bad.rewrite(2, "fragment 77, which is not there", [{**results[0], "original_fragments": [{**results[0]["original_fragments"][0], "id": 77}]}])
        one = {**results[0]["new_fragments"][0]}
        bad.rewrite(2, "none.lance", [{**results[0], "new_fragments": [{**one, "files": [{**one["files"][0], "path": "none.lance"}]}]}])


def row_addresses():
    with Bad() as bad:
        one, *others = compaction(bad.at)
        ids = [fragment["id"] for fragment in one["original_fragments"]]
        table = lance.dataset(bad.at).scanner(columns=["id"], with_row_address=True).to_table()["_rowaddr"].to_pylist()
        live = [address for address in table if address >> 32 in ids]
        deleted = next(a for a in range(ids[0] << 32, (ids[0] << 32) + 10) if a not in live)

        def with_rows(addresses):
            return [{**one, "row_addrs": list(roaring.treemap(addresses))}] + others

        assert sorted(live) == live and len(live) == 38, live
        for sentence, addresses in (
            ("live rows", live[1:]),
            ("live rows", sorted(live + [deleted])),
            ("is deleted", sorted([a for a in live if a != ids[0] << 32] + [deleted])),
            ("fragment 9", live + [9 << 32]),
            ("which has 10", live[:-1] + [ids[-1] << 32 | 10]),
        ):
            bad.rewrite(2, sentence, with_rows(addresses))
        bad.rewrite(3, "row addresses", [{**one, "row_addrs": one["row_addrs"] + [0]}])
        bad.rewrite(3, "row addresses", [{**one, "row_addrs": one["row_addrs"][:-1]}])
        bad.rewrite(2, "row_addrs", [{**one, "row_addrs": [300]}])
        pinctl(bad.at, "gate", save(bad.folder, with_rows(live)))


def save(folder, results):
    with open(folder + "/results.json", "w") as file:
        json.dump(results, file)
    return folder + "/results.json"


def repeated_group():
    with Bad() as bad:
        results = compaction(bad.at)
        bad.rewrite(2, "twice", results + results[:1])
        within = {**results[0], "original_fragments": results[0]["original_fragments"] + results[0]["original_fragments"][:1]}
        bad.rewrite(2, "twice", [within])
        bring(bad.at, bad.copy)
        good = open(bare_rewrite(bad.copy, results), "rb").read()

        def again(body):
            body.append([number for number in body if number[0] == 3][0])

        bad.transaction(2, "twice", edit(good, 104, again))
        again_there = bad.txn(replace_data)
        pinctl(bad.at, "commit", "--transaction", bad.twins.transaction(bad.twins.head + 1))
        pinctl(bad.at, "commit", "--transaction", bad.twins.transaction(bad.twins.head + 1))
        newer = wire.encode([[n, bad.twins.head + 1 if n == 1 else b"1" + v[1:] if n == 2 else v] for n, v in wire.decode(again_there)])
        bad.transaction(2, "by what is there", newer)
        bad.transaction(2, "updates fragment 0 twice", edit(bad.txn(lambda at: lance.dataset(at).delete("id = 5")), 101, lambda body: body.append(body[0])))
        bad.transaction(2, "updates fragment 0 twice", edit(bad.txn(update_columns), 108, lambda body: body.append([n for n in body if n[0] == 2][0])))


def live_ids():
    with Bad() as bad:
        bad.append(2, "two fragments with the id 2", [{**bad.fragments[0], "id": 2}])
        bad.append(2, "two fragments with the id 50", [{**one, "id": 50} for one in bad.fragments])
        results = compaction(bad.at)
        for ids in ((3, 40), (0, 1)):
            # A transaction keeps the ids that its fragments have, also of those that go in it. Lance takes them.
            shutil.rmtree(bad.copy)
            bad.twins.make_copy()
            bring(bad.at, bad.copy)
            groups = results[: len(ids)]
            if ids[0] == 0:
                ids = [groups[0]["original_fragments"][1]["id"], 41]
            data = open(bare_rewrite(bad.copy, groups, ids), "rb").read()
            bad.transaction(2, "has the id %d of one that is there" % ids[0], data)
        update = bad.txn(lambda at: lance.dataset(at).update({"n": "0"}, where="id = 5"))

        def with_id(body):
            at = [i for i, (number, _) in enumerate(body) if number == 3][0]
            body[at] = [3, wire.encode([[1, 2]] + wire.decode(body[at][1]))]

        bad.transaction(2, "two fragments with the id 2", edit(update, 108, with_id))


def feature_bits():
    with Bad() as bad:
        head = bad.twins.head
        bad.append(2, "overlays (feature bit 6)", [{**bad.fragments[0], "overlays": [{}]}])
        bad.append(2, "row ids (feature bit 1)", [{**bad.fragments[0], "row_id_meta": {"Inline": [10, 4, 10, 2, 16, 5]}}])
        good = bad.txn(append)

        def more(number, value):
            """The first new fragment has this field."""

            def change(body):
                body[0] = [1, wire.encode(wire.decode(body[0][1]) + [[number, value]])]

            return edit(good, 100, change)

        bad.transaction(2, "overlays (feature bit 6)", more(11, wire.message((3, head))))
        bad.transaction(2, "row ids (feature bit 1)", more(5, bytes([10, 4, 10, 2, 16, 10])))
        bad.transaction(2, "row ids in a file of their own", more(6, wire.message((1, b"x"), (3, 1))))
        bad.transaction(2, "DataOverlay is not an operation", transaction(115, [1, wire.message((1, 1))], read_version=head))
        bad.transaction(2, "UpdateMemWalState is not an operation", transaction(112, read_version=head))
        bad.transaction(2, "Unknown is not an operation", transaction(117, read_version=head))
        wal = wire.message((1, wire.message((1, b"0123456789abcdef"))), (3, b"__lance_mem_wal"), (4, head))
        bad.transaction((1, 2, 3), "MemWAL", transaction(103, [1, wal], read_version=head))
        legacy = write_fragments(rows(0, 3), bad.folder + "/legacy.lance", data_storage_version="legacy")
        bad.refusal.of([legacy[0].to_json()], 2, "cannot be mixed", "--append", ("--from", bad.folder + "/legacy.lance"))


def wrong_columns():
    with Bad() as bad:
        good = bad.fragments[0]

        def with_file(**members):
            return [{**good, "files": [{**good["files"][0], **members}]}]

        bad.append(2, "says of 2 which column they are", with_file(column_indices=[0, 1]))
        bad.append(2, 'says of column "n" that it has no column there', with_file(column_indices=[0, -1, 1]))
        bad.append(2, "has the column with id 1 twice", with_file(fields=[0, 1, 1]))
        two = [{**good, "files": good["files"] + [{**good["files"][0], "fields": [1], "column_indices": [1]}]}]
        bad.append(2, "has the column with id 1 twice", two)


BAD = {
    "truncated": truncated,
    "of another table": another_table,
    "fragments or files that do not exist": missing,
    "row addresses that do not match the fragments": row_addresses,
    "a group that is repeated": repeated_group,
    "new fragments with live ids": live_ids,
    "a feature bit that is not written": feature_bits,
    "columns that are not where a file says": wrong_columns,
}
