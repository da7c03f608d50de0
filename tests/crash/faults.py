"""
Storage that fails at one call, and goes on failing; and a full disk. What is reported as done has happened, what is reported as failed has not,
and what is reported as unknown is settled by the command that is named (exit 76, EINPROGRESS).
"""

import errno
import os
import shlex
import subprocess

import table
from operation import CHANGES, KINDS, LATER, Operation
from world import (
    AGAIN, DAMAGED, DONE, FAILED, LONG, PINCTL, UNKNOWN, Lance, Skip, calls_of, equal, mounted, must, new_id, pinctl, run, scratch, stamp, stepped
)  # fmt: skip

# EINTR is a topic of its own: nothing fails by it.
ERRORS = [errno.EIO, errno.ENOSPC, errno.EACCES]
# Where only every nth call is tried, to be done in time.
STRIDE = 1 if LONG else 4

lance = Lance()


def cases():
    for kind in KINDS:
        yield "pinctl %s, each call on storage fails" % kind, one_fails, kind, False
        yield "pinctl %s, each change is made and reported as failed" % kind, one_fails, kind, True
        yield "pinctl %s, storage fails for good at some call" % kind, all_fail, kind
        yield "pinctl %s, short writes" % kind, short_writes, kind
    for kind in KINDS[:3]:
        yield "%s through the mount, each call on storage fails" % kind, mount_fails, kind, False
        yield "%s through the mount, each change is made and reported as failed" % kind, mount_fails, kind, True
    for kind in KINDS:
        yield "pinctl %s on a disk that is full or nearly so" % kind, full_disk, kind
    for kind in KINDS[:3]:
        yield "%s through the mount on a full disk" % kind, full_disk_mount, kind


def settles(at, said):
    """Run the command that an unknown outcome names; whether it says that it happened."""
    line = said.partition("to find out: ")[2].splitlines()
    assert line, "no command to find out: " + said
    words = shlex.split(line[0])
    equal(words[0], "pinctl", "command to find out")
    done = run([PINCTL, *words[1:]])
    assert done.status in (0, 1), done
    return done


def judge(operation, at, done):
    """Whether what was answered is what happened. Whether it happened."""
    landed = operation.look(at, done.status == DONE)
    if done.status == UNKNOWN:
        settled = settles(at, done.err)
        if operation.kind == "register":
            equal(settled.status == 0, landed, "what confirm says (%s)" % done)
    elif done.status != DONE:
        assert done.status in (FAILED, DAMAGED, AGAIN), done
        assert not landed, "it was reported as failed and has happened: %s" % done
        assert done.err.strip(), "it failed without a word"
    return landed


class Tally(dict):
    def add(self, status):
        self[status] = self.get(status, 0) + 1

    def __str__(self):
        return ", ".join("%d ended with %s" % (n, status) for status, n in sorted(self.items()))


def try_out(kind, numbers, options_of, again):
    """The operation with each of some faults, on a table of its own; then once more without."""
    with scratch() as folder:
        operation = Operation(kind, folder)
        at = operation.copy(os.path.join(folder, "t.lance"))
        names = calls_of(at, operation.words, ["-d", at])
        tally = Tally()
        for number in numbers(names):
            for options in options_of(number):
                operation.copy(at)
                done = stepped(at, ["-d", at, "-n", number, *options], operation.words)
                tally.add(done.status)
                try:
                    landed = judge(operation, at, done)
                    if again(number) or not landed:
                        must(pinctl(at, *operation.words))
                        assert operation.look(at, True)
                        operation.check_guards(at)
                except AssertionError as error:
                    raise AssertionError("call %d, %s, stepper %s: %s (%s)" % (number, names[number - 1], options, error, done))
        lance.opens(at, operation.before.version + 1)
        return str(tally)


def some(errors, number):
    return errors if LONG else [errors[number % len(errors)]]


def one_fails(kind, after):
    def numbers(names):
        changes = [number for number, name in enumerate(names, 1) if name in CHANGES]
        others = [number for number, name in enumerate(names, 1) if name not in CHANGES]
        return changes if after else sorted(changes + others[::STRIDE])

    return try_out(
        kind, numbers, lambda number: [["-e", e] + ["-a"] * after for e in some(ERRORS, number)], lambda number: LONG or number % 3 == 0
    )


def all_fail(kind):
    return try_out(
        kind,
        lambda names: range(1, len(names) + 1, STRIDE),
        lambda number: [["-e", e, "-f"] for e in some(ERRORS, number // STRIDE)],
        lambda number: True,
    )


def short_writes(kind):
    def numbers(names):
        return [number for number, name in enumerate(names, 1) if name in ("write", "copy_file_range")]

    def options(number):
        return [["-s"], ["-s", "-f"]]

    with scratch() as folder:
        operation = Operation(kind, folder)
        at = operation.copy(os.path.join(folder, "t.lance"))
        for number in numbers(calls_of(at, operation.words, ["-d", at])):
            for how in options(number):
                operation.copy(at)
                must(stepped(at, ["-d", at, "-n", number, *how], operation.words))
                assert operation.look(at, True)
                operation.check_guards(at)
        lance.opens(at, operation.before.version + 1)


# --- through the mount ------------------------------------------------------------------------------------------------


def write_once(path, text):
    """Unlike a file of Python's, which writes again when it is thrown away."""
    fd = os.open(path, os.O_WRONLY)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)


class Asked:
    """The same pins for all: A is renewed further and further, others come and go."""

    def __init__(self, kind, operation, at):
        self.kind, self.operation, self.at = kind, operation, at
        self.known, self.term, self.pin = {}, LATER, None
        self.before = operation.before

    def prepare(self):
        """A pin to ask for, and few others: what is read of a table must not grow from one call to the next."""
        if self.kind == "register" and self.pin in self.before.pins:
            must(pinctl(self.at, "release", self.pin))
        self.term += 60
        self.text, self.ns = stamp(self.term)
        self.pin = self.operation.a if self.kind == "renew" else new_id()
        if self.kind == "release":
            must(pinctl(self.at, "register", self.text, "--id", self.pin))
        self.before = table.Table(self.at, self.known).head

    def ask(self, mount):
        path = "%s/%s" % (mount.pins, self.pin)
        if self.kind == "register":
            os.mkdir("%s,expires_at=%s" % (path, self.text))
        elif self.kind == "renew":
            write_once(path, self.text)
        else:
            os.unlink(path)

    def landed(self):
        head = table.Table(self.at, self.known).head
        pin = head.pins.get(self.pin)
        landed = {"register": pin is not None, "renew": pin and pin.expires == self.ns, "release": pin is None}[self.kind]
        equal(head.version, self.before.version + bool(landed), "head")
        if landed:
            self.before = head
        return bool(landed)


def mount_fails(kind, after):
    with scratch() as folder:
        operation = Operation(kind, folder)
        at = operation.copy(os.path.join(folder, "t.lance"))
        asked = Asked(kind, operation, at)
        tally = Tally()
        for error in some(ERRORS, KINDS.index(kind) + after):
            with mounted(at, folder, stepper=["-e", error] + ["-a"] * after) as mount:
                # The first time there is more to read, and the watcher may look at the table at any time.
                count = 5 + min(calls_of_ask(asked, mount) for _ in range(3))
                for number in range(1, count, STRIDE):
                    one_on_mount(asked, mount, number, tally)
                mount.arm(0)
        lance.opens(at, table.head(at))
        return str(tally)


def calls_of_ask(asked, mount):
    asked.prepare()
    mount.arm(0)
    asked.ask(mount)
    assert asked.landed()
    return mount.arm(0)


def one_on_mount(asked, mount, number, tally):
    asked.prepare()
    mount.arm(number)
    try:
        asked.ask(mount)
        answer = "OK"
    except OSError as error:
        answer = errno.errorcode[error.errno]
    mount.arm(0)
    tally.add(answer)
    said = mount.status()
    landed = asked.landed()
    if answer == "OK":
        assert landed, "call %d: it was answered 0 and has not happened" % number
        return
    # ENOENT of unlink and open: the pin could not be looked up, and last_status has nothing new to say.
    if answer == "EINPROGRESS":
        settles(asked.at, said)
    else:
        assert not landed, "call %d: it was answered %s and has happened (%s)" % (number, answer, said)
        asked.ask(mount)
        assert asked.landed(), "call %d: repeated after %s, it has not happened" % (number, answer)


# --- no space ---------------------------------------------------------------------------------------------------------


class Disk:
    """A small file system, and what is left free of it."""

    def __init__(self, folder):
        self.at = os.path.join(folder, "disk")
        os.mkdir(self.at)
        made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", self.at], stderr=subprocess.PIPE, text=True)
        if made.returncode != 0:
            raise Skip("no file system can be mounted here: " + made.stderr.strip())
        self.filler = os.path.join(self.at, "filler")

    def fill(self, pages):
        """Leave so many pages free."""
        s = os.statvfs(self.at)
        with open(self.filler, "wb") as f:
            f.write(b"x" * ((s.f_bavail - pages) * s.f_bsize))
        equal(os.statvfs(self.at).f_bavail, pages, "free pages")

    def free(self):
        os.unlink(self.filler)

    def __enter__(self):
        return self

    def __exit__(self, *what):
        subprocess.run(["umount", "-l", self.at], check=True)


def check_nothing_left(at):
    t = table.Table(at)
    equal((t.staged, t.loose), ([], []), "files of a commit that failed")


def full_disk(kind):
    with scratch() as folder, Disk(folder) as disk:
        operation = Operation(kind, folder)
        tally = Tally()
        for pages in range(12):
            at = operation.copy(os.path.join(disk.at, "t.lance"))
            disk.fill(pages)
            done = pinctl(at, *operation.words)
            tally.add(done.status)
            landed = judge(operation, at, done)
            if not landed:
                assert done.status == FAILED and "No space left on device" in done.err, done
                check_nothing_left(at)
            assert landed or pages < 8, done
            disk.free()
            must(pinctl(at, *operation.words))
            assert operation.look(at, True)
            operation.check_guards(at)
            lance.opens(at, operation.before.version + 1)
        assert tally.get(FAILED), "the disk was never full: %s" % tally
        return str(tally)


def full_disk_mount(kind):
    with scratch() as folder, Disk(folder) as disk:
        operation = Operation(kind, folder)
        at = operation.copy(os.path.join(disk.at, "t.lance"))
        with mounted(at, folder) as mount:
            disk.fill(0)
            for _ in range(3):
                try:
                    operation.on_mount(mount)
                    raise AssertionError("%s succeeded on a full disk" % kind)
                except OSError as error:
                    equal(errno.errorcode[error.errno], "ENOSPC", "what %s is answered" % kind)
                assert "No space left on device" in mount.status(), mount.status()
                equal(sorted(os.listdir(mount.pins)), sorted(operation.before.pins), "what ls says")
                assert not operation.look(at, False)
                check_nothing_left(at)
            disk.free()
            operation.on_mount(mount)
            assert operation.look(at, True)
            operation.check_guards(at)
        lance.opens(at, operation.before.version + 1)
