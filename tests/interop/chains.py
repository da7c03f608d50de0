"""Chains of random operations, each committed by Lance to a copy and, as the same transaction, by pinctl: the two are the same."""

import os
import random
import shutil

import lance
import pyarrow as pa
from lance.dataset import LanceOperation as Op
from lance.fragment import DataFile

from commit import Twins, compare_rows
from deeds import commit, field_id, rows
from manifest import manifest, readable
from support import LONG, bring, equal, pinctl, pinctl_status, scratch

CHAINED = ("plain", "indexed", "stable", "moved", "tagged")


def cases():
    for kind in CHAINED:
        yield "on a table that is %s" % kind, chains, kind


def chance_rows(chance):
    return rows(chance.randrange(1000, 100000), chance.randrange(1, 25))


def is_one_of(ids):
    return "id in (%s)" % ", ".join(map(str, ids or [-1]))


def some_ids(chance, at):
    ids = lance.dataset(at).to_table(columns=["id"])["id"].to_pylist()
    return is_one_of(chance.sample(ids, min(len(ids), chance.randrange(1, 4))))


def columns_of(at):
    return set(lance.dataset(at).schema.names)


def chance_append(chance, at):
    lance.write_dataset(chance_rows(chance).select([n for n in ("id", "n", "s") if n in columns_of(at)]), at, mode="append", max_rows_per_file=10)


def chance_delete(chance, at):
    lance.dataset(at).delete(some_ids(chance, at))


def chance_delete_fragment(chance, at):
    fragment = chance.choice(lance.dataset(at).get_fragments())
    lance.dataset(at).delete(is_one_of(fragment.to_table(columns=["id"])["id"].to_pylist()))


def chance_update(chance, at):
    column, value = chance.choice([("n", "n + 1"), ("s", "'other'")])
    lance.dataset(at).update({column: value}, where=some_ids(chance, at))


def chance_update_columns(chance, at):
    fragment = chance.choice(lance.dataset(at).get_fragments())
    ids = fragment.to_table(columns=["id"])["id"].to_pylist()[:3]
    column, values = chance.choice([("n", pa.array([7] * len(ids), pa.int32())), ("s", pa.array(["new"] * len(ids)))])
    new = pa.table({"id": pa.array(ids, pa.int64()), column: values})
    updated, modified, *offsets = fragment.update_columns(new, left_on="id", right_on="id")
    more = {"updated_fragment_offsets": offsets[0]} if offsets and offsets[0] else {}
    commit(at, Op.Update(updated_fragments=[updated], fields_modified=modified, update_mode="rewrite_columns", **more))


def chance_replace(chance, at):
    ds = lance.dataset(at)
    fragment = chance.choice(ds.get_fragments())
    column, values = chance.choice([("n", pa.array([3] * fragment.physical_rows, pa.int32())), ("s", pa.array(["r"] * fragment.physical_rows))])
    where = at + ".scratch"
    new = lance.write_dataset(pa.table({column: values}), where, mode="overwrite")
    file = new.get_fragments()[0].data_files()[0]
    shutil.copy(os.path.join(where, "data", file.path), os.path.join(at, "data", file.path))
    file = DataFile(file.path, [field_id(ds, column)], [0], file.file_major_version, file.file_minor_version, file.file_size_bytes)
    commit(at, Op.DataReplacement([Op.DataReplacementGroup(fragment.fragment_id, file)]))


def chance_merge_insert(chance, at):
    new = rows(chance.randrange(0, 40), chance.randrange(2, 12))
    lance.dataset(at).merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(new)


def chance_index(chance, at):
    column = chance.choice(["n", "s", "id"])
    kind = chance.choice(["BTREE", "BITMAP", "ZONEMAP", "BLOOMFILTER"] + (["INVERTED", "NGRAM"] if column == "s" else []))
    lance.dataset(at).create_scalar_index(column, kind, name="%s_%s" % (column, kind.lower()), replace=True)


def chance_drop_index(chance, at):
    names = [index["name"] for index in lance.dataset(at).list_indices() if not index["name"].startswith("__")]
    if names:
        lance.dataset(at).drop_index(chance.choice(names))
    else:
        chance_config(chance, at)


def chance_add_column(chance, at):
    name = "c%d" % chance.randrange(1000)
    lance.dataset(at).add_columns(chance.choice([{name: "n * 2"}, pa.field(name, pa.int64())]))


def chance_drop_column(chance, at):
    extra = sorted(columns_of(at) - {"id", "n", "s"})
    if extra:
        lance.dataset(at).drop_columns([chance.choice(extra)])
    else:
        chance_add_column(chance, at)


def chance_rename(chance, at):
    extra = sorted(columns_of(at) - {"id", "n", "s"})
    if extra:
        lance.dataset(at).alter_columns({"path": chance.choice(extra), "name": "r%d" % chance.randrange(1000)})
    else:
        chance_config(chance, at)


def chance_config(chance, at):
    parts = chance.choice(["config_updates", "table_metadata_updates", "schema_metadata_updates", "field_metadata_updates"])
    key, value = "k%d" % chance.randrange(3), chance.choice(["1", "2", None])
    edit = Op.UpdateMap({key: value}, replace=chance.random() < 0.2)
    commit(at, Op.UpdateConfig(**{parts: {chance.randrange(3): edit} if parts.startswith("field") else edit}))


def chance_restore(chance, at):
    ds = lance.dataset(at)
    lance.dataset(at, version=chance.randrange(max(1, ds.version - 4), ds.version)).restore()


def chance_overwrite(chance, at):
    lance.write_dataset(rows(0, chance.randrange(20, 50)), at, mode="overwrite", max_rows_per_file=10)


# How often each comes.
OPERATIONS = {
    chance_append: 4,
    chance_delete: 4,
    chance_delete_fragment: 1,
    chance_update: 4,
    chance_update_columns: 3,
    chance_replace: 2,
    chance_merge_insert: 3,
    chance_index: 4,
    chance_drop_index: 1,
    chance_add_column: 2,
    chance_drop_column: 1,
    chance_rename: 1,
    chance_config: 3,
    chance_restore: 1,
    chance_overwrite: 1,
}
SCHEMA_IN_PYTHON = ("Project", "Merge")  # as Python reads them back they lack the schema's metadata


class Chain:
    """Work is prepared on one version, one piece or two; both sides commit it, in the same order."""

    def __init__(self, kind, seed, folder):
        self.kind, self.chance, self.folder = kind, random.Random("%s %d" % (kind, seed)), folder
        self.twins = Twins(kind, folder)
        self.told, self.lost_metadata = [], False

    def prepare(self, number):
        """What a piece of work wrote, on a copy of its own: its transaction, and its file."""
        at = "%s/work%d.lance" % (self.folder, number)
        shutil.rmtree(at, ignore_errors=True)
        shutil.copytree(self.twins.copy, at)
        head = lance.dataset(at).version
        (operation,) = self.chance.choices(list(OPERATIONS), OPERATIONS.values())
        if not lance.dataset(at).get_fragments():
            operation = chance_append
        operation(self.chance, at)
        done = lance.dataset(at)
        if done.version != head + 1:
            return None  # nothing to do, or more than one commit
        for table in (self.twins.pinned, self.twins.copy):
            bring(at, table)
        file = os.path.join(at, "_transactions", manifest(at, done.version)[12][0].decode())
        return operation.__name__[7:], done.read_transaction(done.version), file

    def lance_says(self, prepared):
        try:
            lance.LanceDataset.commit(self.twins.copy, prepared)
            return "."
        except (OSError, ValueError, RuntimeError) as error:
            text = str(error)
        return "R" if "Retryable commit conflict" in text else "X" if "Incompatible transaction" in text else "E"

    def commit(self, name, prepared, file):
        """False: the two are not alike any more, and are not to be."""
        theirs = self.lance_says(prepared)
        status, _, said = pinctl_status(self.twins.pinned, "commit", "--transaction", file)
        ours = {0: ".", 75: "R", 1: "X", 2: "E"}.get(status)
        self.told.append("%s %s%s" % (name, theirs, ours))
        if theirs == "." and ours == "E" and "the column with id" in said:
            return False  # an index on a column that was dropped meanwhile
        assert ours == theirs, "%s: Lance %s, pinctl %s (exit %d): %s" % (name, theirs, ours, status, said)
        if ours == ".":
            self.compare(type(prepared.operation).__name__)
        return True

    def compare(self, operation):
        version = lance.dataset(self.twins.copy).version
        ours, theirs = (readable(manifest(at, version)) for at in (self.twins.pinned, self.twins.copy))
        if operation in ("Delete", "Update"):
            del ours[12], theirs[12]  # rebased, Lance stores another read version
        self.lost_metadata |= operation in SCHEMA_IN_PYTHON
        if self.lost_metadata:
            del ours[5], theirs[5]
        for side in (ours, theirs):
            for entry in side["indices"] if self.kind == "moved" else []:
                entry.pop(5, None)
        for part in theirs:
            equal(ours[part], theirs[part], "version %d, %s" % (version, part))
        compare_rows(self.twins)

    def run(self, steps):
        for _ in range(steps):
            work = [self.prepare(number) for number in range(self.chance.choice((1, 1, 2, 3)))]
            for one in work:
                if one and not self.commit(*one):
                    return
        equal(len(pinctl(self.twins.pinned, "ls", "--json")), 1, "pins")
        equal(pinctl(self.twins.pinned, "check"), "", "check")


def chains(kind):
    for seed in range(40 if LONG else 1):
        with scratch() as folder:
            chain = Chain(kind, seed, folder)
            try:
                chain.run(10)
            except Exception as error:
                raise AssertionError("seed %d: %s" % (seed, ", ".join(chain.told))) from error
