"""The newest manifest, opened, changed and published as the next version; and rows moved into new fragments."""

import json
import os
import struct
import time
import uuid

import history
import lance
import lance.file
import pyarrow as pa
import wire
from lance.fragment import write_fragments

# Fields of lance.table.Manifest and DataFragment.
FRAGMENTS, VERSION, INDEX_SECTION, TIMESTAMP, READER, WRITER, MAX_FRAGMENT_ID = 2, 3, 6, 7, 9, 10, 11
TRANSACTION_FILE, TRANSACTION_21, TRANSACTION_23 = 12, 21, 23
REWRITE = 104
TOP = (1 << 64) - 1
INVERTED = len("%020d.manifest" % 0)


class Head:
    """
    The newest manifest of a table, or of a branch by its directory; or that of a version, to be read. Change fields and
    index (the elements of the index section, encoded), then publish.
    """

    def __init__(self, at, version=None):
        self.at = at
        folder = os.path.join(at, "_versions")
        names = [name for name in os.listdir(folder) if name[0].isdigit() and name.endswith(".manifest")]
        # Plain names go up, inverted ones, which have 20 digits, down.
        self.plain = min(map(len, names)) < INVERTED
        numbers = {int(name.split(".")[0]) if self.plain else TOP - int(name.split(".")[0]): name for name in names}
        self.name = numbers[version or max(numbers)]
        with open(os.path.join(folder, self.name), "rb") as file:
            self.data = file.read()
        (position,) = struct.unpack("<Q", self.data[-16:-8])
        self.fields = wire.decode(self._section(position))
        self.version = wire.first(self.fields, VERSION)
        section = wire.first(self.fields, INDEX_SECTION)
        places = [value for n, value in self.fields if n in (INDEX_SECTION, TRANSACTION_21, TRANSACTION_23)]
        # Dictionary pages of the legacy data format, which the schema addresses.
        self.leading = self.data[: min([position] + places)]
        entries = [] if section is None else wire.every(wire.decode(self._section(section)), 1)
        self.index = [wire.field(1, entry) for entry in entries]

    def _section(self, position):
        (size,) = struct.unpack("<I", self.data[position : position + 4])
        return self.data[position + 4 : position + 4 + size]

    def get(self, number, default=0):
        return wire.first(self.fields, number, default)

    def set(self, number, value):
        self.fields = [f for f in self.fields if f[0] != number] + [[number, value]]

    def entries(self):
        """(decoded entry, element) of the index section."""
        return [(wire.decode(wire.first(wire.decode(element), 1)), element) for element in self.index]

    def drop_history(self):
        self.index = [element for entry, element in self.entries() if wire.first(entry, 3) != history.NAME.encode()]

    def set_history(self, content, index_version, external=False, bitmap=()):
        """Replace the fragment reuse entry by one with this content; bit 10 where it is needed."""
        self.drop_history()
        ours = uuid.uuid4().bytes
        details = history.external(self.at, ours, content) if external else history.inline(content)
        self.index.append(history.entry(details, index_version, self.version, bitmap, uuid_bytes=ours))
        if index_version:
            self.flag(history.TAGGED)

    def flag(self, bits):
        self.set(READER, self.get(READER) | bits)
        self.set(WRITER, self.get(WRITER) | bits)

    def publish(self, operation=REWRITE):
        """As version + 1, with a transaction inline and as a file."""
        ours = str(uuid.uuid4())
        transaction = wire.encode([(1, self.version), (2, ours.encode()), (operation, b"")])
        name = "%d-%s.txn" % (self.version, ours)
        with open(os.path.join(self.at, "_transactions", name), "wb") as file:
            file.write(transaction)
        section = b"".join(self.index)
        body = self.leading
        if self.index:
            self.set(INDEX_SECTION, len(body))
            body += struct.pack("<I", len(section)) + section
        else:
            self.fields = [f for f in self.fields if f[0] != INDEX_SECTION]
        for number in (TRANSACTION_21, TRANSACTION_23):
            self.set(number, len(body))
        body += struct.pack("<I", len(transaction)) + transaction
        self.set(VERSION, self.version + 1)
        # To the nanosecond: of a whole second the files of the version before would be younger, and Lance would not clean them up.
        self.set(TIMESTAMP, wire.encode(list(enumerate(divmod(time.time_ns(), 10**9), 1))))
        self.set(TRANSACTION_FILE, name.encode())
        manifest = wire.encode(sorted(self.fields, key=lambda f: f[0]))
        position = len(body)
        body += struct.pack("<I", len(manifest)) + manifest
        body += struct.pack("<Q", position) + self.data[-8:]
        name = self.version + 1 if self.plain else "%020d" % (TOP - 1 - self.version)
        target = os.path.join(self.at, "_versions", "%s.manifest" % name)
        with open(target, "xb") as file:
            file.write(body)


def new_fragment(at, number, rows):
    """Write rows (a pyarrow table) as the data file of a fragment with this id; the DataFragment message."""
    scratch = os.path.join(at, "..", "scratch-%s" % uuid.uuid4())
    (written,) = write_fragments(rows, scratch, mode="create", max_rows_per_file=1 << 30)
    described = json.loads(json.dumps(written.to_json()))
    (file,) = described["files"]
    os.rename(os.path.join(scratch, "data", file["path"]), os.path.join(at, "data", file["path"]))
    packed = lambda values: b"".join(wire.varint(value) for value in values)
    data_file = wire.message(
        (1, file["path"].encode()),
        (2, packed(file["fields"])),
        (3, packed(file["column_indices"])),
        (4, file["file_major_version"]),
        (5, file["file_minor_version"]),
        (6, file["file_size_bytes"]),
    )
    return wire.message((1, number), (2, data_file), (4, described["physical_rows"]))


class Move:
    """Rows of some fragments of the newest version, taken out in order, to be put into new ones."""

    def __init__(self, at, sources):
        ds = lance.dataset(at)
        self.at, self.sources, self.digests, self.addresses, self.live = at, sources, [], [], []
        tables = []
        for number in sources:
            fragment = ds.get_fragment(number)
            table = ds.scanner(fragments=[fragment], with_row_address=True, scan_in_order=True).to_table()
            addresses = table.column("_rowaddr").to_pylist()
            physical = fragment.physical_rows
            self.digests.append(history.digest(number, physical, physical - len(addresses)))
            self.addresses += addresses
            self.live.append((number, physical, {address & 0xFFFFFFFF for address in addresses}))
            tables.append(table.drop_columns(["_rowaddr"]))
        self.rows = pa.concat_tables(tables)

    def ordered(self, head, sizes):
        """Cut the rows at these sizes. The transition, as an element."""
        made, at = [], 0
        for size in sizes:
            made.append(self._put(head, self.rows.slice(at, size)))
            at += size
        assert at == len(self.rows)
        return history.ordered(self.addresses, self.digests, made)

    def legacy_group(self, head, sizes):
        made, at = [], 0
        for size in sizes:
            made.append(self._put(head, self.rows.slice(at, size)))
            at += size
        return self.addresses, self.digests, made

    def partition(self, head, labels):
        """Each row goes to the destination that its label says, counted from 0; none may be without rows."""
        count = max(labels) + 1
        made = [
            self._put(head, self.rows.take([i for i, label in enumerate(labels) if label == k])) for k in range(count)
        ]
        name = str(uuid.uuid4())
        return history.partition(name, write_map(self.at, name, self.live, labels), self.digests, made)

    def _put(self, head, rows):
        number = head.get(MAX_FRAGMENT_ID, 0) + 1
        head.set(MAX_FRAGMENT_ID, number)
        head.fields.append([FRAGMENTS, new_fragment(self.at, number, rows)])
        return history.digest(number, len(rows))

    def remove_sources(self, head):
        gone = lambda f: f[0] == FRAGMENTS and wire.first(wire.decode(f[1]), 1, 0) in self.sources
        head.fields = [f for f in head.fields if not gone(f)]


def write_map(at, name, live, labels, block=65536):
    """The row map of a stable partition: a label for each physical row, none for a deleted one. Its size."""
    column, labels_left = [], iter(labels)
    for _, physical, rows in live:
        column += [next(labels_left) if row in rows else None for row in range(physical)]
    destinations = max(labels) + 1
    counts, so_far = [], [0] * destinations
    for start in range(0, len(column), block):
        for label in column[start : start + block]:
            if label is not None:
                so_far[label] += 1
        counts += so_far
    header = b"LSPC" + struct.pack("<IIIIQ", 1, 0, destinations, block, len(column))
    path = os.path.join(at, "_fri", name, "stable_partition.lance")
    os.makedirs(os.path.dirname(path))
    schema = pa.schema([pa.field("label", pa.uint16())])
    writer = lance.file.LanceFileWriter(path, schema)
    buffer = writer.add_global_buffer(header + struct.pack("<%dI" % len(counts), *counts))
    writer.add_schema_metadata("lance:stable_partition:counts_buffer_index", str(buffer))
    writer.write_batch(pa.record_batch([pa.array(column, pa.uint16())], schema=schema))
    writer.close()
    return os.path.getsize(path)
