"""Prepared work, committed by Lance on an unpinned copy of a table and by pinctl on the pinned one: the same versions come out.

A case is a kind of table and a deed. The deed is done by Lance on the copy, as many commits as it takes; the transactions that lie there afterwards are
what pinctl is given, one after the other. Of each version the manifests must be equal but for the time, section offsets, bit 19 and the pins.
"""

import glob
import json
import os
import shutil
import struct

import lance
import pyarrow as pa

import fri
from lance.dataset import LanceOperation as Op
from lance.fragment import FragmentMetadata, write_fragments

from support import FLAG, LONG, equal, pinctl, pinctl_status, scratch


def cases():
    for kind in KINDS:
        for name, deed in sorted(DEEDS.items()):
            if name in NOT_FOR.get(kind, ()):
                continue
            yield "%s on a table that is %s" % (name, kind), lambda kind=kind, deed=deed: differential(kind, deed)
    for kind in ("plain", "indexed", "stable"):
        # With a pin the movement must be recorded, which is another command's.
        name = "compaction without pins on a table that is %s" % kind
        yield name, lambda kind=kind: differential(kind, compact, pin=False)
    yield "a transaction is committed once", once
    yield "the file of the transaction is the user's", own_file
    yield "fragments as JSON, brought from a scratch dataset", append_json
    yield "fragments as JSON that are refused", bad_json
    yield "what bad input is refused, and nothing changes", bad_input
    yield "what may be committed over what", matrix


# --- tables -----------------------------------------------------------------------------------------------------------


def rows(first, count):
    ids = range(first, first + count)
    columns = {"id": pa.array(ids, pa.int64()), "n": pa.array([i * 10 for i in ids], pa.int32())}
    return pa.table({**columns, "s": pa.array(["row %d" % i for i in ids])})


# moved: a compaction left the remapping of its indices for later; tagged: as transitions.
KINDS = ("plain", "indexed", "stable", "moved", "tagged", "legacy")


def new_table(kind, at):
    if kind == "legacy":
        lance.write_dataset(rows(0, 40), at, max_rows_per_file=10, data_storage_version="legacy")
        lance.dataset(at).delete("id in (3, 17)")
        lance.dataset(at).update_config({"a": "1"})
        return
    stable = kind == "stable"
    ds = lance.write_dataset(rows(0, 40), at, max_rows_per_file=10, enable_stable_row_ids=stable)
    if kind != "plain":
        ds.create_scalar_index("id", "BTREE")
        ds.create_scalar_index("s", "BITMAP")
    ds = lance.dataset(at)
    ds.delete("id in (3, 17)")
    ds.update_config({"a": "1"})
    if kind == "tagged":
        fri.tag(at)
    if kind in ("moved", "tagged"):
        fri.compact(at, 20)
        lance.write_dataset(rows(40, 10), at, mode="append")


class Twins:
    """A table with a pin, and a copy of it without."""

    def __init__(self, kind, folder, pin=True):
        self.pinned, self.copy = os.path.join(folder, "pinned.lance"), os.path.join(folder, "copy.lance")
        new_table(kind, self.pinned)
        pinctl(self.pinned, "enable", "--apply")
        if pin:
            pinctl(self.pinned, "register", "+2h")
        self.make_copy()

    def make_copy(self):
        shutil.copytree(self.pinned, self.copy)
        for name in glob.glob(self.copy + "/_versions/*.manifest"):
            unflag(name)
        self.head = lance.dataset(self.copy).version

    def bring_files(self):
        """What the deed wrote, but for manifests and transactions, into the pinned table."""
        for folder, _, names in os.walk(self.copy):
            relative = os.path.relpath(folder, self.copy)
            if relative.split("/")[0] in ("data", "_deletions", "_indices"):
                os.makedirs(os.path.join(self.pinned, relative), exist_ok=True)
                for name in names:
                    to = os.path.join(self.pinned, relative, name)
                    if not os.path.exists(to):
                        shutil.copy2(os.path.join(folder, name), to)

    def transaction(self, version):
        return os.path.join(self.copy, "_transactions", manifest(self.copy, version)[12][0].decode())


def differential(kind, deed, pin=True):
    with scratch() as folder:
        twins = Twins(kind, folder, pin)
        deed(twins.copy)
        last = lance.dataset(twins.copy).version
        assert last > twins.head, "the deed committed nothing"
        twins.bring_files()
        for version in range(twins.head + 1, last + 1):
            said = pinctl(twins.pinned, "commit", "--transaction", twins.transaction(version), "--json")
            equal(said["version"], version, "version")
            compare(twins, version, kind == "moved")
        equal(len(pinctl(twins.pinned, "ls", "--json")), pin, "pins")
        assert pinctl(twins.pinned, "check") == "", "check finds something"
        compare_rows(twins)


def compare_rows(twins):
    ours, theirs = lance.dataset(twins.pinned), lance.dataset(twins.copy)
    equal(ours.to_table(with_row_id=True).to_pylist(), theirs.to_table(with_row_id=True).to_pylist(), "rows")
    ours.validate()
    if "id" in ours.schema.names:
        for wanted in ("id = 12", "id >= 38", "s = 'row 21'" if "s" in ours.schema.names else "id = 21"):
            found = [ds.to_table(filter=wanted).to_pylist() for ds in (ours, theirs)]
            equal(found[0], found[1], wanted)


# --- manifests by hand ------------------------------------------------------------------------------------------------


def varint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        shift += 7
        at += 1
        if data[at - 1] < 0x80:
            return value, at


def fields(data):
    """{number: [values]}, in order; bytes for what has a length."""
    found, at = {}, 0
    while at < len(data):
        tag, at = varint(data, at)
        if tag & 7 == 0:
            value, at = varint(data, at)
        elif tag & 7 == 2:
            size, at = varint(data, at)
            value, at = data[at : at + size], at + size
        else:
            raise ValueError("wire type %d" % (tag & 7))
        found.setdefault(tag >> 3, []).append(value)
    return found


def manifest_name(at, version):
    return "%s/_versions/%020d.manifest" % (at, 2**64 - 1 - version)


def section(data, at):
    (size,) = struct.unpack_from("<I", data, at)
    return data[at + 4 : at + 4 + size]


def manifest(at, version):
    with open(manifest_name(at, version), "rb") as file:
        data = file.read()
    (at,) = struct.unpack_from("<q", data, len(data) - 16)
    found = fields(section(data, at))
    if 6 in found:
        found["index"] = fields(section(data, found[6][0])).get(1, [])
    return found


def unflag(name):
    """Clear bit 19 where the manifest stands: the number keeps its length."""
    with open(name, "r+b") as file:
        data = bytearray(file.read())
        (at,) = struct.unpack_from("<q", data, len(data) - 16)
        end, at = len(data) - 16, at + 4
        while at < end:
            tag, value_at = varint(data, at)
            if tag & 7 == 0:
                value, at = varint(data, value_at)
                if tag >> 3 == 10 and value & FLAG:
                    value &= ~FLAG
                    for i in range(value_at, at):
                        data[i] = (value >> 7 * (i - value_at)) & 0x7F | (0x80 if i < at - 1 else 0)
            else:
                size, at = varint(data, value_at)
                at += size
        file.seek(0)
        file.write(data)


def bitmap(data):
    """The values of a portable roaring bitmap."""
    cookie, count = struct.unpack_from("<HH", data)
    at, runs = 4, b""
    if cookie == 12347:
        count += 1
        runs = data[at : at + (count + 7) // 8]
        at += len(runs)
    else:
        (count,) = struct.unpack_from("<I", data, 4)
        at = 8
    heads = [struct.unpack_from("<HH", data, at + 4 * i) for i in range(count)]
    at += 4 * count
    if cookie != 12347 or count >= 4:
        at += 4 * count
    values = set()
    for i, (key, size) in enumerate(heads):
        if runs and runs[i // 8] >> i % 8 & 1:
            (n,) = struct.unpack_from("<H", data, at)
            for k in range(n):
                start, more = struct.unpack_from("<HH", data, at + 2 + 4 * k)
                values.update(key << 16 | start + j for j in range(more + 1))
            at += 2 + 4 * n
        elif size + 1 <= 4096:
            values.update(key << 16 | v for v in struct.unpack_from("<%dH" % (size + 1), data, at))
            at += 2 * (size + 1)
        else:
            bits = int.from_bytes(data[at : at + 8192], "little")
            values.update(key << 16 | j for j in range(65536) if bits >> j & 1)
            at += 8192
    return values


def readable(found):
    """What is to be equal of a manifest."""
    fragments = []
    for raw in found.get(2, []):
        one = fields(raw)
        one[2] = [fields(file) for file in one.get(2, [])]
        fragments.append(one)
    entries = []
    for raw in found.get("index", []):
        one = fields(raw)
        if 5 in one:
            one[5] = bitmap(one[5][-1])
        entries.append(one)
    columns = [fields(raw) for raw in found.get(1, [])]
    for one in columns:
        one[10] = sorted(one.get(10, []))
    same = {number: found.get(number) for number in (3, 4, 8, 9, 11, 12, 13, 14, 15, 17, 20, 22, 24, 25, 26)}
    maps = {number: sorted(found.get(number, [])) for number in (5, 16, 18, 19)}
    flags = found.get(10, [0])[0] & ~FLAG
    return {**same, **maps, "columns": columns, "writer flags": flags, "fragments": fragments, "indices": entries}


def compare(twins, version, moved=False):
    """moved: coverage of indices is carried as it is, and Lance translates it."""
    ours, theirs = manifest(twins.pinned, version), manifest(twins.copy, version)
    assert ours[10][0] & FLAG, "pins are not enabled"
    equal(ours[21], ours[23], "offsets of the transaction")
    ours, theirs = readable(ours), readable(theirs)
    for entry in ours["indices"] + theirs["indices"] if moved else []:
        entry.pop(5, None)
    for part in theirs:
        equal(ours[part], theirs[part], "version %d, %s" % (version, part))


# --- deeds ------------------------------------------------------------------------------------------------------------


def commit(at, operation, read_version=None):
    ds = lance.dataset(at)
    return lance.LanceDataset.commit(ds, operation, read_version=read_version or ds.version)


def metadata(at):
    return [fragment.metadata for fragment in lance.dataset(at).get_fragments()]


def append(at):
    lance.write_dataset(rows(100, 15), at, mode="append", max_rows_per_file=10)


def delete_rows(at):
    lance.dataset(at).delete("id in (5, 6, 25)")


def delete_fragment(at):
    lance.dataset(at).delete("id >= 10 and id < 20")


def delete_all(at):
    lance.dataset(at).truncate_table()


def update(at):
    lance.dataset(at).update({"n": "n + 1"}, where="id in (1, 2, 22)")


def update_indexed(at):
    lance.dataset(at).update({"s": "'new'"}, where="id in (4, 31)")


def update_whole_fragment(at):
    lance.dataset(at).update({"n": "0"}, where="id >= 20 and id < 30")


def merge_insert(at):
    new = rows(35, 10)
    lance.dataset(at).merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(new)


def merge_insert_columns(at):
    new = pa.table({"id": pa.array([1, 2, 12], pa.int64()), "n": pa.array([7, 8, 9], pa.int32())})
    lance.dataset(at).merge_insert("id").when_matched_update_all().execute(new)


def overwrite(at):
    lance.write_dataset(pa.table({"id": pa.array(range(7), pa.int64()), "x": pa.array(["y"] * 7)}), at, mode="overwrite")


def overwrite_by_nothing(at):
    fragments = write_fragments(rows(0, 12), at, mode="overwrite", max_rows_per_file=6)
    commit(at, Op.Overwrite(lance.dataset(at).schema, fragments))


def create_index(at):
    lance.dataset(at).create_scalar_index("n", "BTREE")


def replace_index(at):
    lance.dataset(at).create_scalar_index("n", "BTREE")
    lance.dataset(at).create_scalar_index("n", "BTREE", replace=True)


def extend_index(at):
    append(at)
    lance.dataset(at).create_scalar_index("n", "BTREE")
    append(at)
    lance.dataset(at).optimize.optimize_indices(num_indices_to_merge=0)
    lance.dataset(at).delete("id >= 100")


def drop_index(at):
    lance.dataset(at).create_scalar_index("n", "BTREE")
    lance.dataset(at).drop_index("n_idx")


def add_column(at):
    lance.dataset(at).add_columns({"m": "n * 2"})


def add_column_of_nulls(at):
    lance.dataset(at).add_columns(pa.field("z", pa.int64()))


def cast_column(at):
    lance.dataset(at).alter_columns({"path": "n", "data_type": pa.int64()})


def rename_column(at):
    lance.dataset(at).alter_columns({"path": "n", "name": "number"})


def drop_column(at):
    lance.dataset(at).add_columns({"m": "n * 2"})
    lance.dataset(at).drop_columns(["m"])


def drop_indexed_column(at):
    lance.dataset(at).drop_columns(["s"])


def config(at):
    ds = lance.dataset(at)
    ds.update_config({"b": "2", "a": None, "empty": ""})
    ds.update_config({"b": None, "empty": None})


def metadata_of_all_kinds(at):
    ds = lance.dataset(at)
    ds.update_metadata({"owner": "me"})
    ds.update_schema_metadata({"k": "v"})
    commit(at, Op.UpdateConfig(config_updates=Op.UpdateMap({"only": "this"}, replace=True)))
    commit(at, Op.UpdateConfig(field_metadata_updates={1: Op.UpdateMap({"unit": "km", "was": "m"})}))
    commit(at, Op.UpdateConfig(field_metadata_updates={1: Op.UpdateMap({"unit": None})}))


def restore(at):
    ds = lance.dataset(at)
    version = ds.version
    append(at)
    lance.dataset(at).drop_columns(["n"])
    lance.dataset(at, version=version).restore()
    append(at)


def restore_first(at):
    lance.dataset(at, version=1).restore()
    append(at)


def field_id(ds, name):
    return ds.lance_schema.field(name).id()


def replace_column(at, fragment, name, values):
    """By a file of its own, which Lance writes elsewhere."""
    ds, where = lance.dataset(at), "%s.scratch-%s" % (at, values[0])
    new = lance.write_dataset(pa.table({name: values}), where)
    file = new.get_fragments()[0].data_files()[0]
    shutil.copy(os.path.join(where, "data", file.path), os.path.join(at, "data", file.path))
    version = file.file_major_version, file.file_minor_version
    file = lance.fragment.DataFile(file.path, [field_id(ds, name)], [0], *version, file.file_size_bytes)
    commit(at, Op.DataReplacement([Op.DataReplacementGroup(fragment.fragment_id, file)]))


def replace_data(at):
    fragment = lance.dataset(at).get_fragments()[-2]
    replace_column(at, fragment, "n", pa.array([5] * fragment.physical_rows, pa.int32()))


def replace_indexed_data(at):
    lance.dataset(at).create_scalar_index("n", "BTREE")
    replace_data(at)


def replace_own_file(at):
    """A column in a file of its own, and then its data replaced."""
    lance.dataset(at).add_columns(pa.field("z", pa.int64()))
    fragment = lance.dataset(at).get_fragments()[0]
    for value in (1, 2):
        replace_column(at, fragment, "z", pa.array([value] * fragment.physical_rows, pa.int64()))


def update_columns(at):
    fragment = lance.dataset(at).get_fragments()[0]
    new = pa.table({"id": pa.array([1, 2, 5], pa.int64()), "n": pa.array([1, 2, 3], pa.int32())})
    updated, modified, *offsets = fragment.update_columns(new, left_on="id", right_on="id")
    more = {"updated_fragment_offsets": offsets[0]} if offsets and offsets[0] else {}
    commit(at, Op.Update(updated_fragments=[updated], fields_modified=modified, update_mode="rewrite_columns", **more))


def update_indexed_columns(at):
    lance.dataset(at).create_scalar_index("n", "BTREE")
    append(at)
    update_columns(at)


def merge_rows_and_columns(at):
    ds = lance.dataset(at)
    merged = []
    for fragment in ds.get_fragments():
        one, schema = fragment.merge_columns(lambda batch: pa.record_batch({"twice": batch["n"]}), ["n"])
        merged.append(one)
    commit(at, Op.Merge(merged, schema))


def compact(at):
    lance.dataset(at).optimize.compact_files(target_rows_per_fragment=20)


DEEDS = {
    "append": append,
    "delete of rows": delete_rows,
    "delete of a fragment": delete_fragment,
    "delete of all": delete_all,
    "update": update,
    "update of an indexed column": update_indexed,
    "update of a whole fragment": update_whole_fragment,
    "merge insert": merge_insert,
    "merge insert of columns": merge_insert_columns,
    "overwrite": overwrite,
    "overwrite by fragments": overwrite_by_nothing,
    "create index": create_index,
    "replace index": replace_index,
    "extend index": extend_index,
    "drop index": drop_index,
    "add column": add_column,
    "add column of nulls": add_column_of_nulls,
    "cast column": cast_column,
    "rename column": rename_column,
    "drop column": drop_column,
    "drop indexed column": drop_indexed_column,
    "config": config,
    "metadata": metadata_of_all_kinds,
    "restore": restore,
    "restore of the first version": restore_first,
    "replace data": replace_data,
    "replace indexed data": replace_indexed_data,
    "replace a column's own file": replace_own_file,
    "update columns": update_columns,
    "update indexed columns": update_indexed_columns,
    "merge columns": merge_rows_and_columns,
}

NOT_FOR = {
    # Lance itself refuses these there.
    "legacy": ("add column of nulls", "replace data", "replace indexed data", "replace a column's own file"),
    # Lance drops a segment by its translated coverage; here it stays.
    "moved": ("extend index",),
}


# --- by itself --------------------------------------------------------------------------------------------------------


def once():
    with scratch() as folder:
        twins = Twins("plain", folder)
        append(twins.copy)
        twins.bring_files()
        file = twins.transaction(twins.head + 1)
        first = pinctl(twins.pinned, "commit", "--transaction", file, "--dry-run", "--json")
        equal((first["version"], first["committed"]), (twins.head + 1, False), "dry run")
        equal(lance.dataset(twins.pinned).version, twins.head, "head after a dry run")
        for already in (False, True):
            said = pinctl(twins.pinned, "commit", "--transaction", file, "--json")
            equal((said["version"], said["already"]), (twins.head + 1, already), "version, already")
        equal(lance.dataset(twins.pinned).version, twins.head + 1, "head")


def own_file():
    with scratch() as folder:
        twins = Twins("plain", folder)
        append(twins.copy)
        twins.bring_files()
        file = os.path.join(twins.pinned, "_transactions", os.path.basename(twins.transaction(twins.head + 1)))
        shutil.copy(twins.transaction(twins.head + 1), file)
        pinctl(twins.pinned, "commit", "--transaction", file)
        assert os.path.exists(file), "the file is gone"
        compare(twins, twins.head + 1)


def append_json():
    for kind in ("indexed", "stable"):
        with scratch() as folder:
            twins = Twins(kind, folder)
            place, text = folder + "/scratch.lance", folder + "/fragments.json"
            fragments = write_fragments(rows(100, 15), place, max_rows_per_file=10)
            names = [file.path for fragment in fragments for file in fragment.files]
            with open(text, "w") as file:
                json.dump([fragment.to_json() for fragment in fragments], file)
            pinctl(twins.pinned, "commit", "--append", text, "--from", place, "--dry-run")
            equal(sorted(os.listdir(place + "/data")), sorted(names), "files after a dry run")
            said = pinctl(twins.pinned, "commit", "--append", text, "--from", place, "--json")
            equal((said["operation"], said["version"]), ("Append", twins.head + 1), "operation, version")
            equal(os.listdir(place + "/data"), [], "files left")
            for name in names:
                os.link(os.path.join(twins.pinned, "data", name), os.path.join(twins.copy, "data", name))
            # The same transaction, committed by Lance.
            commit(twins.copy, lance.dataset(twins.pinned).read_transaction(said["version"]).operation)
            ours, theirs = (readable(manifest(at, said["version"])) for at in (twins.pinned, twins.copy))
            del ours[12], theirs[12]
            equal(ours, theirs, "manifest")
            compare_rows(twins)


def bad_json():
    with scratch() as folder:
        twins = Twins("plain", folder)
        place, text = folder + "/scratch.lance", folder + "/fragments.json"
        (fragment,) = write_fragments(rows(100, 5), place)
        name = fragment.files[0].path

        def attempt(status, sentence, **changes):
            with open(text, "w") as file:
                json.dump([{**fragment.to_json(), **changes}], file)
            before = sorted(os.listdir(twins.pinned + "/data") + os.listdir(twins.pinned + "/_versions"))
            found, _, err = pinctl_status(twins.pinned, "commit", "--append", text, "--from", place)
            assert found == status and sentence in err, "exit %d, %r; wanted %d, %r" % (found, err, status, sentence)
            now = sorted(os.listdir(twins.pinned + "/data") + os.listdir(twins.pinned + "/_versions"))
            equal(now, before, "files")
            equal(os.listdir(place + "/data"), [name], "files of the scratch dataset")

        attempt(2, "is not known", invented=1)
        attempt(2, "does not say how many rows", physical_rows=0)
        attempt(2, "files: expected an array", files=None)
        attempt(2, "has deleted rows", deletion_file={"read_version": 1, "id": 2**64 - 1, "file_type": "array", "num_deleted_rows": 1})
        attempt(2, "stable row ids", row_id_meta={"Inline": [10, 4, 10, 2, 16, 5]})
        attempt(2, "two fragments with the id 2", id=2)
        attempt(2, "overlays", overlays=[{}])
        attempt(2, "is not there, and not in the table", files=[{**fragment.to_json()["files"][0], "path": "none.lance"}])
        attempt(2, "no column of this table", files=[{**fragment.to_json()["files"][0], "fields": [7, 8, 9]}])
        attempt(2, "base 7", files=[{**fragment.to_json()["files"][0], "base_id": 7}])
        with open(os.path.join(twins.pinned, "data", name), "w") as file:
            file.write("another")
        attempt(1, "nothing is overwritten")
        with open(text, "w") as file:
            file.write("[{")
        found, _, err = pinctl_status(twins.pinned, "commit", "--append", text)
        assert found == 2 and "not JSON" in err, err


def refused(at, file, status, sentence):
    before = sorted(os.listdir(at + "/_versions") + os.listdir(at + "/_transactions"))
    found, out, err = pinctl_status(at, "commit", "--transaction", file)
    assert found == status and sentence in err, "exit %d, %r; wanted %d, %r" % (found, err, status, sentence)
    equal(out, "", "output")
    equal(sorted(os.listdir(at + "/_versions") + os.listdir(at + "/_transactions")), before, "files")


def bad_input():
    with scratch() as folder:
        twins = Twins("plain", folder)
        bad = os.path.join(folder, "bad.txn")

        def write(data):
            with open(bad, "wb") as file:
                file.write(data)

        append(twins.copy)
        good = open(twins.transaction(twins.head + 1), "rb").read()
        refused(twins.pinned, twins.transaction(twins.head + 1), 2, "which is not there")
        refused(twins.pinned, os.path.join(folder, "none"), 2, "cannot read")
        write(b"")
        refused(twins.pinned, bad, 3, "empty")
        write(good[: len(good) // 2])
        refused(twins.pinned, bad, 3, "is not a transaction")
        twins.bring_files()
        later = lance.write_dataset(rows(0, 1), folder + "/other.lance")
        for i in range(30):
            later = lance.write_dataset(rows(i, 1), folder + "/other.lance", mode="append")
        other = glob.glob(folder + "/other.lance/_transactions/29-*.txn")[0]
        refused(twins.pinned, other, 2, "another table")
        commit_on = {
            "fragment 99": lambda: Op.Delete([], [99], "true"),
        }
        for sentence, make in commit_on.items():
            shutil.rmtree(twins.copy)
            twins.make_copy()
            commit(twins.copy, make())
            refused(twins.pinned, twins.transaction(twins.head + 1), 2, sentence)


# --- conflicts --------------------------------------------------------------------------------------------------------


def delete_first(at):
    lance.dataset(at).delete("id < 10")


def update_first(at):
    lance.dataset(at).update({"n": "1"}, where="id = 1")


def update_columns_of_first(at):
    fragment = lance.dataset(at).get_fragment(0)
    new = pa.table({"id": pa.array([1], pa.int64()), "n": pa.array([1], pa.int32())})
    updated, modified, *_ = fragment.update_columns(new, left_on="id", right_on="id")
    commit(at, Op.Update(updated_fragments=[updated], fields_modified=modified, update_mode="rewrite_columns"))


def rewrite_last(at):
    """Fragments 2 and 3, without reserved ids and without telling any index."""
    from lance.optimize import Compaction

    ds = lance.dataset(at)
    plan = Compaction.plan(ds, options={"target_rows_per_fragment": 20})
    results = [json.loads(task.execute(ds).json()) for task in plan.tasks]
    groups = [
        Op.RewriteGroup(*[[FragmentMetadata.from_json(json.dumps(f)) for f in r[part]] for part in PARTS])
        for r in results
        if 3 in [f["id"] for f in r["original_fragments"]]
    ]
    commit(at, Op.Rewrite(groups, []))


PARTS = ("original_fragments", "new_fragments")


def drop_n_index(at):
    """Of an index that both sides have."""
    lance.dataset(at).drop_index("id_idx")


def edit(**parts):
    return lambda at: commit(at, Op.UpdateConfig(**parts))


def project_strict(at):
    ds = lance.dataset(at)
    commit(at, Op.Project(ds.lance_schema))


def project_loose(at):
    ds = lance.dataset(at)
    commit(at, Op.Project(ds.lance_schema, preserves_nullability=True))


def add_base(at):
    lance.dataset(at).add_bases([lance.DatasetBasePath("/nowhere/one", "one")])


WORK = {
    "Append": append,
    "Delete of rows": delete_rows,
    "Delete of fragment 0": delete_first,
    "Update of rows": update,
    "Update of row 1": update_first,
    "Update of columns of fragment 0": update_columns_of_first,
    "Overwrite": overwrite,
    "CreateIndex on n": create_index,
    "CreateIndex, drop": drop_n_index,
    "Rewrite of fragments 2 and 3": rewrite_last,
    "Merge, new column": add_column,
    "Merge, column of nulls": add_column_of_nulls,
    "Restore": lambda at: lance.dataset(at, version=2).restore(),
    "Project": project_strict,
    "Project, nulls as they were": project_loose,
    "Project without s": drop_indexed_column,
    "UpdateConfig a": lambda at: lance.dataset(at).update_config({"a": "2"}),
    "UpdateConfig b": lambda at: lance.dataset(at).update_config({"b": "1"}),
    "UpdateConfig without a": edit(config_updates=Op.UpdateMap({"a": None})),
    "UpdateConfig, all": edit(config_updates=Op.UpdateMap({"b": "1"}, replace=True)),
    "UpdateConfig, table metadata": edit(table_metadata_updates=Op.UpdateMap({"k": "1"})),
    "UpdateConfig, schema metadata": edit(schema_metadata_updates=Op.UpdateMap({"k": "1"})),
    "UpdateConfig, column n": edit(field_metadata_updates={1: Op.UpdateMap({"k": "1"})}),
    "UpdateConfig, column s": edit(field_metadata_updates={2: Op.UpdateMap({"k": "1"})}),
    "DataReplacement of n in fragment 2": replace_data,
}
# A quarter of an hour all together; the short form looks at those that depend on more than the kinds.
SHORT = ["Append", "Delete of rows", "Update of columns of fragment 0", "CreateIndex on n", "UpdateConfig a"]


class Prepared:
    """Each piece of work, done once on a copy of its own: its transactions, and a table that has all files."""

    def __init__(self, folder):
        self.twins = Twins("indexed", folder, pin=False)
        self.base = os.path.join(folder, "base.lance")
        os.rename(self.twins.copy, self.base)
        self.head = lance.dataset(self.base).version
        self.pinned = os.path.join(folder, "base-pinned.lance")
        os.rename(self.twins.pinned, self.pinned)
        self.files, self.at = {}, {}
        for i, (name, deed) in enumerate(WORK.items()):
            at = os.path.join(folder, "work%d.lance" % i)
            shutil.copytree(self.base, at)
            deed(at)
            last = lance.dataset(at).version
            self.at[name] = at
            self.files[name] = [
                os.path.join(at, "_transactions", manifest(at, version)[12][0].decode())
                for version in range(self.head + 1, last + 1)
            ]
            for table in (self.base, self.pinned):
                bring(at, table)


def bring(source, to):
    for folder, _, names in os.walk(source):
        relative = os.path.relpath(folder, source)
        if relative.split("/")[0] in ("data", "_deletions", "_indices"):
            os.makedirs(os.path.join(to, relative), exist_ok=True)
            for name in names:
                if not os.path.exists(os.path.join(to, relative, name)):
                    os.link(os.path.join(folder, name), os.path.join(to, relative, name))


def verdict_of_lance(prepared, at, name):
    """The last transaction of this work, through Lance's own commit."""
    source = lance.dataset(prepared.at[name])
    transaction = source.read_transaction(source.version)
    try:
        lance.LanceDataset.commit(at, transaction)
        return "allowed"
    except OSError as error:
        text = str(error)
    if "Retryable" in text or "retr" in text:
        return "retryable"
    if "Incompatible" in text:
        return "incompatible"
    return "refused" if "does not exist" in text else text


def verdict_of_pinctl(prepared, at, name):
    status, _, err = pinctl_status(at, "commit", "--transaction", prepared.files[name][-1])
    verdict = {0: "allowed", 75: "retryable", 1: "incompatible", 2: "refused"}.get(status)
    assert verdict, "exit %d: %s" % (status, err)
    return verdict


def conflicts(folder, prepared, ours):
    """One row: ours over each of theirs."""
    differ = []
    for i, theirs in enumerate(WORK):
        if theirs == ours:  # the very transaction: it was committed before
            continue
        here = os.path.join(folder, "%d" % i)
        pinned, copy = here + "/pinned.lance", here + "/copy.lance"
        shutil.copytree(prepared.pinned, pinned, copy_function=os.link)
        shutil.copytree(prepared.at[theirs], copy, copy_function=os.link)
        bring(prepared.base, copy)
        for file in prepared.files[theirs]:
            status, _, err = pinctl_status(pinned, "commit", "--transaction", file)
            assert status == 0, "%s itself: exit %d: %s" % (theirs, status, err)
        verdicts = verdict_of_pinctl(prepared, pinned, ours), verdict_of_lance(prepared, copy, ours)
        if verdicts[0] != verdicts[1]:
            differ.append("over %s: %s, Lance: %s" % (theirs, *verdicts))
        elif verdicts[0] == "allowed":
            one, other = (readable(manifest(at, lance.dataset(at).version)) for at in (pinned, copy))
            for part in other:
                # A Delete or Update that is rebased gets another read version; schema metadata is not in transactions.
                if part not in (5, 12) and one[part] != other[part]:
                    differ.append("over %s, %s: %r, Lance: %r" % (theirs, part, one[part], other[part]))
        shutil.rmtree(here)
    assert not differ, "\n".join(differ)


def matrix():
    with scratch() as folder:
        prepared = Prepared(folder)
        for ours in WORK if LONG else SHORT:
            conflicts(folder, prepared, ours)
