"""What people do to a table by LanceDB, which has an environment of its own; to whoever asks in lines of JSON."""

import datetime
import json
import os
import sys

import lancedb
import pyarrow as pa


def rows(first, count):
    ids = range(first, first + count)
    columns = {"id": pa.array(ids, pa.int64()), "n": pa.array([i * 10 for i in ids], pa.int32())}
    return pa.table({**columns, "s": pa.array(["row %d" % i for i in ids])})


def table(at):
    return lancedb.connect(os.path.dirname(at)).open_table("t")


def add(at):
    for i in range(3):
        table(at).add(rows(100 + 10 * i, 10))
    return table(at).count_rows()


def update(at):
    table(at).update(where="id in (1, 2, 22)", values_sql={"n": "n + 1"})
    return table(at).search().where("n = 221").to_arrow().num_rows


def delete(at):
    table(at).delete("id in (5, 6, 25)")
    return table(at).count_rows("id < 10")


def merge_insert(at):
    table(at).merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(rows(35, 10))
    return table(at).count_rows()


def overwrite(at):
    table(at).add(rows(0, 7), mode="overwrite")
    return table(at).count_rows()


def columns(at):
    table(at).add_columns({"m": "n * 2"})
    table(at).alter_columns({"path": "m", "rename": "twice"})
    found = table(at).schema.names
    table(at).drop_columns(["twice"])
    return found


def scalar_index(at):
    table(at).create_scalar_index("n", index_type="BTREE")
    table(at).add(rows(100, 10))
    return table(at).search().where("n >= 390").to_arrow().num_rows


def text_index(at):
    table(at).create_fts_index("s", name="words")
    return sorted(table(at).search("21", query_type="fts").to_arrow()["id"].to_pylist())


def vector_index(at):
    with_vectors = rows(0, 300).append_column("vec", pa.array([[float(i), 1.0] for i in range(300)], pa.list_(pa.float32(), 2)))
    table(at).add(with_vectors, mode="overwrite")
    table(at).create_index("l2", num_partitions=2, vector_column_name="vec", index_type="IVF_FLAT")
    return table(at).search([7.2, 1.0], vector_column_name="vec").nprobes(2).limit(3).to_arrow()["id"].to_pylist()


def restore(at):
    version = table(at).version
    table(at).add(rows(100, 10))
    table(at).restore(version)
    return table(at).count_rows()


def tags(at):
    version = table(at).version
    table(at).tags.create("mine", version)
    table(at).add(rows(100, 1))
    there = table(at)
    there.checkout("mine")
    found = there.count_rows()
    table(at).tags.delete("mine")
    return found


def versions(at):
    return [version["version"] for version in table(at).list_versions()]


def create_over(at):
    lancedb.connect(os.path.dirname(at)).create_table("t", rows(0, 9), mode="overwrite")
    return table(at).count_rows()


def create_where_it_is(at):
    return lancedb.connect(os.path.dirname(at)).create_table("t", schema=rows(0, 1).schema, exist_ok=True).count_rows()


def branch(at):
    side = table(at).branches.create("side")
    side.add(rows(100, 5))
    return table(at).count_rows(), side.count_rows(), sorted(table(at).branches.list())


def clone(at):
    found = lancedb.connect(os.path.dirname(at)).clone_table("clone", at)
    return found.count_rows()


def rename(at):
    lancedb.connect(os.path.dirname(at)).rename_table("t", "other")


def optimize(at):
    """As its users do it: compaction, indices and a cleanup of what is older than a week."""
    table(at).add(rows(100, 10))
    table(at).optimize()
    return table(at).count_rows()


def clean(at):
    table(at).optimize(cleanup_older_than=datetime.timedelta(0), delete_unverified=True)


def drop_table(at):
    lancedb.connect(os.path.dirname(at)).drop_table("t")


def drop_all_tables(at):
    lancedb.connect(os.path.dirname(at)).drop_all_tables()


def drop_database(at):
    lancedb.connect(os.path.dirname(at)).drop_database()


if __name__ == "__main__":
    for line in sys.stdin:
        name, at = json.loads(line)
        try:
            answer = [globals()[name](at)]
        except BaseException as error:
            answer = "%s: %s" % (type(error).__name__, error)
        print(json.dumps(answer), flush=True)
