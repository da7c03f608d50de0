"""What people do to a table beside what is in deeds.py: each a function of a path; what it returns is the answer."""

import datetime
import os

import lance
import pyarrow as pa
from lance.dataset import LanceOperation as Op
from lance.fragment import write_fragments

from deeds import append, rows
from support import LONG

MANY = 200 if LONG else 20


def handle_appends(at):
    ds = lance.dataset(at)
    for i in range(MANY):
        ds.insert(rows(100 + i, 1))
    return ds.version


def appends(at):
    for i in range(MANY // 4):
        lance.write_dataset(rows(100 + i, 1), at, mode="append")
    return lance.dataset(at).version


def update_where_index(at):
    append(at)
    lance.dataset(at).update({"n": "id"}, where="s = 'row 21' or id > 105")


def optimize(at):
    append(at)
    lance.dataset(at).optimize.optimize_indices()


def text_index(at):
    append(at)
    lance.dataset(at).create_scalar_index("s", "INVERTED", replace=True, name="words")
    lance.write_dataset(rows(200, 5), at, mode="append")
    lance.dataset(at).optimize.optimize_indices()


def vectors(first, count):
    values = [[float(i % 7), float(i), 1.0, -float(i)] for i in range(first, first + count)]
    return pa.array(values, pa.list_(pa.float32(), 4))


def vector_index(at, partitions=2):
    ids = lance.dataset(at).to_table(columns=["id"])["id"].to_pylist()
    new = pa.table({"id": pa.array(ids, pa.int64()), "vec": vectors(0, len(ids))})
    lance.dataset(at).merge(new, "id")
    lance.dataset(at).create_index("vec", "IVF_FLAT", metric="l2", num_partitions=partitions)


def vector_index_extended(at):
    vector_index(at)
    lance.write_dataset(rows(100, 10).append_column("vec", vectors(100, 10)), at, mode="append")
    lance.dataset(at).optimize.optimize_indices()


def tag(at):
    ds = lance.dataset(at)
    version = ds.version
    ds.tags.create("one", version)
    ds.tags.create("two", version)
    ds.insert(rows(100, 1))
    ds.tags.update("one", ds.version)
    ds.tags.delete("two")
    found = lance.dataset(at, version="one")
    return found.version, found.count_rows(), sorted(name for name in ds.tags.list() if not name.startswith("pinfs-"))


def branch(at, name="feat/x"):
    ds = lance.dataset(at)
    side = ds.create_branch(name)
    lance.write_dataset(rows(100, 5), side.uri, mode="append")
    lance.dataset(side.uri).delete("id = 5")
    return lance.dataset(side.uri).count_rows(), sorted(ds.branches.list())


def branch_of_old(at):
    """From a version that has no pins yet."""
    ds = lance.dataset(at).create_branch("old", 3)
    ds.insert(rows(100, 5))
    return ds.count_rows()


def branch_deleted(at):
    branch(at, "gone")
    ds = lance.dataset(at)
    ds.branches.delete("gone")
    return sorted(ds.branches.list())


def detached(at):
    ds = lance.dataset(at)
    new = lance.LanceDataset.commit(ds, Op.Append(write_fragments(rows(100, 5), at)), read_version=ds.version, detached=True)
    return new.count_rows(), lance.dataset(at).version, lance.dataset(at).count_rows()


def clone(at):
    lance.dataset(at).shallow_clone(os.path.join(os.path.dirname(at), "clone.lance"), lance.dataset(at).version)
    return lance.dataset(os.path.join(os.path.dirname(at), "clone.lance")).count_rows()


def deep_clone(at):
    there = os.path.join(os.path.dirname(at), "deep.lance")
    lance.dataset(at).deep_clone(there, lance.dataset(at).version)
    return lance.dataset(there).count_rows()


def batch(at):
    """Several appends in one commit."""
    ds = lance.dataset(at)
    new = [write_fragments(rows(100 + 10 * i, 5), at) for i in range(3)]
    appends = [lance.Transaction(ds.version, Op.Append(fragments)) for fragments in new]
    return lance.LanceDataset.commit_batch(ds, appends)["dataset"].count_rows()


def base(at):
    """Data in another place."""
    elsewhere = at + ".more"
    os.makedirs(elsewhere)
    lance.dataset(at).add_bases([lance.DatasetBasePath(elsewhere, name="more")])
    lance.write_dataset(rows(100, 5), at, mode="append", target_bases=["more"])
    return lance.dataset(at).count_rows()


def metadata_of_fields(at):
    ds = lance.dataset(at)
    ds.replace_schema_metadata({"k": "v"})
    ds.replace_field_metadata("n", {"unit": "m"})


def conflict(at):
    """Two handles delete the same row: who is later is told so, or tries again and finds nothing to do."""
    first, second = lance.dataset(at), lance.dataset(at)
    first.delete("id = 8")
    second.delete("id = 8")
    return second.version


def rebase(at):
    """A handle from before others wrote."""
    ds = lance.dataset(at)
    append(at)
    ds.delete("id = 8")
    ds.insert(rows(300, 2))
    return ds.version


def removed_version(at):
    lance.dataset(at).checkout_version(4711)


# --- compaction ---------------------------------------------------------------------------------------------------------


def compact(at, **options):
    found = lance.dataset(at).optimize.compact_files(target_rows_per_fragment=20, **options)
    return found.fragments_removed, found.fragments_added


def compact_deferred(at):
    return compact(at, defer_index_remap=True)


def compact_and_go_on(at, **options):
    """What a handle has in mind of indices is all that its next commit has; a record that others made is not in it."""
    ds = lance.dataset(at)
    ds.optimize.compact_files(target_rows_per_fragment=20, **options)
    ds.insert(rows(100, 5))
    ds.delete("id = 9")
    if int(lance.__version__.split(".")[0]) >= 12:
        # Before, the index loses rows by this, without us, too.
        ds.optimize.optimize_indices()
    return ds.version


def compact_deferred_and_go_on(at):
    return compact_and_go_on(at, defer_index_remap=True)


def compact_twice(at):
    return compact(at), append(at), compact(at)


# --- removal ------------------------------------------------------------------------------------------------------------

NOW = datetime.timedelta(0)


def cleanup(at, **options):
    """How many versions went, and whether all that should go did, where a release counts that."""
    found = lance.dataset(at).cleanup_old_versions(**options)
    return found.old_versions, getattr(found, "failed_deletes", 0) == 0


def cleanup_all(at):
    append(at)
    return cleanup(at, older_than=NOW, delete_unverified=True, error_if_tagged_old_versions=False)


def cleanup_old(at):
    """Nothing is as old as that."""
    append(at)
    return cleanup(at, older_than=datetime.timedelta(days=1), error_if_tagged_old_versions=False)


def cleanup_but_two(at):
    append(at)
    append(at)
    return cleanup(at, retain_versions=2, delete_unverified=True, error_if_tagged_old_versions=False)


def cleanup_tagged(at):
    lance.dataset(at).tags.create("kept", 2)
    append(at)
    return cleanup(at, older_than=NOW, delete_unverified=True)


def drop(at):
    lance.LanceDataset.drop(at)


DEEDS = {
    "append by one handle": handle_appends,
    "append by many": appends,
    "update by indices": update_where_index,
    "optimize indices": optimize,
    "text index": text_index,
    "vector index": vector_index_extended,
    "tags": tag,
    "branch": branch,
    "branch of an old version": branch_of_old,
    "branch deleted": branch_deleted,
    "detached commit": detached,
    "shallow clone": clone,
    "deep clone": deep_clone,
    "batch": batch,
    "another base": base,
    "metadata of fields": metadata_of_fields,
    "conflict": conflict,
    "rebase": rebase,
    "a version that is not there": removed_version,
    "cleanup of what is old": cleanup_old,
}
COMPACTIONS = {
    "deferred compaction": compact_deferred,
    "deferred compaction, and on by the same handle": compact_deferred_and_go_on,
    "compaction": compact,
    "compaction, and on by the same handle": compact_and_go_on,
    "compaction, twice": compact_twice,
}
REMOVALS = {
    "cleanup of all": cleanup_all,
    "cleanup of all but two": cleanup_but_two,
    "cleanup where there is a tag": cleanup_tagged,
}
