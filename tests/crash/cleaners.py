"""
Two cleanups that race with each other, with pins that are registered and renewed through a mount, with appends, tags and branches. Round by round: of what
was acknowledged nothing is lost, and no version that is listed lacks a file.
"""

import os
import random
import shutil
import threading
import time

import table
from cleanup import HISTORY, age, listed, rows, table_head, write
from world import (
    AGAIN, BLOCKED, DONE, FAILED, FIXTURE, LONG, Lance, equal, mounted, must, new_id, overdue, pinctl, scratch, stamp
)  # fmt: skip

ROUNDS = 1000 if LONG else 20
CLEAN = ["cleanup", "--retain", "1", "--tags", "skip", "--apply"]
DAY = 86400

actor = Lance()


def cases():
    yield "%d rounds on a table with pins" % ROUNDS, pinned
    yield "%d rounds on a table that Lance writes to" % ROUNDS, unpinned


class Race:
    """Things that begin at moments chosen at random; what each came to, by name."""

    def __init__(self, chance):
        self.chance, self.threads, self.results, self.errors = chance, [], {}, []

    def add(self, name, function, *args):
        wait = self.chance.uniform(0, 0.15)

        def act():
            time.sleep(wait)
            try:
                self.results[name] = function(*args)
            except Exception as error:
                self.errors.append(error)

        self.threads.append(threading.Thread(target=act, daemon=True))

    def run(self):
        for thread in self.threads:
            thread.start()
        for thread in self.threads:
            thread.join(120)
            assert not thread.is_alive(), "it never ends"
        if self.errors:
            raise self.errors[0]
        return self.results


def clean(at, *more):
    done = pinctl(at, *CLEAN, *more)
    # 4: something appeared that makes the plan untrustworthy; 75: too many lost races of the expire; 1: files that could not be removed.
    assert done.status in (DONE, FAILED, BLOCKED, AGAIN), done
    return done


def attempt(function, *args):
    """True, or the error of the mount."""
    try:
        function(*args)
        return True
    except OSError as error:
        return error


def echo(path, text):
    fd = os.open(path, os.O_WRONLY)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)


def put_tag(at, name, version):
    """As Lance does: the manifest is there, then the tag is."""
    scheme = "%020d.manifest" % ((1 << 64) - 1 - version)
    try:
        size = os.stat(os.path.join(at, "_versions", scheme)).st_size
    except FileNotFoundError:
        return False
    os.makedirs(at + "/_refs/tags", exist_ok=True)
    with open(at + "/_refs/tags/.new", "w") as f:
        f.write('{"branch":null,"version":%d,"manifestSize":%d}' % (version, size))
    os.rename(at + "/_refs/tags/.new", at + "/_refs/tags/%s.json" % name)
    return True


def judge(at, was, pins):
    """Every version that is listed gives the rows it gave; each pin that was acknowledged is there, and every version of its window."""
    now, versions, head = rows(at), listed(at), table_head(at)
    for version, n in now.items():
        equal(n, was.get(version, n), "rows of version %d" % version)
    for pin in pins:
        assert pin in head.pins, "pin %s is gone" % pin
        source = head.pins[pin].source_version
        equal([v for v in versions if v >= source], list(range(source, head.version + 1)), "window of pin " + pin)
    equal(pinctl(at, "check").status, DONE, "status of check")


# --- pins -------------------------------------------------------------------------------------------------------------


def append_of(at, number):
    """An append as Lance prepares it, of a copy of a data file: a transaction in a file."""
    name = next(n for n in sorted(os.listdir(at + "/_transactions")) if b"Append" in kind_of(at, n))
    with open(os.path.join(at, "_transactions", name), "rb") as f:
        data = f.read()
    old = next(n for n in os.listdir(at + "/data") if n.encode() in data)
    new = old[:-12] + "%06x" % number + ".lance"
    shutil.copyfile(os.path.join(at, "data", old), os.path.join(at, "data", new))
    t = table.transaction(data)
    data = data.replace(old.encode(), new.encode()).replace(t.uuid.encode(), new_id().encode())
    # Its field 1, in front: prepared on the head.
    assert data[0] == 8 and data[1] == t.read_version and table.head(at) < 128
    data = bytes((8, table.head(at))) + data[2:]
    path = at + ".%d.txn" % number
    with open(path, "wb") as f:
        f.write(data)
    return path


def kind_of(at, name):
    with open(os.path.join(at, "_transactions", name), "rb") as f:
        fields = dict(table.fields(f.read()))
    return b"Append" if 100 in fields else b""


def pinned():
    chance, tally = random.Random(1), {}
    with scratch() as folder:
        base = os.path.join(folder, "base.lance")
        shutil.copytree(FIXTURE, base)
        age(base, time.time() - 30 * DAY)
        must(pinctl(base, "enable", "--apply"))
        due, other = new_id(), new_id()
        overdue(base, due)
        must(pinctl(base, "register", "+9h", "--id", other))
        was = rows(base)
        for number in range(ROUNDS):
            at = os.path.join(folder, "t%d.lance" % number)
            shutil.copytree(base, at)
            prepared = append_of(at, number)
            try:
                one_pinned(at, folder, chance, tally, was, due, other, prepared)
            except AssertionError as error:
                raise AssertionError("round %d: %s" % (number, error))
            shutil.rmtree(at)
            os.unlink(prepared)
    # A race in which one side always wins is none.
    assert not LONG or len({key for key in tally if key[0] == "renew"}) > 1, tally
    return ", ".join("%s %s: %d" % (*key, n) for key, n in sorted(tally.items()))


def one_pinned(at, folder, chance, tally, was, due, other, prepared):
    pins = {name: new_id() for name in ("register", "mkdir")}
    with mounted(at, folder) as mount:
        race = Race(chance)
        race.add("clean", clean, at)
        race.add("again", clean, at, "--jobs", "2")
        race.add("renew", attempt, echo, "%s/%s" % (mount.pins, due), "+5h")
        race.add("longer", attempt, echo, "%s/%s" % (mount.pins, other), "+10h")
        race.add("mkdir", attempt, os.mkdir, "%s/%s,expires_at=%s" % (mount.pins, pins["mkdir"], stamp(7200)[0]))
        race.add("register", pinctl, at, "register", "+2h", "--id", pins["register"])
        race.add("append", pinctl, at, "commit", "--transaction", prepared)
        race.add("tag", put_tag, at, "kept", chance.randrange(1, 9))
        results = race.run()
    held = [other]
    held += [due] if results["renew"] is True else []
    held += [pins["mkdir"]] if results["mkdir"] is True else []
    held += [pins["register"]] if results["register"].status == DONE else []
    equal(results["longer"], True, "renewal of a pin that is not due")
    for name in ("renew", "mkdir", "append", "clean", "again"):
        result = results[name]
        key = (name, result.strerror if isinstance(result, OSError) else str(getattr(result, "status", result)))
        tally[key] = tally.get(key, 0) + 1
    judge(at, was, held)
    # Undisturbed it ends, and nothing that is held goes.
    must(pinctl(at, *CLEAN))
    judge(at, was, held)
    equal([name for name in os.listdir(at + "/_versions") if name.startswith(".tmp-removed")], [], "renamed manifests")


# --- no pins ----------------------------------------------------------------------------------------------------------


def unpinned():
    chance, tally = random.Random(2), {}
    if actor.process is None:
        return "without Lance there is nobody to write"
    with scratch() as folder:
        base = os.path.join(folder, "base.lance")
        shutil.copytree(HISTORY, base)
        write(base, "data/stray.lance", 10, 0)
        age(base, time.time() - 30 * DAY)
        was = rows(base)
        for number in range(ROUNDS):
            at = os.path.join(folder, "t%d.lance" % number)
            shutil.copytree(base, at)
            try:
                one_unpinned(at, chance, tally, was)
            except AssertionError as error:
                raise AssertionError("round %d: %s" % (number, error))
            shutil.rmtree(at)
    return ", ".join("%s %s: %d" % (*key, n) for key, n in sorted(tally.items()))


def writes(at, chance):
    """Lance has one hand: in turn, in an order chosen at random."""
    requests = [("append", at)] * 3 + [("tag", at, chance.randrange(1, 9), "kept"), ("branch", at, chance.randrange(1, 9), "dev")]
    chance.shuffle(requests)
    answers = {}
    for request in requests:
        answers.setdefault(request[0], []).append(actor.ask(*request))
    return answers


def one_unpinned(at, chance, tally, was):
    race = Race(chance)
    race.add("clean", clean, at)
    race.add("again", clean, at, "--jobs", "2")
    race.add("lance", writes, at, chance)
    results = race.run()
    appended = [answer for answer in results["lance"]["append"] if not answer.startswith("error")]
    for name, answers in results["lance"].items():
        for answer in answers:
            key = (name, "failed" if answer.startswith("error") else "done")
            tally[key] = tally.get(key, 0) + 1
    judge(at, was, [])
    if appended:
        equal(table.head(at), max(map(int, appended)), "head")
    must(pinctl(at, *CLEAN))
    judge(at, was, [])
