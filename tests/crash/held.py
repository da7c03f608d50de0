"""
Commits of prepared work that are held at the worst moment, in a process of their own, while others commit, register pins and clean (cases-open A09, A10,
A11, A24, A28): what lands is on the head's line and is made for the head that it replaces, what does not land moves nothing.
"""

import os
import subprocess

import table
from deeds import CONFIGURE, Append, Delete, Restore, Rewrite, Trim, Update
from failures import settle
from operation import put
from version import Manifest, followed, lance, of_file
from world import (
    AGAIN, CANNOT, DONE, ENVIRONMENT, FIXTURE, PINCTL, STEPPER, UNKNOWN, Done, Skip, calls_of, equal, must, new_id, pinctl, scratch, stepped, until
)  # fmt: skip

TAGS = os.path.join(os.path.dirname(FIXTURE), "tags.lance")
REWRITE = 104


def cases():
    for times in (1, 2):
        yield "a rewrite that loses %d links is stamped anew" % times, restamped, times
    yield "a pin that is registered while a rewrite is held is asked, too: it gets its record", late_pin
    yield "A28: fragment 0 and its row 0 are followed like others", zero
    yield "A24: a restore that loses its link goes forward from the head, with the pins of then", restored
    for deed in (Append, Delete, Update, Rewrite, Restore):
        yield "A09: %s finds its number free again, below the head" % deed.name, passed_and_cleaned, deed, "linkat", 1
        yield "A09: the same, and others were there a moment ago", passed_and_cleaned, deed, "linkat", 0
        yield "A10: the version that %s is based on vanishes" % deed.name, passed_and_cleaned, deed, "renameat", 1
    for deed in (Append, Update):
        yield "%s twice at once: what fails takes no file of what landed" % deed.name, twice, deed
        yield "%s twice at once, and the version it is based on vanishes: it is there once, with its transaction" % deed.name, both, deed
    for deed in (Append, Update, Rewrite, Restore, Trim):
        yield "A11: %s is in place, and storage fails: unknown, settled, and there once" % deed.name, unknown, deed
    yield "Lance was asked", lambda: "%d times" % lance.asked


class Held:
    """pinctl, held before its first call of this name on the table, and before each that follows."""

    def __init__(self, deed, call):
        self.flag = os.path.join(deed.folder, "held")
        self.process = subprocess.Popen(
            [STEPPER, "-d", deed.at, "-c", call, "-n", "1", "-f", "-p", self.flag, PINCTL, "-d", deed.at, *deed.words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=ENVIRONMENT,
        )
        self.wait()
        if self.process.poll() == CANNOT:
            raise Skip("processes cannot be traced here")
        assert self.process.poll() is None, self.process.communicate()

    def wait(self):
        until(lambda: os.path.exists(self.flag) or self.process.poll() is not None, "it is held, or ends")

    def go_on(self):
        """To the next such call, or to the end."""
        os.unlink(self.flag)
        self.wait()

    def end(self):
        while self.process.poll() is None:
            self.go_on()
        out, err = self.process.communicate()
        return Done(self.process.returncode, out, err)


def commit(deed, option, data):
    """Another one, of somebody else."""
    path = os.path.join(deed.folder, new_id())
    with open(path, "wb") as f:
        f.write(data)
    return pinctl(deed.at, "commit", option, path)


def configure(deed, key):
    change = put(6, put(1, put(1, key) + put(2, b"value")))
    must(commit(deed, "--transaction", put(1, table.head(deed.at)) + put(2, new_id().encode()) + put(CONFIGURE, change)))


def register(deed):
    """A pin of the head: its id."""
    pin = new_id()
    must(pinctl(deed.at, "register", "+2h", "--id", pin, "--no-guard"))
    return pin


def time_there(folder):
    """By the file system's clock."""
    with open(os.path.join(folder, "clock"), "w") as f:
        f.write("now")
    return os.stat(os.path.join(folder, "clock")).st_mtime_ns


def check_followed(deed):
    for pin in table.Table(deed.at).head.pins.values():
        followed(deed.at, pin.source_version)


def restamped(times):
    with scratch() as folder:
        deed = Rewrite(folder)
        held = Held(deed, "linkat")
        for number in range(times):
            register(deed)
            configure(deed, b"while.%d" % number)
            if number < times - 1:
                held.go_on()
        done, version = held.end(), deed.head.version + 2 * times + 1
        equal(done.status, DONE, "status (%s)" % done)
        equal(int(done.out), version, "version that was said")
        equal(table.Table(deed.at).head.version, version, "head")
        equal(Manifest(deed.at).stamps(), [*deed.before["records"], version - 1], "stamps of records")
        equal(len(table.Table(deed.at).head.pins), times + 1, "pins")
        check_followed(deed)
        equal(pinctl(deed.at, "check").status, DONE, "status of check")


class Unasked(Rewrite):
    """A transaction, which without a pin and without indices nobody wants to have recorded."""

    option, fixture = "--transaction", TAGS

    def pin(self):
        pass

    def input(self):
        super().input()
        body = put(3, put(1, self.source.data) + put(2, of_file(self.source, "moved.lance")))
        return put(1, table.head(self.at)) + put(2, self.uuid.encode()) + put(REWRITE, body)

    def expect(self):
        super().expect()
        self.after["records"] = []


def late_pin():
    with scratch() as folder:
        deed = Unasked(folder)
        deed.once()
        deed.start()
        held = Held(deed, "linkat")
        register(deed)
        done = held.end()
        equal(done.status, DONE, "status (%s)" % done)
        equal(Manifest(deed.at).stamps(), [deed.head.version + 1], "stamps of records")
        check_followed(deed)


class Zero(Rewrite):
    fixture = TAGS


def zero():
    with scratch() as folder:
        deed = Zero(folder)
        equal(deed.source.id, 0, "fragment")
        must(pinctl(deed.at, *deed.words))
        assert deed.look(True)
        (record,) = [one for one in pinctl(deed.at, "fri").out.splitlines()]
        check_followed(deed)
        return record


def restored():
    with scratch() as folder:
        deed = Restore(folder)
        held = Held(deed, "linkat")
        pin, old = register(deed), next(iter(deed.head.pins))
        must(pinctl(deed.at, "renew", old, "2099-01-01T00:00:00Z"))
        before = table.Table(deed.at).head
        done = held.end()
        equal(done.status, DONE, "status (%s)" % done)
        head = table.Table(deed.at).head
        equal((head.version, head.pins), (before.version + 1, before.pins), "version and pins of the head")
        assert pin in head.pins and head.pins[old].expires == before.pins[old].expires
        equal(Manifest(deed.at).says(), deed.after, "the head")
        if lance.process:
            assert lance.ask("content", deed.at).startswith("%d versions, 31 rows" % head.version), lance.ask("content", deed.at)


def passed_and_cleaned(make, call, ago):
    """Others commit twice and remove all below their head, so many seconds ago: it cannot be told what this conflicts with."""
    with scratch() as folder:
        deed = make(folder)
        deed.start()
        held = Held(deed, call)
        configure(deed, b"first")
        configure(deed, b"second")
        passed = table.head(deed.at)
        for version in range(1, passed):
            os.unlink(Manifest(deed.at, version).name)
        now = os.stat(Manifest(deed.at).name)
        if ago:
            os.utime(Manifest(deed.at).name, ns=(now.st_atime_ns, now.st_mtime_ns - ago * 10**9))
        # Of two files of one tick of the file system's clock nobody can say which was first.
        until(lambda: time_there(deed.folder) > now.st_mtime_ns, "the file system's clock goes on")
        says = Manifest(deed.at).says()
        done = held.end()
        equal((table.head(deed.at), Manifest(deed.at).says()), (passed, says), "the head")
        equal(done.out, "", "output")
        if done.status == UNKNOWN and not ago:
            # It lies there, and nobody is told that it is committed.
            equal(settle(deed, done).status, UNKNOWN, "status of what is to settle it")
            if make is not Restore:
                equal(pinctl(deed.at, *deed.words).status, UNKNOWN, "status of the same words again")
            return "unknown"
        equal(done.status, AGAIN, "status (%s)" % done)
        assert "is gone" in done.err, done
        left = sorted(found[0] for found in map(table.version_of, os.listdir(deed.at + "/_versions")) if found)
        equal(left, [passed], "versions")
        for name in getattr(deed, "files", []):
            found = [os.path.exists(os.path.join(deed.home, place, "data", name)) for place in ("t.lance", "scratch")]
            equal(found, [False, True], "in the table, in the scratch dataset: " + name)
        return "not committed"


def twice(make):
    """One is held, the same goes on, and by a cleanup the first cannot know that."""
    with scratch() as folder:
        deed = make(folder)
        deed.once()
        deed.start()
        held = Held(deed, "renameat")
        must(pinctl(deed.at, *deed.words))
        assert deed.look(True)
        for version in range(1, deed.head.version + 1):
            os.unlink(Manifest(deed.at, version).name)
        configure(deed, b"another")
        os.unlink(Manifest(deed.at, deed.head.version + 1).name)
        done = held.end()
        equal(done.status, AGAIN, "status (%s)" % done)
        for fragment in Manifest(deed.at).fragments:
            assert os.path.exists(os.path.join(deed.at, "data", fragment.path)), fragment.path + " is lost"


def both(make):
    with scratch() as folder:
        deed = make(folder)
        deed.once()
        deed.start()
        held = Held(deed, "renameat")
        must(pinctl(deed.at, *deed.words))
        os.rename(Manifest(deed.at, deed.head.version).name, folder + "/aside")
        done = held.end()
        os.rename(folder + "/aside", deed.at + "/_versions/" + table.Table(deed.kept + "/t.lance").names[deed.head.version])
        equal(done.status, DONE, "status (%s)" % done)
        assert deed.look(True)
        transaction = table.Table(deed.at).head.transaction
        name = "%d-%s.txn" % (transaction.read_version, transaction.uuid)
        assert os.path.exists(deed.at + "/_transactions/" + name), name + " is lost"
        equal(pinctl(deed.at, "check").status, DONE, "status of check")


def unknown(make):
    """The link is made, and no call after it."""
    with scratch() as folder:
        deed = make(folder)
        deed.once()
        deed.start()
        names = calls_of(deed.at, deed.words, ["-d", deed.at])
        link = names.index("linkat") + 1
        deed.start()
        done = stepped(deed.at, ["-d", deed.at, "-n", link + 1, "-e", "5", "-f"], deed.words)
        equal(done.status, UNKNOWN, "status (%s)" % done)
        equal(done.out, "", "output")
        settled = settle(deed, done)
        equal(settled.status, DONE, "status of the command that settles it (%s)" % settled)
        deed.finish(deed.look(True))
