"""
Storage calls that end with EINTR, as network file systems pass it on, though nobody interrupted who asked: each is answered as if nothing had been.
With -a of the stepper the call has taken effect all the same.
"""

import errno
import os

import table
from operation import CHANGES, KINDS, TERM, Operation
from world import LONG, Lance, calls_of, equal, mounted, must, new_id, new_table, pinctl, scratch, stamp, stepped

INTERRUPTED = ["-e", errno.EINTR]
# In the short form every nth call, but some of each name.
STRIDE = 1 if LONG else 5

lance = Lance()


def cases():
    for kind in KINDS:
        yield "pinctl %s, each call interrupted" % kind, pinctl_acts, kind
    for words in (["ls"], ["confirm", "PIN"], ["status"], ["log"], ["check"]):
        yield "pinctl %s, each call interrupted" % words[0], pinctl_reads, words
    yield "the mount begins, each call interrupted", mount_begins
    for what in READS:
        yield "%s, each call interrupted" % what, mount_reads, READS[what]
    yield "each directory that the mount reads, interrupted", mount_lists
    for kind in KINDS[:3]:
        yield "%s through the mount, each call interrupted" % kind, mount_acts, kind, []
        yield "%s through the mount, each change made and then interrupted" % kind, mount_acts, kind, ["-a"]


def some(names):
    """Numbers of calls to interrupt: the first of each name, and a few more."""
    return sorted({names.index(name) + 1 for name in names} | set(range(1, len(names) + 1, STRIDE)))


def quiet(done):
    assert "nterrupted" not in done.err, done
    return must(done)


# --- pinctl -----------------------------------------------------------------------------------------------------------


def pinctl_acts(kind):
    with scratch() as folder:
        operation = Operation(kind, folder)
        at = operation.copy(os.path.join(folder, "t.lance"))
        names = calls_of(at, operation.words, ["-d", at])
        tried = [(number, []) for number in some(names)]
        tried += [(number, ["-a"]) for number, _ in tried if names[number - 1] in CHANGES]
        for number, after in tried:
            operation.copy(at)
            try:
                quiet(stepped(at, ["-d", at, "-n", number, *INTERRUPTED, *after], operation.words))
                assert operation.look(at, True)
                operation.check_guards(at)
            except AssertionError as error:
                raise AssertionError("call %d, %s%s: %s" % (number, names[number - 1], ", after" * len(after), error))
        lance.opens(at, table.head(at))
        return "%d tries at %d calls" % (len(tried), len(names))


def pinctl_reads(words):
    with scratch() as folder:
        at, pin = new_table(folder), new_id()
        must(pinctl(at, "register", stamp(TERM)[0], "--id", pin))
        # Without --json there is how much time is left.
        words = ["--json", *(pin if word == "PIN" else word for word in words)]
        names = calls_of(at, words, ["-d", at])
        told = must(pinctl(at, *words))
        for number in some(names):
            equal(quiet(stepped(at, ["-d", at, "-n", number, *INTERRUPTED], words)), told, "call %d, %s" % (number, names[number - 1]))
        return "%d calls" % len(names)


# --- the mount --------------------------------------------------------------------------------------------------------


def read(path):
    with open(path) as f:
        return f.read()


# What is asked of a mount with one pin; each must find the same twice.
READS = {
    "ls of pins": lambda mount, pin: sorted(os.listdir(mount.pins)),
    "cat and stat of a pin": lambda mount, pin: (read(mount.pins + "/" + pin), os.stat(mount.pins + "/" + pin).st_mtime_ns),
    "a name that is not there": lambda mount, pin: os.path.lexists(mount.pins + "/" + new_id()),
    "cat of head": lambda mount, pin: read(mount.at + "/head"),
    "ls and cat in branches": lambda mount, pin: (os.listdir(mount.at + "/branches"), read(mount.at + "/branches/main/head")),
}


def mount_begins():
    with scratch() as folder:
        at, pin = new_table(folder), new_id()
        must(pinctl(at, "register", stamp(TERM)[0], "--id", pin))
        with mounted(at, folder, stepper=[]) as mount:
            calls = mount.arm(0)
        for number in range(1, calls + 1, STRIDE):
            with mounted(at, folder, stepper=[*INTERRUPTED, "-n", number]) as mount:
                equal(os.listdir(mount.pins), [pin], "what ls says")
                assert "nterrupted" not in mount.words(), mount.words()
        return "%d calls" % calls


def mount_reads(ask):
    with scratch() as folder:
        at, pin = new_table(folder), new_id()
        must(pinctl(at, "register", stamp(TERM)[0], "--id", pin))
        with mounted(at, folder, stepper=INTERRUPTED) as mount:
            term = TERM

            def fresh():
                """By a commit of somebody else, so that there is something to read."""
                nonlocal term
                term += 60
                must(pinctl(at, "renew", pin, stamp(term)[0]))

            fresh()
            mount.arm(0)
            ask(mount, pin)
            calls = mount.arm(0)
            for number in range(1, calls + 1, STRIDE):
                fresh()
                mount.arm(number)
                found = ask(mount, pin)
                mount.arm(0)
                equal(found, ask(mount, pin), "what is found when call %d is interrupted" % number)
            return "%d calls" % calls


def mount_lists():
    with scratch() as folder:
        at, pin = new_table(folder), new_id()
        must(pinctl(at, "register", stamp(TERM)[0], "--id", pin))
        os.mkdir(at + "/_refs/branches")
        with mounted(at, folder, stepper=[*INTERRUPTED, "-c", "getdents64"]) as mount:

            def ask():
                # The second asks for each branch.
                return os.listdir(mount.at + "/branches"), "pinfs_pins{" in read(mount.at + "/.pinfs/metrics")

            mount.arm(0)
            told = ask()
            calls = mount.arm(0)
            assert calls > 0 and told[1], told
            for number in range(1, calls + 1):
                mount.arm(number)
                equal(ask(), told, "what is found when call %d is interrupted" % number)
            return "%d calls" % calls


def mount_acts(kind, after):
    with scratch() as folder:
        at, pin = new_table(folder), new_id()
        must(pinctl(at, "register", stamp(TERM)[0], "--id", pin))
        with mounted(at, folder, stepper=INTERRUPTED + after) as mount:
            term = TERM

            def act(number):
                """Once, with this call interrupted; how many calls there were."""
                nonlocal pin, term
                term += 60
                text, expires = stamp(term)
                path = mount.pins + "/" + pin
                if kind == "register":
                    must(pinctl(at, "release", pin))
                mount.arm(number)
                if kind == "register":
                    os.mkdir("%s,expires_at=%s" % (path, text))
                elif kind == "renew":
                    with open(path, "w") as f:
                        f.write(text)
                else:
                    os.unlink(path)
                calls = mount.arm(0)
                held = table.Table(at).head.pins
                equal({p.id: p.expires for p in held.values()}, {} if kind == "release" else {pin: expires}, "pins")
                assert "nterrupted" not in mount.status(), mount.status()
                if kind == "release":
                    must(pinctl(at, "register", text, "--id", pin))
                return calls

            calls = act(0)
            for number in range(1, calls + 1, 2 * STRIDE - 1):
                act(number)
        lance.opens(at, table.head(at))
        return "%d calls" % calls
