"""
Eight processes work on the same pins, half of the time through a mount and half through pinctl. Whatever each was answered must be explained by
what the manifests and transactions say happened, and everything they say happened must be what somebody asked for and was promised.
"""

import collections
import datetime
import errno
import functools
import json
import multiprocessing
import os
import random
import re
import time
import traceback

import table
from world import DONE, FAILED, LONG, USAGE, Lance, equal, mounted, must, new_id, new_table, overdue, pinctl, scratch, time_of_one

PROCESSES = 8
OPERATIONS, PINS = (200, 50) if LONG else (25, 12)
LABELS = ["", "", "", "other"]

# Of pinctl's sentences, what tells one refusal from another.
SENTENCES = {"there is no pin": "ENOENT", "is there and is not as asked": "EEXIST", "is not the head": "ESTALE", "has passed": "EINVAL"}

# And who it was that removed a pin that was due.
EXPIRED = re.compile(r"pin (\S{36})\b.* \((committed as|nothing to commit on) version (\d+)\)")

# One answer. `asked` is what was asked for (Asked, or for an expire the time that was inspected); `before` and `after` are the newest version
# when it was asked and when it was answered, `began` and `ended` the clock; `version` and `committed` are None if it was not told; `told` is
# what a read showed, or the record that came with the answer. Versions are the counter that orders answers and changes alike: the newest one is
# looked up in the directory by the process that asks, not by what is tested.
Answer = collections.namedtuple("Answer", "who kind pin asked before after began ended outcome version committed told")
Asked = collections.namedtuple("Asked", "expires label source")
# One item of a version's transaction.
Item = collections.namedtuple("Item", "version kind pin expires label source")


def cases():
    yield "%d processes, %d operations each on %d pins: the history explains every answer" % (PROCESSES, OPERATIONS, PINS), explained
    for name, lies in LIES:
        yield "the checker notices " + name, noticed, lies


# --- the processes ----------------------------------------------------------------------------------------------------


def text_of(ns):
    at = datetime.datetime.fromtimestamp(ns // 10**9, datetime.timezone.utc)
    return "%s.%09dZ" % (at.strftime("%Y-%m-%dT%H:%M:%S"), ns % 10**9)


def ns_of(text):
    whole, _, fraction = text[:-1].partition(".")
    at = datetime.datetime.strptime(whole + "+0000", "%Y-%m-%dT%H:%M:%S%z")
    return int(at.timestamp()) * 10**9 + int(fraction.ljust(9, "0"))


def pin_of(record):
    """A record as the programs print it, as the files have it."""
    return record and table.Pin(
        record["id"],
        record["source_version"],
        record["source_transaction_uuid"],
        ns_of(record["created_at"]),
        ns_of(record["expires_at"]),
        record["label"],
    )


def told_by(done):
    """What pinctl --json answered: outcome, and the value it printed."""
    if done.status == DONE:
        return "done", json.loads(done.out)
    assert done.status in (FAILED, USAGE), done
    outcomes = [outcome for sentence, outcome in SENTENCES.items() if sentence in done.err]
    assert len(outcomes) == 1, done
    return outcomes[0], {}


class Process:
    """One of the processes: does its operations one after the other and keeps the answers."""

    def __init__(self, number, at, mount, pins, usual):
        self.number, self.at, self.mount, self.pins, self.usual = number, at, mount, pins, usual
        self.chance = random.Random(number)
        self.answers, self.requests = [], []

    def run(self):
        for self.turn in range(OPERATIONS):
            through_mount = (self.turn + self.number) % 2 == 0
            kinds = ["register", "register", "renew", "renew", "release", "read", "list"]
            kinds += ["head"] if through_mount else ["expire", "expire"]
            kind, pin = self.chance.choice(kinds), self.chance.choice(self.pins)
            asked = None
            if kind == "register":
                pin, asked = self.request(pin)
            elif kind == "renew":
                asked = Asked(self.expiry(), None, None)
            getattr(self, ("mount_" if through_mount else "pinctl_") + kind)(pin, asked)
        return self.answers

    def expiry(self):
        """A time that nobody else asks for: some are due soon, which is after so many commits, however slow this machine is."""
        seconds = self.chance.uniform(1, 20) * self.usual if self.chance.random() < 0.5 else self.chance.uniform(7200, 14400)
        ns = time.time_ns() + int(seconds * 10**9)
        return ns - ns % 10**5 + self.number * OPERATIONS + self.turn

    def request(self, pin):
        """One to register: new, for the head as it is now or for any, or an old one unchanged."""
        if self.requests and self.chance.random() < 0.2:
            return self.chance.choice(self.requests)
        source = None
        if self.chance.random() < 0.4:
            name = max(filter(table.version_of, os.listdir(self.at + "/_versions")), key=table.version_of)
            head = table.read_version(self.at, name)
            source = (head.version, head.transaction.uuid)
        self.requests.append((pin, Asked(self.expiry(), self.chance.choice(LABELS), source)))
        return self.requests[-1]

    def keep(self, who, kind, pin, asked, act):
        """Do it and keep the answer: `act` returns outcome, version, committed and told, or a list of such with kind, pin and asked."""
        before, began = table.head(self.at), time.time_ns()
        found = act()
        after, ended = table.head(self.at), time.time_ns()
        for kind, pin, asked, *answer in found if isinstance(found, list) else [(kind, pin, asked, *found)]:
            self.answers.append(Answer(who, kind, pin, asked, before, after, began, ended, *answer))

    # Through the mount nothing is told but the outcome, and what is read.

    def on_mount(self, kind, pin, asked, act):
        def answer():
            try:
                return "done", None, None, act()
            except OSError as error:
                name = errno.errorcode[error.errno]
                # A source that is not the head is told as "try again", which a request without one never is.
                name = "ESTALE" if name == "EAGAIN" and kind == "register" and asked.source else name
                assert name in ("ENOENT", "EEXIST", "ESTALE", "EINVAL"), "%s %s: %s" % (kind, pin, error)
                return name, None, None, None

        self.keep("mount", kind, pin, asked, answer)

    def mount_register(self, pin, asked):
        line = "%s,expires_at=%s" % (pin, text_of(asked.expires))
        line += ",label=" + asked.label if asked.label else ""
        line += ",source=%d:%s" % asked.source if asked.source else ""
        self.on_mount("register", pin, asked, lambda: os.mkdir(os.path.join(self.mount.pins, line)))

    def mount_renew(self, pin, asked):
        def write():
            # Unbuffered: what failed, a file of Python's writes once more when it is closed, and another may have registered the pin by then.
            with open(os.path.join(self.mount.pins, pin), "wb", buffering=0) as f:
                f.write(text_of(asked.expires).encode() + b"\n")

        self.on_mount("renew", pin, asked, write)

    def mount_release(self, pin, asked):
        self.on_mount("release", pin, asked, lambda: os.unlink(os.path.join(self.mount.pins, pin)))

    def mount_read(self, pin, asked):
        def read():
            with open(os.path.join(self.mount.pins, pin)) as f:
                return pin_of(json.load(f))

        self.on_mount("read", pin, asked, read)

    def mount_list(self, pin, asked):
        self.on_mount("list ids", None, asked, lambda: sorted(os.listdir(self.mount.pins)))

    def mount_head(self, pin, asked):
        def read():
            with open(self.mount.at + "/head") as f:
                head = json.load(f)
            return head["version"], head["transaction"]

        self.on_mount("head", None, asked, read)

    # pinctl tells the version, too, and each is a process of its own.

    def on_pinctl(self, kind, pin, asked, words, answer):
        who = "pinctl %d.%d" % (self.number, self.turn)
        self.keep(who, kind, pin, asked, lambda: answer(pinctl(self.at, "--json", *words)))

    def change(self, kind, pin, asked, words):
        def answer(done):
            outcome, value = told_by(done)
            value = value[0] if isinstance(value, list) else value
            return outcome, value.get("version"), value.get("committed"), pin_of(value.get("pin"))

        self.on_pinctl(kind, pin, asked, words, answer)

    def pinctl_register(self, pin, asked):
        words = ["register", text_of(asked.expires), "--id", pin]
        words += ["--label", asked.label] if asked.label else []
        words += ["--source", "%d:%s" % asked.source] if asked.source else []
        self.change("register", pin, asked, words)

    def pinctl_renew(self, pin, asked):
        self.change("renew", pin, asked, ["renew", pin, text_of(asked.expires)])

    def pinctl_release(self, pin, asked):
        self.change("release", pin, asked, ["release", pin])

    def pinctl_read(self, pin, asked):
        def answer(done):
            assert done.status in (DONE, FAILED), done
            value = json.loads(done.out)
            equal(value["held"], done.status == DONE, "held")
            return "done" if value["held"] else "ENOENT", value["version"], None, pin_of(value["pin"])

        self.on_pinctl("read", pin, asked, ["confirm", pin], answer)

    def pinctl_list(self, pin, asked):
        def answer(done):
            return "done", None, None, {record["id"]: pin_of(record) for record in json.loads(must(done))}

        self.on_pinctl("list", None, asked, ["ls"], answer)

    def pinctl_expire(self, pin, asked):
        """A list of what was due, and for each of them whether it went; by whose commit is told in words only."""

        def answer(done):
            found = {record["id"]: (pin_of(record), record["removed"]) for record in json.loads(must(done))}
            said = {pin: (int(version), how == "committed as") for pin, how, version in EXPIRED.findall(done.err)}
            equal(sorted(said), sorted(pin for pin, (_, removed) in found.items() if removed), "pins said to be removed")
            each = [
                ("expire", pin, p.expires, "done" if removed else "skipped", *said.get(pin, (None, None)), p if removed else None)
                for pin, (p, removed) in found.items()
            ]
            return [("due", None, None, "done", None, None, {pin: p for pin, (p, _) in found.items()}), *each]

        self.on_pinctl("expire", None, asked, ["expire", "--apply"], answer)


def work(number, at, mount, pins, usual, together, results):
    try:
        together.wait(60)
        results.put((Process(number, at, mount, pins, usual).run(), None))
    except Exception:
        results.put(([], traceback.format_exc()))


@functools.lru_cache(None)
def record():
    """What the processes were answered, and the table they left."""
    fork = multiprocessing.get_context("fork")
    with scratch() as folder:
        at = new_table(folder)
        usual, pins = time_of_one(at), [new_id() for _ in range(PINS)]
        # Some are due from the start, so that there is something to expire before and while others renew it.
        for pin in pins[: PINS // 3]:
            overdue(at, pin)
        first = table.head(at)
        with mounted(at, folder) as mount:
            results, together = fork.Queue(), fork.Barrier(PROCESSES)
            processes = [
                fork.Process(target=work, args=(number, at, mount, pins, usual, together, results), daemon=True)
                for number in range(PROCESSES)
            ]
            for process in processes:
                process.start()
            answers = []
            try:
                for _ in processes:
                    some, error = results.get(timeout=3600 if LONG else 300)
                    assert not error, error
                    answers += some
            finally:
                for process in processes:
                    process.terminate()
                    process.join()
        t = table.Table(at)
        Lance().opens(at, t.head.version)
        equal(pinctl(at, "check").status, DONE, "status of check")
        return t.versions, first, answers


# --- the checker ------------------------------------------------------------------------------------------------------


def items_of(version):
    t = version.transaction
    for item in t.items:
        if t.kind == "register":
            source = (item.source_version, item.source_transaction)
            yield Item(version.version, t.kind, item.id, item.expires, item.label, source)
        else:
            yield Item(version.version, t.kind, *item, None, None)


def made(answer, item):
    """Whether this answer can be that of the one who asked for the item."""
    a, asked = answer, answer.asked
    if (a.kind, a.pin, a.outcome) != (item.kind, item.pin, "done") or not a.before < item.version <= a.after:
        return False
    if a.committed is not None and (not a.committed or a.version != item.version):
        return False
    if a.kind == "register":
        return (asked.expires, asked.label) == (item.expires, item.label) and asked.source in (None, item.source)
    return a.kind == "release" or item.expires == (asked if a.kind == "expire" else asked.expires)


def as_asked(pin, asked):
    return pin.label == asked.label and pin.expires >= asked.expires and asked.source in (None, (pin.source_version, pin.source_transaction))


# Whether an answer is right on a head that it does not change. By kind and outcome; `p` is the pin as that head has it, or None.
RIGHT = {
    ("register", "done"): lambda a, head, p: p and as_asked(p, a.asked),
    ("register", "EEXIST"): lambda a, head, p: p and not as_asked(p, a.asked),
    ("register", "ESTALE"): lambda a, head, p: not p and a.asked.source not in (None, (head.version, head.transaction.uuid)),
    ("register", "EINVAL"): lambda a, head, p: not p and a.asked.expires <= a.ended,
    ("renew", "done"): lambda a, head, p: p and p.expires >= a.asked.expires,
    ("renew", "ENOENT"): lambda a, head, p: not p,
    ("release", "done"): lambda a, head, p: not p,
    ("release", "ENOENT"): lambda a, head, p: not p and a.who == "mount",
    ("expire", "done"): lambda a, head, p: not p,
    ("expire", "skipped"): lambda a, head, p: p and p.expires != a.asked,
    ("read", "done"): lambda a, head, p: p and p == a.told,
    ("read", "ENOENT"): lambda a, head, p: not p and not a.told,
    ("list", "done"): lambda a, head, p: head.pins == a.told,
    ("list ids", "done"): lambda a, head, p: sorted(head.pins) == a.told,
    ("head", "done"): lambda a, head, p: (head.version, head.transaction.uuid) == a.told,
    # Which of the pins were due depends on when it looked, between `began` and `ended`.
    ("due", "done"): lambda a, head, p: all(p.expires <= a.ended and head.pins.get(p.id) == p for p in a.told.values())
    and all(p.id in a.told for p in head.pins.values() if p.expires <= a.began),
}


def right(answer, versions):
    """Whether some head of its time makes the answer right without a commit."""
    a = answer
    if a.committed or (a.kind, a.outcome) not in RIGHT:
        return False
    return any(
        RIGHT[a.kind, a.outcome](a, head, head.pins.get(a.pin))
        for head in versions[a.before : a.after + 1]
        if a.version in (None, head.version)
    )


def check_told(answer, versions):
    """The record that came with a commit is the one in the manifests."""
    a = answer
    if a.committed:
        pins = versions[a.version - (a.kind in ("release", "expire"))].pins
        table.expect(a.told == pins.get(a.pin), "%s told another record than there is", a)


def explain(versions, first, answers):
    """
    Every item of a transaction after version `first` is of one acknowledged answer, and every other answer was right on some head of its time.
    Returns the items, each with its answer. That the versions follow from each other by their items is table.Table's to check.
    """
    for version in versions[first:]:
        table.expect(version.flags & table.BIT_PINS, "version %d has no flag", version.version)
    by_pin = collections.defaultdict(list)
    for a in answers:
        by_pin[a.pin].append(a)
    claimed, owners = {}, {}
    for version in versions[first + 1 :]:
        table.expect(version.transaction.items, "version %d is of nobody", version.version)
        for item in items_of(version):
            if item.kind == "expire":
                table.expect(item.expires <= version.timestamp, "%s was not due", item)
            # Who was told this version comes first, then who was answered first: whoever comes later has more to choose from.
            able = [a for a in by_pin[item.pin] if id(a) not in owners and made(a, item)]
            table.expect(able, "nobody was told of %s", item)
            owner = min(able, key=lambda a: (a.committed is None, a.after))
            owners[id(owner)] = owner
            claimed[item] = owner
        who = {claimed[item].who for item in items_of(version)}
        table.expect(len(who) == 1, "version %d is of %s", version.version, sorted(who))
    for a in answers:
        table.expect(id(a) in owners or right(a, versions), "nothing explains %s", a)
        check_told(a, versions)
    return claimed


def explained():
    versions, first, answers = record()
    claimed = explain(versions, first, answers)
    tally = collections.Counter((a.kind, a.outcome) for a in answers)
    for kind in ("register", "renew", "release", "expire"):
        assert any(item.kind == kind for item in claimed), "nothing was done of %s" % kind
    for refused in (("register", "EEXIST"), ("renew", "ENOENT")):
        assert tally[refused], "%s: never %s" % refused
    words = ", ".join("%d %s %s" % (n, *which) for which, n in sorted(tally.items()))
    return "%d versions, %d changes; answers: %s" % (len(versions) - 1 - first, len(claimed), words)


# --- whether the checker can fail -------------------------------------------------------------------------------------


def replaced(answers, a, *others):
    return [other for other in answers if other is not a] + list(others)


def owners(history):
    """Those who committed and whose change is of nobody else, because the time in it is theirs alone."""
    return [a for item, a in explain(*history).items() if item.kind in ("register", "renew")]


def lost(history):
    versions, first, answers = history
    for a in owners(history):
        yield versions, first, replaced(answers, a)


def refused(history):
    versions, first, answers = history
    for a in owners(history):
        outcome = "EEXIST" if a.kind == "register" else "ENOENT"
        yield versions, first, replaced(answers, a, a._replace(outcome=outcome, version=None, committed=None))


def otherwise(history):
    versions, first, answers = history
    for a in owners(history):
        yield versions, first, replaced(answers, a, a._replace(asked=a.asked._replace(expires=a.asked.expires + 1)))


def late(history):
    versions, first, answers = history
    for item, a in explain(*history).items():
        if item.kind in ("register", "renew"):
            yield versions, first, replaced(answers, a, a._replace(before=item.version))


def told_twice(history):
    versions, first, answers = history
    for a in answers:
        if a.committed:
            yield versions, first, [*answers, a._replace()]


def other_version(history):
    versions, first, answers = history
    for a in answers:
        if a.committed:
            yield versions, first, replaced(answers, a, a._replace(version=a.version - 1))


def opposite(history):
    """Where nothing happened from question to answer only one outcome is right."""
    versions, first, answers = history
    for a in answers:
        pairs = {"renew": ("done", "ENOENT"), "register": ("done", "EEXIST")}.get(a.kind, ())
        if a.before == a.after and a.outcome in pairs:
            yield versions, first, replaced(answers, a, a._replace(outcome=pairs[a.outcome == "done"]))


def stale(history):
    """The list as it was, at a time when it was that no longer."""
    versions, first, answers = history
    for a in answers:
        later = [v.version for v in versions[a.after + 1 :] if v.pins != a.told]
        if a.kind == "list" and later:
            yield versions, first, replaced(answers, a, a._replace(before=later[0], after=later[0]))


def misread(history):
    versions, first, answers = history
    for a in answers:
        if a.kind == "read" and a.told:
            yield versions, first, replaced(answers, a, a._replace(told=a.told._replace(expires=a.told.expires + 1)))
        if a.kind == "list ids":
            yield versions, first, replaced(answers, a, a._replace(told=sorted([*a.told, new_id()])))


def flag(history):
    versions, first, answers = history
    for v in versions[first:]:
        without = v._replace(flags=v.flags & ~table.BIT_PINS)
        yield versions[: v.version] + [without] + versions[v.version + 1 :], first, answers


LIES = [
    ("a change that nobody was told of", lost),
    ("a change that was told as refused", refused),
    ("a change to another time than asked", otherwise),
    ("a change from before it was asked for", late),
    ("a change told to two", told_twice),
    ("a change told with another version", other_version),
    ("a refusal without a reason, and a success without one", opposite),
    ("a list that was out of date", stale),
    ("a record or a list that never was", misread),
    ("a version without its flag", flag),
]


def noticed(lies):
    history = record()
    told = 0
    for lie in lies(history):
        try:
            explain(*lie)
        except table.Broken:
            told += 1
            continue
        raise AssertionError("lie %d passes" % told)
    assert told > 0, "no answer to change"
    return "%d lies" % told
