"""
pinctl cleanup --apply, killed or failed at any call that renames or deletes, and by clocks that are wrong. Whatever happened: no version that is listed
has lost a file, every pin's window is whole, and the next run ends in the state in which an undisturbed one does.
"""

import errno
import hashlib
import os
import shutil
import signal
import subprocess
import time

import table
from clock import host
from world import (
    BLOCKED, DONE, FAILED, LONG, PINCTL, ROOT, Lance, calls_of, equal, must, new_id, new_table, pinctl, run, scratch, stepped, until
)  # fmt: skip

HISTORY = os.path.join(ROOT, "tests/fixtures/tables/14.0.2/history.lance")
ERRORS = [errno.EIO, errno.ENOSPC, errno.EACCES]
STEPS = {"renameat", "renameat2", "unlinkat", "fsync", "-"}
KILLED = 128 + signal.SIGKILL
CLEAN = ["cleanup", "--retain", "1", "--apply"]
DAY, WEEK = 86400, 7 * 86400

lance = Lance()


def cases():
    for words in (CLEAN, [*CLEAN, "--jobs", "3"]):
        yield "%s, killed at every call that changes a file" % " ".join(words), killed, words
    yield "each call that changes a file fails", fails, False
    yield "each call that changes a file is made and reported as failed", fails, True
    yield "from some call on storage fails for good", fails_for_good
    yield "killed, and killed again, until it is done", killed_again
    yield "Ctrl-C while it deletes", interrupted
    yield "a host that is ahead or behind deletes what its clock says, and no pin's window", clocks
    yield "a pin is expired at its time, and not a nanosecond before a renewal to that second", boundary
    yield "files of the future are young", future


# --- tables -----------------------------------------------------------------------------------------------------------


def write(at, name, size, when):
    os.makedirs(os.path.dirname(os.path.join(at, name)), exist_ok=True)
    with open(os.path.join(at, name), "wb") as f:
        f.write(b"x" * size)
    os.utime(os.path.join(at, name), (when, when))


def age(at, when):
    for folder, folders, files in os.walk(at):
        for name in files + folders:
            os.utime(os.path.join(folder, name), (when, when))


class Base:
    """A history of Lance's, old enough to be cleaned, with files of writers that failed; and above it a pin and its window."""

    def __init__(self, folder):
        self.at = os.path.join(folder, "base.lance")
        shutil.copytree(HISTORY, self.at)
        long_ago = time.time() - 30 * DAY
        write(self.at, "data/stray.lance", 100, long_ago)
        write(self.at, "_deletions/0-1-77.arrow", 100, long_ago)
        write(self.at, "_indices/01234567-89ab-4cde-8f01-23456789abcd/page", 100, long_ago)
        write(self.at, "_versions/.tmp1", 10, long_ago)
        age(self.at, long_ago)
        must(pinctl(self.at, "enable", "--apply"))
        self.pin = new_id()
        must(pinctl(self.at, "register", "+3h", "--id", self.pin))
        must(pinctl(self.at, "register", "+4h"))
        self.copied = self.copy(os.path.join(folder, "undisturbed.lance"))
        self.was = rows(self.at)
        self.source = table_head(self.at).pins[self.pin].source_version
        must(pinctl(self.copied, *CLEAN))
        self.after = tree(self.copied)
        versions = listed(self.copied)
        equal(versions, list(range(self.source, self.source + 3)), "versions after an undisturbed cleanup")
        assert len(tree(self.at)) - len(self.after) > 15, "too little is deleted"

    def copy(self, to):
        shutil.rmtree(to, ignore_errors=True)
        return shutil.copytree(self.at, to)

    def look(self, at):
        """No version that is listed has lost a file, and the window is whole."""
        versions = listed(at)
        equal([v for v in versions if v >= self.source], list(range(self.source, self.source + 3)), "versions in the window")
        for version, n in rows(at).items():
            equal(n, self.was.get(version), "rows of version %d" % version)
        assert self.pin in table_head(at).pins, "the pin is gone"

    def again(self, at, words=CLEAN):
        must(pinctl(at, *words))
        now = tree(at)
        # A folder whose files nobody named, emptied by a run that was killed then, may be one that a writer just made: it goes in seven days.
        empty = [name for name, what in now.items() if what == "folder" and not os.listdir(os.path.join(at, name))]
        different = {name for name in {*now, *self.after} - set(empty) if now.get(name) != self.after.get(name)}
        equal(different, set(), "files that differ after the next run")


def listed(at):
    return sorted(found[0] for found in map(table.version_of, os.listdir(at + "/_versions")) if found)


def table_head(at):
    newest = table.head(at)
    name = next(name for name in os.listdir(at + "/_versions") if (table.version_of(name) or (0,))[0] == newest)
    return table.read_version(at, name)


def rows(at):
    """Rows of each version that is listed, as Lance reads them."""
    answer = lance.ask("each", at)
    if answer is None:
        return {}
    assert not answer.startswith("error"), "Lance says: " + answer
    return {int(part.split(":")[0]): part.split(": ")[1] for part in answer.split(", ")}


def tree(at):
    """Every file and its content, and the folders of indices."""
    found = {}
    for folder, folders, files in os.walk(at):
        for name in files:
            path = os.path.join(folder, name)
            with open(path, "rb") as f:
                found[os.path.relpath(path, at)] = hashlib.sha256(f.read()).hexdigest()
        for name in folders if os.path.basename(folder) == "_indices" else []:
            found[os.path.relpath(os.path.join(folder, name), at)] = "folder"
    return found


def count(at):
    """Its files, by their names alone: what goes meanwhile cannot be opened any more."""
    return sum(len(files) for _, _, files in os.walk(at))


def steps_of(at, words):
    """Numbers of the calls on storage that change something, and the names of all."""
    names = calls_of(at, words, ["-d", at])
    numbers = [number for number, name in enumerate(names, 1) if name in STEPS]
    assert len(numbers) > 20, names
    return numbers


def some(numbers, stride):
    return numbers if LONG else sorted(set(numbers[:3] + numbers[::stride] + numbers[-2:]))


# --- kills and faults -------------------------------------------------------------------------------------------------


def killed(words):
    with scratch() as folder:
        base = Base(folder)
        at = os.path.join(folder, "t.lance")
        numbers = steps_of(base.copy(at), words)
        kills = 0
        for number in some(numbers, 4):
            base.copy(at)
            done = stepped(at, ["-d", at, "-n", number, "-k"], words)
            assert done.status in (KILLED, DONE), done
            kills += done.status == KILLED
            try:
                base.look(at)
                base.again(at)
            except AssertionError as error:
                raise AssertionError("killed at call %d: %s" % (number, error))
        assert kills > 5, kills
        return "%d kills; Lance was asked %d times" % (kills, lance.asked)


def killed_again():
    with scratch() as folder:
        base = Base(folder)
        at = base.copy(os.path.join(folder, "t.lance"))
        kills = 0
        # Each run comes three calls further at least; those that only put back what the last had renamed are why it is not one.
        while True:
            done = stepped(at, ["-d", at, "-n", 60 + 3 * kills, "-k"], CLEAN)
            base.look(at)
            if done.status == DONE:
                break
            kills += 1
            assert kills < 500, "it never ends"
        base.again(at)
        return "%d kills" % kills


def judge(done):
    """A failure is told: by the status, and in words."""
    assert done.status in (DONE, FAILED, BLOCKED, 3), done
    assert done.status == DONE or done.err.strip(), "it failed without a word"


def fails(after):
    with scratch() as folder:
        base = Base(folder)
        at = os.path.join(folder, "t.lance")
        numbers, statuses = steps_of(base.copy(at), CLEAN), {}
        for number in some(numbers, 4):
            for error in ERRORS if LONG else [ERRORS[number % len(ERRORS)]]:
                base.copy(at)
                done = stepped(at, ["-d", at, "-n", number, "-e", error] + ["-a"] * after, CLEAN)
                statuses[done.status] = statuses.get(done.status, 0) + 1
                try:
                    judge(done)
                    base.look(at)
                    base.again(at)
                except AssertionError as failure:
                    raise AssertionError("call %d fails with %s: %s (%s)" % (number, errno.errorcode[error], failure, done))
        assert statuses.get(FAILED), statuses
        return "statuses %s" % statuses


def fails_for_good():
    with scratch() as folder:
        base = Base(folder)
        at = os.path.join(folder, "t.lance")
        for number in some(steps_of(base.copy(at), CLEAN), 6):
            base.copy(at)
            done = stepped(at, ["-d", at, "-n", number, "-e", ERRORS[number % len(ERRORS)], "-f"], CLEAN)
            try:
                judge(done)
                base.look(at)
                base.again(at)
            except AssertionError as failure:
                raise AssertionError("from call %d on all fail: %s (%s)" % (number, failure, done))


def interrupted():
    with scratch() as folder:
        base = Base(folder)
        at = base.copy(os.path.join(folder, "t.lance"))
        # So slow that this process may be held up for ten seconds, and it still has files to remove when the signal comes.
        process = subprocess.Popen([PINCTL, "-d", at, *CLEAN, "--rate", "1"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        # It prints what went when it comes out of the pipe's buffer; that files go is seen on disk.
        few = count(base.at) - 3
        until(lambda: count(at) <= few or process.poll() is not None, "three files go")
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
        equal(process.returncode, FAILED, "status (%s)" % err)
        assert "the next run goes on" in err, err
        assert len(tree(at)) > len(base.after), "it was not interrupted"
        base.look(at)
        base.again(at)


# --- clocks -----------------------------------------------------------------------------------------------------------


def on(environment, at, *words):
    return run([PINCTL, "-d", at, *words], environment)


def clocks():
    with scratch() as folder:
        base = Base(folder)
        at = os.path.join(folder, "t.lance")
        young = os.path.join(at, "data/young.lance")
        for shift, goes in ((-2, False), (0, False), (2, False), (24 * 8, True)):
            base.copy(at)
            write(at, "data/young.lance", 10, time.time())
            # Pins are due by the clock of who cleans: ahead of all it expires them, behind it does not.
            done = on(host("%+dh" % shift), at, *CLEAN)
            must(done)
            equal(not os.path.exists(young), goes, "the young file went, %+d h" % shift)
            pins = table_head(at).pins
            equal(base.pin in pins, shift < 3, "the pin is held, %+d h" % shift)
            if shift < 3:
                base.look(at)
            else:
                assert base.pin + ", due since " in done.err, done
                rows(at)
            os.path.exists(young) and os.unlink(young)
            if shift < 3:
                base.again(at)


def boundary():
    with scratch() as folder:
        at, pin = new_table(folder, fixture=HISTORY), new_id()
        noon = 1906545600
        text = "2030-06-01T12:30:00"
        must(on(host(str(noon)), at, "register", text + "Z", "--id", pin))
        source = table_head(at).pins[pin].source_version
        must(on(host(str(noon)), at, "renew", pin, text + ".000000001Z"))
        newest = table.head(at)
        # To the second of its expiry, and a nanosecond is left.
        must(on(host(str(noon + 1800)), at, *CLEAN))
        equal((table.head(at), listed(at)), (newest, list(range(source, newest + 1))), "head and versions")
        rows(at)
        # Renewed at the second in which it is due: it stays.
        must(on(host(str(noon + 1801)), at, "renew", pin, text.replace("30:00", "30:02") + "Z"))
        must(on(host(str(noon + 1801)), at, *CLEAN))
        equal(listed(at), list(range(source, newest + 2)), "versions")
        must(on(host(str(noon + 1802)), at, *CLEAN))
        equal(table_head(at).pins, {}, "pins")
        equal(listed(at), [newest + 2], "versions")
        rows(at)


def future():
    with scratch() as folder:
        base = Base(folder)
        at = base.copy(os.path.join(folder, "t.lance"))
        later = time.time() + 400 * DAY
        names = ["data/later.lance", "_versions/.tmplater", "_transactions/3-%s.txn" % new_id(), "data/.tmplater"]
        for name in names:
            write(at, name, 10, later)
        for words in (CLEAN, [*CLEAN, "--leaks"]):
            must(pinctl(at, *words))
            for name in names:
                assert os.path.exists(os.path.join(at, name)), name + " went"
            base.look(at)
        for name in names:
            os.unlink(os.path.join(at, name))
        base.again(at)
