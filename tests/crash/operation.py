"""One operation on a table, what it must do, and whether it has."""

import os
import shutil
import time

import table
from world import equal, must, new_id, new_table, pinctl, stamp

# What changes files: between two of these a kill finds the same files wherever it comes.
CHANGES = {"openat", "write", "copy_file_range", "fsync", "fdatasync", "linkat", "renameat", "unlinkat", "mkdirat"}
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
        must(pinctl(self.base, "register", "+1s", "--id", self.d))
        time.sleep(1.1)
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
