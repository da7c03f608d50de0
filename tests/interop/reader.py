"""What a release says of the versions of a table; as a program, to whoever asks in lines of JSON."""

import json
import sys

import lance
import pyarrow as pa

FILTERS = ("id = 12", "id >= 38 and id < 103", "s = 'row 21'", "n < 200")


def content(ds):
    return sorted(repr(sorted(row.items())) for row in ds.to_table().to_pylist())


def by_index(ds, scan=True):
    """Answers to filters, to words and to a vector, which must be those that a scan gives."""
    found = {}

    def ask(what, column, by_index, by_scan):
        if column in ds.schema.names and "id" in ds.schema.names:
            found[what] = by_index()
            scanned = by_scan() if scan else found[what]
            assert found[what] == scanned, "%s: index %s, scan %s" % (what, found[what], scanned)

    def filtered(wanted, use):
        table = ds.scanner(columns=["id"], filter=wanted, use_scalar_index=use).to_table()
        return sorted(table["id"].to_pylist())

    def near(use):
        query = [3.0, 31.0, 1.0, -31.0][: ds.schema.field("vec").type.list_size]
        nearest = {"column": "vec", "q": query, "k": 5, "use_index": use, "nprobes": 2}
        return ds.to_table(columns=["id"], nearest=nearest)["id"].to_pylist()

    for wanted in FILTERS:
        ask(wanted, wanted.split()[0], lambda: filtered(wanted, True), lambda: filtered(wanted, False))
    names = [index["name"] for index in ds.list_indices()]
    if "words" in names:
        words = lambda: sorted(ds.to_table(columns=["id"], full_text_query="21")["id"].to_pylist())
        rows = lambda: ds.to_table(columns=["id", "s"]).to_pylist()
        ask("words", "s", words, lambda: sorted(row["id"] for row in rows() if "21" in row["s"].split()))
    if "vec_idx" in names:
        ask("vector", "vec", lambda: near(True), lambda: near(False))
    return found


def read(at, versions, indexed):
    """Of each version its rows; of some what indices answer."""
    rows = {str(version): content(lance.dataset(at, version=version)) for version in versions}
    return rows, {str(version): by_index(lance.dataset(at, version=version)) for version in indexed}


def places(ds, stable):
    """Of each row its address, or its id if that is stable."""
    name = "_rowid" if stable else "_rowaddr"
    table = ds.to_table(columns=["id"], with_row_id=True, with_row_address=True)
    return dict(zip(table["id"].to_pylist(), table[name].to_pylist()))


def follow(at, source, stable, changed=()):
    """Rows of a version are, by the records of moved rows, where they are now. changed: ids of those that were written anew."""
    head = lance.dataset(at)
    before, now = places(lance.dataset(at, version=source), stable), places(head, stable)
    there = [one for one in before if one in now and one not in changed]
    assert len(there) > 30, "%d rows" % len(there)
    found = [before[one] for one in there]
    if not stable:
        found = head.remap_row_addrs(pa.array(found, pa.uint64())).to_pylist()
    assert found == [now[one] for one in there], "rows cannot be followed from version %d" % source


if __name__ == "__main__":
    for line in sys.stdin:
        try:
            what, *question = json.loads(line)
            answer = {"read": read, "follow": follow}[what](*question)
        except BaseException as error:
            answer = "%s: %s" % (type(error).__name__, error)
        print(json.dumps(answer), flush=True)
