"""
The gateway under released Lance: killed at any moment, with storage that fails at one call, and in a race of everybody. What a client was told has happened
is there, what it was told has failed is not, no pin is lost, and no version is missing.
"""

import contextlib
import errno
import os
import random
import shutil
import struct
import threading
import time

import table
from kill import Client, ask_mount, judge_pins, words_of
from operation import put
from world import LONG, PINCTL, Lance, Mount, Skip, equal, mounted, must, new_id, new_table, pinctl, run, scratch, stamp

KILLS = 500 if LONG else 10
KILLS_PER_TABLE = 25
PINS = 100 if LONG else 40
# Of the calls that fail, every nth, to be done in time.
STRIDE = 1 if LONG else 3
# Of calls that were not made, so many are the end.
UNREACHED = 5
ERRORS = [errno.ENOSPC, errno.EIO, errno.EACCES]
# What a client takes for "who knows", and looks itself; the others for "no".
UNSETTLED = ("OK", "EIO")
# Seconds that one waits for what others do; then it goes on without.
PATIENCE = 20
# The cleaner takes for left over what no version names yet, whole, half written, or just whole: then there is no version. And old versions, before there
# are pins, from under who was slow to read what came since.
CLEANED = ("Operation not permitted", "failed to persist temp file", "failed to read metadata", "Not found: ")
# Rows of a new table that stay.
BASE = [i for i in range(40) if i not in (3, 11, 29)]
TERM = 7200

lance = Lance()


def cases():
    yield "the daemon, killed %d times under load" % KILLS, killed
    for after in (False, True):
        yield "a link of a staged manifest, each call on storage %s" % ("is made and reported as failed" if after else "fails"), link_fails, after
    for release in ("14.0.2", "8.0.1"):
        yield "an append by Lance %s, calls on storage fail" % release, append_fails, release
    for release in ("14.0.2", "8.0.1"):
        yield "a version that lost a file is not restored by Lance %s" % release, restore_of_what_is_gone, release
    yield "two releases, a compactor, a cleaner and %d pins" % PINS, race


@contextlib.contextmanager
def writers(*releases):
    hands = [Lance(release, "writer.py") for release in releases]
    try:
        if not all(hand.process for hand in hands):
            raise Skip("Lance %s is not here: tools/venv" % " or ".join(releases))
        yield hands
    finally:
        for hand in hands:
            hand.close()


def done(answer):
    return not answer.startswith("error")


def lance_table(folder, hand):
    """One that Lance made, with pins enabled."""
    at = os.path.join(folder, "t.lance")
    answer = hand.ask("make", at, len(BASE) + 3)
    assert done(answer), answer
    must(pinctl(at, "enable", "--apply"))
    return at


# --- at random --------------------------------------------------------------------------------------------------------


class Door:
    """Whoever is at work is inside; it closes when all are out."""

    def __init__(self):
        self.change, self.inside, self.is_open = threading.Condition(), 0, True

    def __enter__(self):
        with self.change:
            self.change.wait_for(lambda: self.is_open)
            self.inside += 1

    def __exit__(self, *what):
        with self.change:
            self.inside -= 1
            self.change.notify_all()

    def close(self):
        with self.change:
            self.is_open = False
            assert self.change.wait_for(lambda: self.inside == 0, 120), "a client waits for ever"

    def open(self):
        with self.change:
            self.is_open = True
            self.change.notify_all()


class Rows:
    """
    Which rows there are: of each, True, False, or both where nobody was told. And the serial model of it: the version that brought a row, and the one
    that took it away, as whoever did it was told.
    """

    def __init__(self):
        self.lock, self.states, self.next = threading.Lock(), {row: {True} for row in BASE}, 1000
        self.came, self.went = {row: 0 for row in BASE}, {}
        self.acknowledged = self.failed = 0

    def new(self):
        with self.lock:
            self.next += 1
            return self.next

    def some(self, chance):
        """One that certainly is there, and has come since."""
        with self.lock:
            certain = [row for row, states in self.states.items() if states == {True} and row >= 1000]
            return chance.choice(certain) if certain else None

    def told(self, row, there, answer):
        with self.lock:
            self.states[row] = {there} if done(answer) else {True, False}
            if done(answer):
                (self.came if there else self.went)[row] = int(answer)
            self.acknowledged += done(answer)
            self.failed += not done(answer)

    def states_at(self, row, version):
        if row not in self.came:
            return {True, False}
        if version < self.came[row]:
            return {False}
        return {version < self.went[row]} if row in self.went else {True} | self.states[row]

    def judge(self, ids, version=None):
        """Of what Lance found: now, when nobody is at it any more, or in that version."""
        found = list(map(int, ids.split()))
        equal(sorted(set(found)), sorted(found), "rows, each once")
        for row, states in self.states.items():
            may = states if version is None else self.states_at(row, version)
            assert (row in found) in may, "row %d is %s in version %s; it may be %s" % (row, row in found, version or "of the head", may)
        equal(set(found) - set(self.states), set(), "rows of nobody")


class Hand(threading.Thread):
    """Does one thing after the other until it is over."""

    def __init__(self, act, door, is_over):
        super().__init__(daemon=True)
        self.act, self.door, self.is_over, self.error = act, door, is_over, None

    def run(self):
        try:
            while not self.is_over():
                with self.door:
                    self.act()
        except Exception as error:
            self.error = error


def wait_for(thread, seconds):
    thread.join(seconds)
    assert not thread.is_alive(), "it never ends"
    if thread.error:
        raise thread.error


def ask_for_pins(at, number):
    """As kill.py's clients ask: through the tree of pins, or by pinctl, which goes past the gateway."""

    def ask(kind, *words):
        if kind != "confirm" and number % 2:
            return True if run([PINCTL, "-d", at, *words_of(kind, *words)]).status == 0 else None
        return ask_mount(at + "/.pinfs/pins", kind, *words)

    return ask


def guarded(door, ask):
    def act(*words):
        with door:
            return ask(*words)

    return act


def killed():
    kills, told = 0, []
    chance = random.Random(4)
    with writers("14.0.2", "8.0.1", "14.0.2") as hands:
        while kills < KILLS:
            with scratch() as folder:
                n = min(KILLS_PER_TABLE, KILLS - kills)
                told.append(killed_on_one(folder, hands, chance, n))
                kills += n
    sums = [sum(one) for one in zip(*told)]
    assert sums[0] > 0 and sums[2] > 0, sums
    return "%d kills; %d commits of rows acknowledged, %d failed, %d changes of pins acknowledged" % (kills, *sums)


def killed_on_one(folder, hands, chance, kills):
    at = lance_table(folder, hands[0])
    door, rows, state = Door(), Rows(), {"over": False}

    def append(hand):
        row = rows.new()
        rows.told(row, True, hand.ask("add", at, row))

    def delete(hand):
        row = rows.some(chance)
        if row:
            rows.told(row, False, hand.ask("drop", at, row))
        else:
            time.sleep(0.01)

    over = lambda: state["over"]
    workers = [Hand(lambda hand=hand: append(hand), door, over) for hand in hands[:2]] + [Hand(lambda: delete(hands[2]), door, over)]
    clients = [Client(number, guarded(door, ask_for_pins(at, number)), over) for number in range(2)]
    mount = Mount(at, folder, gateway=True)
    known = {}
    try:
        for thread in workers + clients:
            thread.start()
        for _ in range(kills):
            time.sleep(chance.uniform(0.02, 0.6))
            mount.process.kill()
            # Nobody is in the middle of anything when the table is uncovered: half a commit would go past the gateway.
            door.close()
            mount.clear()
            table.Table(at, known)
            mount = Mount(at, folder, gateway=True)
            door.open()
        time.sleep(0.3)
        state["over"] = True
        for thread in workers + clients:
            wait_for(thread, 120)
        mount.stop()
    finally:
        state["over"] = True
        door.open()
        mount.clear()
    head = table.Table(at, known).head
    judge_pins(head, clients)
    must(pinctl(at, "check"))
    rows.judge(hands[0].ask("ids", at))
    for pin in head.pins.values():
        answer = hands[0].ask("ids", at, pin.source_version)
        assert done(answer), "pin %s: %s" % (pin.id, answer)
        rows.judge(answer, pin.source_version)
    return rows.acknowledged, rows.failed, sum(client.acknowledged for client in clients)


# --- calls that fail --------------------------------------------------------------------------------------------------


def section(message):
    return struct.pack("<I", len(message)) + message


def stage(at):
    """The next version as a client stages it that changes nothing: its path, its manifest's, and its transaction's uuid."""
    versions = at + "/_versions/"
    name = max((name for name in os.listdir(versions) if table.version_of(name)), key=table.version_of)
    with open(versions + name, "rb") as f:
        data = f.read()
    (position,) = struct.unpack_from("<q", data, len(data) - 16)
    version, uuid = table.version_of(name)[0] + 1, new_id()
    transaction = section(put(1, version - 1) + put(2, uuid.encode()) + put(110, b""))
    old = table.section(data, position)
    kept = b"".join(put(n, v) for n, v in table.fields(old) if n not in (3, 10, 12, 21, 23, table.PINS))
    body = kept + put(3, version) + put(21, 0) + put(23, 0)
    new = transaction + section(body) + struct.pack("<q", len(transaction)) + data[-8:]
    to = versions + "%020d.manifest" % ((1 << 64) - 1 - version)
    with open(to + "#1", "wb") as f:
        f.write(new)
    return to + "#1", to, uuid


def try_link(staged, to):
    try:
        os.link(staged, to)
        return "OK"
    except OSError as error:
        return errno.errorcode[error.errno]


def link_fails(after):
    tally, known = {}, {}
    with scratch() as folder:
        at = new_table(folder)
        pins = [new_id() for _ in range(3)]
        for pin in pins:
            must(pinctl(at, "register", "+2h", "--id", pin))
        for error in [errno.EIO] if after else ERRORS if LONG else ERRORS[:1]:
            with mounted(at, folder, stepper=["-e", error] + ["-a"] * after, gateway=True) as mount:
                number, unreached = 1 - STRIDE, 0
                # How many there are differs from one time to the next.
                while unreached < UNREACHED:
                    number += STRIDE
                    unreached = 0 if one_link(at, mount, number, tally, known) else unreached + 1
        equal(set(table.Table(at, known).head.pins), set(pins), "pins")
        lance.opens(at, table.head(at))
    assert tally.get("OK") and len(tally) > 1, tally
    return ", ".join("%d answered %s" % (n, name) for name, n in sorted(tally.items()))


def one_link(at, mount, number, tally, known):
    staged, to, uuid = stage(at)
    before = table.head(at)
    mount.arm(number)
    answer = try_link(staged, to)
    reached = mount.arm(0) >= number
    tally[answer] = tally.get(answer, 0) + 1
    head = table.Table(at, known).head
    landed = head.transaction.uuid == uuid
    equal(head.version, before + landed, "head")
    text = "call %d: it was answered %s, and has %shappened" % (number, answer, "" if landed else "not ")
    assert landed if answer == "OK" else not landed or answer in UNSETTLED, text
    if not landed:
        equal(try_link(staged, to), "OK", "again, after " + answer)
    os.unlink(staged)
    return reached


def move_on(at, old):
    """Pin the head instead, and away with what that does not need: each version that there is makes calls of its own, before those of a commit."""
    pin = must(pinctl(at, "register", "+2h")).strip()
    must(pinctl(at, "release", old))
    source = table.head(at) - 2
    for name in os.listdir(at + "/_versions"):
        found = table.version_of(name)
        if found and found[0] < source:
            os.unlink("%s/_versions/%s" % (at, name))
    return pin


def append_fails(release):
    """
    What Lance makes of it: 14 looks what became of a commit that was answered EIO, 8 takes it for failed. Where the last write to a data file fails neither
    notices, and the gateway does.
    """
    tally, unknown = {}, 0
    with scratch() as folder, writers("14.0.2", release) as (maker, hand):
        at = lance_table(folder, maker)
        pin = must(pinctl(at, "register", "+2h")).strip()
        there, row = set(BASE), 1000
        with mounted(at, folder, stepper=["-e", errno.EIO], gateway=True) as mount:
            mount.arm(0)
            assert done(hand.ask("add", at, row))
            there.add(row)
            count = mount.arm(0)
            number, unreached, step = 1, 0, 1 if LONG else max(1, count // 25)
            while unreached < UNREACHED:
                row += 1
                mount.arm(number)
                answer = hand.ask("add", at, row)
                unreached = 0 if mount.arm(0) >= number else unreached + 1
                tally[done(answer)] = tally.get(done(answer), 0) + 1
                found = hand.ask("ids", at)
                assert done(found), found
                found = list(map(int, found.split()))
                equal(len(found), len(set(found)), "rows, each once")
                landed = row in found
                unknown += landed and not done(answer)
                text = "call %d: %s, and it has %shappened" % (number, answer, "" if landed else "not ")
                assert landed if done(answer) else not landed or release.startswith("8."), text
                there |= {row} if landed else set()
                equal(set(found), there, "rows")
                must(pinctl(at, "confirm", pin))
                pin = move_on(at, pin) if landed else pin
                number += step
        must(pinctl(at, "check"))
        assert unknown or tally.get(False), tally
    return "%d answered as done, %d as failed, %d of these had happened" % (tally.get(True, 0), tally.get(False, 0), unknown)


def restore_of_what_is_gone(release):
    with scratch() as folder, writers("14.0.2", release) as (maker, hand):
        at = lance_table(folder, maker)
        old, files = table.head(at), os.listdir(at + "/data")
        with mounted(at, folder, gateway=True) as mount:
            assert done(hand.ask("begin", at, 1000))
            must(pinctl(at, "register", "+2h"))
            head = table.head(at)
            for name in files:
                shutil.copy("%s/data/%s" % (at, name), folder)
                os.unlink("%s/data/%s" % (at, name))
                answer = hand.ask("restore", at, old)
                assert "Operation not permitted" in answer, answer
                assert "its file \"data/%s\" is gone" % name in mount.status(), mount.status()
                equal((table.head(at), hand.ask("ids", at)), (head, "1000"), "head, and its rows")
                shutil.copy("%s/%s" % (folder, name), at + "/data")
            equal(hand.ask("restore", at, old), str(head + 1), "version that was restored")
            equal(hand.ask("ids", at), " ".join(map(str, BASE)), "rows")
        must(pinctl(at, "check"))


# --- everybody --------------------------------------------------------------------------------------------------------


class Registrar(threading.Thread):
    """
    Makes pins, one after the other, in one way; every other one is released after a while. Then whoever held it has read its version, and followed its
    rows to the head of that moment.
    """

    def __init__(self, way, race, count):
        super().__init__(daemon=True)
        self.way, self.race, self.count, self.chance = way, race, count, random.Random(way)
        self.held, self.error = {}, None

    def run(self):
        try:
            for number in range(self.count):
                self.race.let_come(1)
                self.register(new_id(), number)
                if len(self.held) > 4 and self.chance.random() < 0.6:
                    self.release(self.chance.choice(list(self.held)))
        except Exception as error:
            self.error = error

    def register(self, pin, number):
        pins = self.race.ways[self.way]
        if pins:
            os.mkdir("%s/%s,expires_at=%s" % (pins, pin, stamp(TERM)[0]))
        else:
            must(pinctl(self.race.at, "register", "+2h", "--id", pin))
        # Whoever reads it, reads it from storage.
        reader = (self.race.ways["gateway"], self.race.ways["plain mount"])[number % 2]
        with open("%s/%s" % (reader, pin)) as f:
            self.held[pin] = int(next(line for line in f if '"source_version"' in line).split(":")[1].strip(" ,\n"))

    def release(self, pin):
        self.race.read(self.held.pop(pin))
        pins = self.race.ways[self.way]
        if pins:
            os.unlink("%s/%s" % (pins, pin))
        else:
            must(pinctl(self.race.at, "release", pin))


class Race:
    """The table, the ways to its pins, the rows that there are, and what was read meanwhile."""

    def __init__(self, at, plain, jobs):
        self.at, self.jobs, self.rows, self.lock = at, jobs, Rows(), threading.Lock()
        self.ways = {"plain mount": plain.pins, "gateway": at + "/.pinfs/pins", "pinctl": None}
        self.seen, self.tally = [], {}
        self.over = self.again = False

    def let_come(self, n):
        """Wait for rows of others: who is fastest would keep the table to himself."""
        enough = self.rows.acknowledged + n
        end = time.monotonic() + PATIENCE
        while self.rows.acknowledged < enough and not self.over and time.monotonic() < end:
            time.sleep(0.002)

    def count(self, name, answer):
        with self.lock:
            key = name, "done" if done(answer) else "failed"
            self.tally[key] = self.tally.get(key, 0) + 1

    def read(self, version):
        """As a job does whose pin holds this version."""
        with self.lock:
            for act in ("ids", "follow"):
                answer = self.jobs.ask(act, self.at, version)
                assert done(answer), "%s of version %d: %s" % (act, version, answer)
                if act == "ids":
                    self.seen.append((version, answer))
                else:
                    equal(*answer.split(" of "), "rows of version %d that are found at the head" % version)
        self.count("read", answer)

    def judge(self):
        """What was read when, as who has seen everything knows."""
        for version, ids in self.seen:
            self.rows.judge(ids, version)

    def append(self, hand, name):
        row = self.rows.new()
        answer = hand.ask("add", self.at, row)
        self.rows.told(row, True, answer)
        self.count(name, answer)
        # Or others were first twenty times: who is slow comes late each time.
        assert done(answer) or any(word in answer for word in (*CLEANED, "Failed to commit the transaction after")), answer

    def compact(self, hand):
        if not self.again:
            self.let_come(4)
        answer = hand.ask("compact", self.at)
        self.count("compact", answer)
        self.again = not done(answer)
        # Others were there first, or the cleaner: it may begin anew.
        assert done(answer) or any(word in answer for word in (*CLEANED, "onflict", "retr", "Retr")), answer

    def clean(self, hand):
        self.let_come(2)
        self.count("clean", hand.ask("clean", self.at))


def race():
    with scratch() as folder, writers("14.0.2", "8.0.1", "14.0.2", "14.0.2", "14.0.2") as hands:
        at = lance_table(folder, hands[0])
        aside = os.path.join(folder, "aside")
        os.mkdir(aside)
        door = Door()
        # The plain mount holds the table's directory, over which the gateway is mounted then.
        with mounted(at, aside) as plain, mounted(at, folder, gateway=True):
            it = Race(at, plain, hands[4])
            # 8.0.1 waits longer after each race that it loses, and a compaction takes long: who has committed nothing goes on when others have stopped.
            over = lambda: it.over
            has_won = lambda name: it.over and it.tally.get((name, "done"))
            workers = [Hand(lambda: it.append(hands[0], "14.0.2"), door, lambda: has_won("14.0.2"))]
            workers += [Hand(lambda: it.append(hands[1], "8.0.1"), door, lambda: has_won("8.0.1"))]
            workers += [Hand(lambda: it.compact(hands[2]), door, lambda: has_won("compact")), Hand(lambda: it.clean(hands[3]), door, over)]
            registrars = [Registrar(way, it, -(-PINS // len(it.ways))) for way in it.ways]
            for thread in workers + registrars:
                thread.start()
            try:
                for thread in registrars:
                    wait_for(thread, 600)
            finally:
                it.over = True
            for thread in workers:
                wait_for(thread, 300)
            held = {pin: version for registrar in registrars for pin, version in registrar.held.items()}
            equal(set(os.listdir(plain.pins)), set(held), "pins")
            for version in sorted(set(held.values())):
                it.read(version)
        must(pinctl(at, "check"))
        names = {table.version_of(name)[0]: name for name in os.listdir(at + "/_versions") if table.version_of(name)}
        window = range(min(held.values()), max(names) + 1)
        equal([version for version in sorted(names) if version >= window.start], list(window), "versions of the window")
        versions = [table.read_version(at, names[version]) for version in window]
        for before, after in zip(versions, versions[1:]):
            table.check_step(before, after)
        found = versions[-1].pins
        equal({pin: found[pin].source_version for pin in found}, held, "pins, and the versions that they hold")
        # Past the gateway, and of all that is held, not only where a pin began.
        for version in window:
            it.seen.append((version, hands[0].ask("ids", at, version)))
        it.rows.judge(it.seen[-1][1])
        it.judge()
        for version in sorted(set(held.values())):
            it.read(version)
        assert all(it.tally.get((name, "done")) for name in ("14.0.2", "8.0.1", "compact")), it.tally
        return ", ".join(["%d versions held" % len(window)] + ["%s %s: %d" % (*key, n) for key, n in sorted(it.tally.items())])
