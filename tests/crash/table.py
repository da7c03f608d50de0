"""What a table's files say, read here from the bytes (proto/FORMAT.md) and with nothing of what is tested."""

import collections
import json
import os
import struct
import uuid

BIT_PINS = 1 << 19
PINS = 10395

Pin = collections.namedtuple("Pin", "id source_version source_transaction created expires label")
Transaction = collections.namedtuple("Transaction", "read_version uuid kind items raw")
Version = collections.namedtuple("Version", "version timestamp flags pins transaction")

# What an item of each kind of operation says beside the id: the field of its time, if it has one.
KINDS = {1: "register", 2: "renew", 3: "release", 4: "expire", 5: "enable"}


class Broken(AssertionError):
    """The table is not as it must be."""


def expect(condition, text, *arguments):
    if not condition:
        raise Broken(text % arguments)


# --- the wire ---------------------------------------------------------------------------------------------------------


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7


def fields(data):
    """(number, value) of each field of a message, in order."""
    at = 0
    while at < len(data):
        tag, at = varint(data, at)
        kind = tag & 7
        if kind == 0:
            value, at = varint(data, at)
        elif kind == 2:
            length, at = varint(data, at)
            value, at = data[at : at + length], at + length
        else:
            length = {1: 8, 5: 4}[kind]
            value, at = data[at : at + length], at + length
        expect(at <= len(data), "a field ends beyond its message")
        yield tag >> 3, value


def message(data):
    """The last value of each field."""
    return dict(fields(data))


def all_of(data, number):
    return [value for field, value in fields(data) if field == number]


def time_ns(data):
    t = message(data)
    seconds = t.get(1, 0)
    return (seconds - (1 << 64 if seconds >> 63 else 0)) * 10**9 + t.get(2, 0)


def pin_id(data):
    return str(uuid.UUID(bytes=bytes(message(data)[1])))


def pin(data):
    p = message(data)
    return Pin(
        pin_id(p[1]), p.get(2, 0), str(p.get(3, b""), "utf-8"), time_ns(p[4]), time_ns(p[5]), str(p.get(6, b""), "utf-8")
    )


def transaction(data):
    t = message(data)
    kind, items = None, []
    if PINS in t:
        ((number, body),) = fields(t[PINS])
        kind = KINDS[number]
        for item in all_of(body, 1) if kind != "enable" else []:
            i = message(item)
            items.append(pin(item) if kind == "register" else (pin_id(i[1]), time_ns(i[2]) if 2 in i else None))
    return Transaction(t.get(1, 0), str(t.get(2, b""), "utf-8"), kind, items, bytes(data))


# --- files ------------------------------------------------------------------------------------------------------------


def version_of(name):
    """The version a file of _versions/ is, and whether its name is of scheme V2; None for other files."""
    digits, dot, suffix = name.partition(".")
    if not digits.isdigit() or suffix != "manifest":
        return None
    return ((1 << 64) - 1 - int(digits), True) if len(digits) == 20 else (int(digits), False)


def head(at):
    """The newest version there is."""
    return max(found[0] for found in map(version_of, os.listdir(at + "/_versions")) if found)


def section(data, offset):
    (length,) = struct.unpack_from("<I", data, offset)
    expect(offset + 4 + length <= len(data), "a section ends beyond its file")
    return data[offset + 4 : offset + 4 + length]


def read_version(at, name):
    with open(os.path.join(at, "_versions", name), "rb") as f:
        data = f.read()
    expect(data[-4:] == b"LANC", "%s does not end like a manifest", name)
    body = section(data, struct.unpack_from("<q", data, len(data) - 16)[0])
    m = message(body)
    expect(m[3] == version_of(name)[0], "%s says that it is version %d", name, m[3])
    inline = m.get(23, m.get(21))
    file = os.path.join(at, "_transactions", str(m[12], "utf-8")) if 12 in m else None
    txn = transaction(section(data, inline)) if inline is not None else None
    if txn is None or txn.kind:
        with open(file, "rb") as f:
            stored = transaction(f.read())
        expect(txn is None or txn == stored, "%s has another transaction inline than in its file", name)
        txn = stored
    pins = {}
    for record in all_of(body, PINS):
        p = pin(record)
        expect(p.id not in pins, "%s has pin %s twice", name, p.id)
        pins[p.id] = p
    return Version(m[3], time_ns(m[7]), m.get(10, 0), pins, txn)


class Table:
    """
    A table as its files tell it; Broken if it is not whole: one naming scheme, versions without gaps from 1 on, a readable transaction of each,
    every change of the list of pins done by the transaction of that version and by nothing else, and no file but those that belong and those
    that a dead commit may leave.
    """

    def __init__(self, at, known=None):
        """`known`: a dictionary to keep what was read, for the next look at the same table."""
        known = {} if known is None else known
        self.at = at
        self.names = {}
        self.staged = []
        for name in os.listdir(at + "/_versions"):
            found = version_of(name)
            if found:
                expect(found[0] not in self.names, "version %d has two names", found[0])
                self.names[found[0]] = name
            elif name.startswith(".tmp") or "#" in name:
                self.staged.append(name)
            else:
                expect(name == "latest_version_hint.json", "_versions/%s should not be there", name)
        expect(len({version_of(name)[1] for name in self.names.values()}) == 1, "both naming schemes")
        expect(sorted(self.names) == list(range(1, len(self.names) + 1)), "versions %s", sorted(self.names))
        self.versions = [None]
        for version in sorted(self.names):
            if version not in known:
                known[version] = read_version(at, self.names[version])
            self.versions.append(known[version])
        self.head = self.versions[-1]
        for before, after in zip(self.versions[1:], self.versions[2:]):
            check_step(before, after)
        uuids = [v.transaction.uuid for v in self.versions[1:]]
        expect(len(set(uuids)) == len(uuids), "a transaction landed twice")
        # Transactions of nobody are what a commit that died, or lost and died, leaves.
        self.loose = []
        named = {"%d-%s.txn" % (v.transaction.read_version, v.transaction.uuid) for v in self.versions[1:]}
        for name in os.listdir(at + "/_transactions"):
            if name.startswith(".tmp"):
                self.staged.append(name)
            elif name not in named:
                expect(name.endswith(".txn") or "#" in name, "_transactions/%s should not be there", name)
                self.loose.append(name)

    def guards(self):
        """The pins that have a guard tag."""
        try:
            names = os.listdir(self.at + "/_refs/tags")
        except FileNotFoundError:
            return {}
        found = {}
        for name in names:
            expect(name.endswith(".json"), "_refs/tags/%s should not be there", name)
            if name.startswith("pinfs-"):
                with open(os.path.join(self.at, "_refs/tags", name), "rb") as f:
                    found[name[len("pinfs-") : -len(".json")]] = json.load(f)
        return found


def check_step(before, after):
    t, v = after.transaction, after.version
    # What was prepared may have been prepared on an older one.
    expect(t.read_version == before.version if t.kind else t.read_version <= before.version, "version %d was made from %d", v, t.read_version)
    expect(after.timestamp >= before.timestamp or not t.kind, "version %d is older than the one before", v)
    expect(after.flags & BIT_PINS or not before.flags & BIT_PINS, "version %d lost its flag", v)
    want = dict(before.pins)
    for item in t.items:
        if t.kind == "register":
            expect(item.id not in want, "version %d registers pin %s, which is there", v, item.id)
            expect(
                (item.source_version, item.source_transaction) == (before.version, before.transaction.uuid),
                "version %d registers pin %s on another source than the version before",
                v,
                item.id,
            )
            want[item.id] = item
            continue
        old = want.get(item[0])
        expect(old, "version %d: %s of pin %s, which is not there", v, t.kind, item[0])
        if t.kind == "renew":
            expect(item[1] > old.expires, "version %d renews pin %s to an earlier time", v, item[0])
            want[item[0]] = old._replace(expires=item[1])
        else:
            expect(t.kind != "expire" or item[1] == old.expires, "version %d expires pin %s, which was renewed", v, item[0])
            del want[item[0]]
    expect(after.pins == want, "version %d: its pins are not those of the version before and its transaction", v)
