"""What a version of a table has, read from its bytes; work that is made of its own fragments; and what Lance says of it."""

import json
import os
import struct

import table
from operation import put
from world import Lance, equal

# Fields of Lance's messages.
SCHEMA, FRAGMENTS, INDEX_SECTION, CONFIG, INLINE_21, INLINE_23 = 1, 2, 6, 16, 21, 23
HISTORY = b"__lance_frag_reuse"
# Lance, and pinctl, keep a longer history of moved rows in a file beside its entry.
LONG_HISTORY = 204800

lance = Lance()


class Fragment:
    """Its message, and of its one file."""

    def __init__(self, data):
        self.data, parts = data, table.message(data)
        self.id, self.rows, self.file = parts.get(1, 0), parts.get(4, 0), parts[2]
        self.has_deletions = 3 in parts
        self.path = str(table.message(self.file)[1], "utf-8")


class Manifest:
    """Of the head, or of another version."""

    def __init__(self, at, version=None):
        numbers = {table.version_of(name)[0]: name for name in os.listdir(at + "/_versions") if table.version_of(name)}
        self.at, self.name = at, os.path.join(at, "_versions", numbers[version or max(numbers)])
        with open(self.name, "rb") as f:
            self.data = f.read()
        self.body = table.section(self.data, int.from_bytes(self.data[-16:-8], "little"))
        self.fragments = [Fragment(one) for one in table.all_of(self.body, FRAGMENTS)]
        self.whole = [fragment for fragment in self.fragments if not fragment.has_deletions]
        at = table.message(self.body).get(INDEX_SECTION)
        self.indices = {} if at is None else {table.message(one)[3]: one for one in table.all_of(table.section(self.data, at), 1)}

    def records(self):
        """Of moved rows, of version 0: their bytes."""
        if HISTORY not in self.indices:
            return []
        entry = table.message(self.indices[HISTORY])
        details = table.message(table.message(entry[6])[2])
        if 1 in details:
            return table.all_of(details[1], 1)
        outside, uuid = table.message(details[2]), str(table.uuid.UUID(bytes=bytes(table.message(entry[1])[1])))
        with open(os.path.join(self.at, "_indices", uuid, str(outside[1], "utf-8")), "rb") as f:
            content = f.read()
        equal(len(content), outside[3], "size of the history's file")
        return table.all_of(content, 1)

    def stamps(self):
        return [stamp(record) for record in self.records()]

    def says(self):
        return {
            "files": [fragment.path for fragment in self.fragments],
            "records": self.stamps(),
            "indices": sorted(set(self.indices) - {HISTORY}),
            "config": sorted((bytes(m[1]), bytes(m[2])) for m in map(table.message, table.all_of(self.body, CONFIG))),
        }


def stamp(record):
    return table.message(record).get(1, 0)


def lengthen_history(at):
    """Put something that nobody knows into the newest record of the head's, which gets too long for its entry thereby."""
    m = Manifest(at)
    entry = table.message(m.indices[HISTORY])
    content = table.message(table.message(entry[6])[2])[1]
    *old, last = table.all_of(content, 1)
    content = b"".join(put(1, one) for one in [*old, last + put(15, bytes(LONG_HISTORY))])
    details = put(1, table.message(entry[6])[1]) + put(2, put(1, content))
    entry = b"".join(put(n, details if n == 6 else v) for n, v in table.fields(m.indices[HISTORY]))
    section = b"".join(put(1, entry if name == HISTORY else one) for name, one in m.indices.items())
    transaction = table.section(m.data, table.message(m.body)[INLINE_23])
    places = {INDEX_SECTION: 0, INLINE_21: 4 + len(section), INLINE_23: 4 + len(section)}
    body = b"".join(put(n, places[n] if n in places else v) for n, v in table.fields(m.body))
    data = b"".join(struct.pack("<I", len(part)) + part for part in (section, transaction, body))
    with open(m.name, "wb") as f:
        f.write(data + struct.pack("<Q", len(data) - len(body) - 4) + m.data[-8:])


def followed(at, source, *version):
    """Lance must find each row of this version where the records of the head, or of `version`, say."""
    answer = lance.ask("follow", at, source, *version)
    if answer is not None:
        rows, _, found = answer.partition(" rows, ")
        equal(found, rows + " followed", "rows of version %d in %s" % (source, version or "the head"))


# --- work ---------------------------------------------------------------------------------------------------------------


def as_json(fragment, path):
    """As Lance's Python writes it, and of this file."""
    parts = table.message(fragment.file)
    numbers = lambda packed: list(unpacked(packed))
    file = {
        "path": path,
        "fields": numbers(parts[2]),
        "column_indices": numbers(parts[3]),
        "file_major_version": parts.get(4, 0),
        "file_minor_version": parts.get(5, 0),
        "file_size_bytes": parts.get(6),
        "base_id": None,
    }
    return {
        "id": fragment.id if path == fragment.path else 0,
        "files": [file],
        "deletion_file": None,
        "row_id_meta": None,
        "physical_rows": fragment.rows,
    }


def unpacked(packed):
    at = 0
    while at < len(packed):
        value, at = table.varint(packed, at)
        yield value


def result_json(at, fragment, path):
    """Of a compaction that wrote this fragment anew."""
    parts = {"metrics": {}, "read_version": table.head(at), "row_addrs": None}
    parts.update(original_fragments=[as_json(fragment, fragment.path)], new_fragments=[as_json(fragment, path)])
    return json.dumps(parts).encode()


def of_file(fragment, path):
    """Its message as that of a new fragment."""
    file = b"".join(put(n, path.encode() if n == 1 else v) for n, v in table.fields(fragment.file))
    return put(2, file) + put(4, fragment.rows)
