"""One operation on a table, what it must do, and whether it has."""

import os
import shutil

import table
from world import equal, must, new_id, new_table, overdue, pinctl, stamp

# What changes files: between two of these a kill finds the same files wherever it comes.
CHANGES = {"openat", "write", "copy_file_range", "fsync", "fdatasync", "linkat", "renameat", "unlinkat", "mkdirat", "create"}
# Of these, without what is opened only to be read; and what the C library makes of paths.
WRITES = CHANGES - {"openat"} | {"mkdir", "rename", "unlink", "rmdir"}
KINDS = ("register", "renew", "release", "expire")
TERM, LATER = 7200, 10800


class Operation:
    """One of the four, on a table that holds A, B and, past its time, D: the words for pinctl, what the mount is asked, what it must do."""

    def __init__(self, kind, folder):
        self.kind = kind
        self.base = new_table(folder, "base.lance")
        self.a, self.b, self.d, self.x = (new_id() for _ in range(4))
        for pin in (self.a, self.b):
            must(pinctl(self.base, "register", stamp(TERM)[0], "--id", pin))
        overdue(self.base, self.d)
        self.before = table.Table(self.base).head
        self.until, self.until_ns = stamp(LATER)
        self.words = {
            "register": ["register", self.until, "--id", self.x],
            "renew": ["renew", self.a, self.until],
            "release": ["release", self.a],
            "expire": ["expire", "--apply"],
        }[kind]

    def copy(self, to):
        shutil.rmtree(to, ignore_errors=True)
        return shutil.copytree(self.base, to)

    def on_mount(self, mount):
        if self.kind == "register":
            os.mkdir("%s/%s,expires_at=%s" % (mount.pins, self.x, self.until))
        elif self.kind == "renew":
            with open("%s/%s" % (mount.pins, self.a), "w") as f:
                f.write(self.until + "\n")
        else:
            os.unlink("%s/%s" % (mount.pins, self.a))

    def look(self, at, acknowledged):
        """Whether it has happened; once at most, and if that was acknowledged, certainly."""
        t = table.Table(at)
        pins, want = dict(t.head.pins), dict(self.before.pins)
        if self.kind == "register":
            landed = self.x in pins
            if landed:
                want[self.x] = table.Pin(
                    self.x, self.before.version, self.before.transaction.uuid, pins[self.x].created, self.until_ns, ""
                )
        elif self.kind == "renew":
            landed = pins[self.a].expires == self.until_ns
            if landed:
                want[self.a] = want[self.a]._replace(expires=self.until_ns)
        else:
            gone = self.a if self.kind == "release" else self.d
            landed = gone not in pins
            if landed:
                del want[gone]
        equal(pins, want, "pins")
        equal(t.head.version, self.before.version + landed, "head")
        assert landed or not acknowledged, "it was acknowledged and has not happened"
        return landed

    def check_guards(self, at):
        t = table.Table(at)
        guards = set(t.guards())
        # An expire that has nothing left to do does not look for the tags of those before it.
        if self.kind == "expire":
            guards.discard(self.d)
        equal(sorted(guards), sorted(t.head.pins), "guard tags")


def put(number, value):
    """A field on the wire: of bytes, or of a number."""
    if isinstance(value, bytes):
        return put_varint(number << 3 | 2) + put_varint(len(value)) + value
    return put_varint(number << 3) + put_varint(value)


def put_varint(value):
    out = b""
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


class Commit(Operation):
    """The commit of a transaction that appends one fragment, whose file is brought from elsewhere."""

    def __init__(self, folder):
        super().__init__("register", folder)
        self.kind, self.uuid = "commit", new_id()
        name = table.Table(self.base).names[self.before.version]
        with open(os.path.join(self.base, "_versions", name), "rb") as f:
            data = f.read()
        body = table.section(data, int.from_bytes(data[-16:-8], "little"))
        fragment = list(table.fields(table.all_of(body, 2)[0]))
        file = list(table.fields(dict(fragment)[2]))
        self.file = str(dict(file)[1], "utf-8")
        new = b"".join(put(number, b"brought.lance" if number == 1 else value) for number, value in file)
        new = b"".join(put(number, new if number == 2 else value) for number, value in fragment if number not in (1, 3))
        self.scratch = os.path.join(folder, "scratch")
        transaction = os.path.join(folder, "append.txn")
        with open(transaction, "wb") as f:
            f.write(put(1, self.before.version) + put(2, self.uuid.encode()) + put(100, put(1, new)))
        self.words = ["commit", "--transaction", transaction, "--from", self.scratch]

    def copy(self, to):
        super().copy(to)
        shutil.rmtree(self.scratch, ignore_errors=True)
        os.makedirs(self.scratch + "/data")
        shutil.copy(os.path.join(self.base, "data", self.file), self.scratch + "/data/brought.lance")
        return to

    def look(self, at, acknowledged):
        t = table.Table(at)
        landed = t.head.transaction.uuid == self.uuid
        equal(t.head.pins, self.before.pins, "pins")
        equal(t.head.version, self.before.version + landed, "head")
        assert landed or not acknowledged, "it was acknowledged and has not happened"
        here = os.path.exists(at + "/data/brought.lance")
        assert here or not landed, "it has happened, and its file is not there"
        assert here or os.path.exists(self.scratch + "/data/brought.lance"), "its file is lost"
        return landed
