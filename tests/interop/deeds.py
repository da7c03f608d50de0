"""What people do to a table, by Lance: each a function of a path, of one commit or several."""

import os
import shutil

import lance
import pyarrow as pa
from lance.dataset import LanceOperation as Op
from lance.fragment import write_fragments


def rows(first, count):
    ids = range(first, first + count)
    columns = {"id": pa.array(ids, pa.int64()), "n": pa.array([i * 10 for i in ids], pa.int32())}
    return pa.table({**columns, "s": pa.array(["row %d" % i for i in ids])})


def commit(at, operation, read_version=None):
    ds = lance.dataset(at)
    return lance.LanceDataset.commit(ds, operation, read_version=read_version or ds.version)


def metadata(at):
    return [fragment.metadata for fragment in lance.dataset(at).get_fragments()]


def append(at):
    lance.write_dataset(rows(100, 15), at, mode="append", max_rows_per_file=10)


def append_other_format(at):
    """The table has mixed versions from then on."""
    fragments = write_fragments(rows(100, 5), at + ".scratch", data_storage_version="2.0")
    for fragment in fragments:
        for file in fragment.files:
            shutil.copy(os.path.join(at + ".scratch/data", file.path), os.path.join(at, "data", file.path))
    commit(at, Op.Append(fragments))


def overwrite_other_format(at):
    lance.write_dataset(rows(0, 5), at, mode="overwrite", data_storage_version="2.0")


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


def replace_column(at, fragment, name, values, **options):
    """By a file of its own, which Lance writes elsewhere."""
    ds, where = lance.dataset(at), "%s.scratch-%s" % (at, values[0])
    new = lance.write_dataset(pa.table({name: values}), where, **options)
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
    "append of another format": append_other_format,
    "overwrite by another format": overwrite_other_format,
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
    "legacy": ("append of another format", "add column of nulls", "replace data", "replace indexed data", "replace a column's own file"),
    # Lance drops a segment by its translated coverage; here it stays.
    "moved": ("extend index",),
}
