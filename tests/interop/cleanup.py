"""pinctl cleanup against Lance's own: on tables that Lance made at random, over weeks of a clock that is set, with files
of writers that failed, our dry run lists what Lance explains, and afterwards the same files are there. Then with pins: what
they hold opens and answers in Lance, and without them everything is again as Lance would have it."""

import glob
import hashlib
import json
import os
import random
import shutil
import struct
import subprocess
import sys
import tempfile
import time
import uuid
from datetime import timedelta

import lance
import pyarrow as pa

from histories import History
from support import FLAG, LONG, PINCTL, ROOT, equal, pinctl, scratch, transaction

sys.path.insert(0, os.path.join(ROOT, "tests", "fri"))
import fri
import history
import pins
import wire
from table import TRANSACTION_FILE, WRITER, Head

SEED = 20261130
ROUNDS = 300 if LONG else 10
SECOND, DAY = 10**9, 86400 * 10**9
WEEK = 7 * DAY


def cases():
    yield "histories at random (seed %d)" % SEED, at_random
    yield "histories with pins (seed %d)" % SEED, with_pins
    for form in ("v0", "tagged", "mixed", "partitions"):
        yield "rows that were moved, with pins, %s (seed %d)" % (form, SEED), moved, form
    yield "all branches in one call: what they hang from goes with them", children_first


# --- a clock that is set ----------------------------------------------------------------------------------------------


class Clock:
    """Stands still until it is set; only in programs that are started with `environment`."""

    def __init__(self):
        self.file = tempfile.NamedTemporaryFile("w", prefix="clock-")
        self.ns = 0
        self.environment = {
            "LD_PRELOAD": glob.glob("/usr/lib/*/faketime/libfaketimeMT.so.1")[0],
            "FAKETIME_TIMESTAMP_FILE": self.file.name,
            "FAKETIME_NO_CACHE": "1",
            "NO_FAKE_STAT": "1",
            "DONT_FAKE_MONOTONIC": "1",
            "TZ": "UTC",
            "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0:detect_leaks=0",
        }

    def set(self, ns):
        self.ns = ns // SECOND * SECOND
        self.file.seek(0)
        self.file.write(time.strftime("%Y-%m-%d %H:%M:%S\n", time.gmtime(self.ns // SECOND)))
        self.file.flush()


CLOCK = Clock()


class Asked:
    """Lance, in a process that has the clock; another one if it dies of the question, as some indices make it."""

    def __init__(self):
        self.start()

    def start(self):
        self.process = subprocess.Popen(
            [sys.executable, "-W", "ignore", os.path.abspath(__file__), "--ask"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=dict(os.environ, **CLOCK.environment),
        )

    def __call__(self, *question):
        self.process.stdin.write(json.dumps(question) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if answer:
            return json.loads(answer)
        self.process.wait()
        self.start()
        return {"error": "it died"}


def answer_questions():
    for line in sys.stdin:
        what, at, branch, policy = json.loads(line)
        try:
            if what == "read":
                print(json.dumps({"said": said_of(at, policy)}), flush=True)
                continue
            ds = lance.dataset(at)
            ds = ds.checkout_version((branch, None)) if branch else ds
            if "older_than" in policy:
                policy["older_than"] = timedelta(seconds=policy["older_than"])
            if what == "explain":
                said = ds.explain_cleanup_old_versions(include_files=True, max_files=10**6, **policy)
                found = sorted("/" + file.path for file in said.candidate_files)
            else:
                ds.cleanup_old_versions(**policy)
                found = []
            print(json.dumps({"files": found}), flush=True)
        except BaseException as error:
            print(json.dumps({"error": str(error)}), flush=True)


def ours(at, branch, policy, *words):
    """Exit status, paths by what is said of each, what it said."""
    command = [PINCTL, "-d", at, *(["-b", branch] if branch else []), "cleanup", *words]
    for name, value in policy.items():
        if name == "older_than":
            command += ["--older-than", "%ds" % value]
        elif name == "retain_versions":
            command += ["--retain", str(value)]
        elif name == "versions":
            command += ["--versions", ",".join(map(str, value))]
        elif name == "delete_unverified" and value:
            command += ["--delete-unverified"]
        elif name == "error_if_tagged_old_versions" and not value:
            command += ["--tags", "skip"]
    environment = dict(os.environ, **CLOCK.environment)
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    lines = [line.split("\t") for line in done.stdout.splitlines()]
    return done.returncode, {os.path.join(at, line[2]): line for line in lines}, done.stderr


# --- tables of several weeks ------------------------------------------------------------------------------------------


def files_of(at):
    return {os.path.join(folder, name) for folder, _, names in os.walk(at) for name in names}


def folders_of(at):
    return {folder for folder, _, _ in os.walk(at) if "/_indices/" in folder}


def stamp(at, seen, dice):
    """What is new since gets the time of the clock, or nearly: files are made while a version is."""
    for name in sorted(files_of(at) - seen):
        by = dice.choice([0, 0, -1, 1, -SECOND, -5 * SECOND])
        os.utime(name, ns=(CLOCK.ns + by, CLOCK.ns + by))
        seen.add(name)


def strand(at, dice, times):
    """Files of writers that failed, and others that are nobody's."""
    roots = [at] + [folder for folder, names, _ in os.walk(os.path.join(at, "tree")) if "_versions" in names]
    names = [
        "data/%s.lance", "data/sub/%s.lance", "data/.tmp%s", "data/sub/.tmp%s", "data/%s/00.blob", "data/%s.txt",
        "_deletions/0-1-%s.arrow", "_deletions/0-1-%s.bin", "_deletions/%s.arro", "_transactions/1-%s.txn",
        "_transactions/.tmp%s", "_transactions/.tmp%s.txn", "_indices/%s/page.lance", "_indices/%s/sub/page",
        "_indices/%s", "_fri/%s/map.lance", "_fri/%s", "_blobs/%s.blob", "_blobs/%s", "_versions/.tmp%s",
        "_versions/.tmp%s/f", "data/%s.lance#1", "_transactions/%s.txn#2", "strange-%s", "_mem_wal/%s/data/x.lance",
    ]  # fmt: skip
    for number in range(dice.randint(4, 25)):
        name = os.path.join(dice.choice(roots), dice.choice(names) % ("stray%d" % number))
        os.makedirs(os.path.dirname(name), exist_ok=True)
        with open(name, "w") as file:
            file.write("x" * dice.randint(0, 9))
        when = dice.choice(times) + dice.choice([-1, 0, 1])
        os.utime(name, ns=(when, when))
    for number in range(dice.randint(0, 3)):
        os.makedirs(os.path.join(dice.choice(roots), "_indices", "empty%d" % number, "sub"), exist_ok=True)
    for folder in folders_of(at):
        when = dice.choice(times) + dice.choice([-1, 0, 1])
        os.utime(folder, ns=(when, when))


def aged(folder, seed, dice, steps=12):
    """A history of some weeks. What is returned has all that a failure needs to be understood."""
    CLOCK.set(time.time_ns() - 60 * DAY)
    # A branch in a folder of another Lance deletes: see dangers.py.
    weights = {"branch_within": 0, "branch": 4, "tag": 3}
    history = History(folder, seed, weights=weights, environment=CLOCK.environment)
    seen, times = set(), []
    for _ in range(steps):
        stamp(history.at, seen, dice)
        times.append(CLOCK.ns)
        CLOCK.set(CLOCK.ns + dice.choice([SECOND, 60 * SECOND, DAY, 3 * DAY, 9 * DAY]))
        history.step()
    stamp(history.at, seen, dice)
    times.append(CLOCK.ns)
    CLOCK.set(CLOCK.ns + dice.choice([1, 3600 * SECOND, 6 * DAY, 8 * DAY, 30 * DAY]))
    now = CLOCK.ns
    strand(history.at, dice, times + [now, now - WEEK, now - WEEK, now - 30 * DAY, now + DAY])
    return history


def versions_of(at, branch):
    ds = lance.dataset(at)
    ds = ds.checkout_version((branch, None)) if branch else ds
    return [(entry["version"], round(entry["timestamp"].timestamp())) for entry in ds.versions()]


def policy_of(dice, versions):
    policy = {}
    if dice.random() < 0.5:
        policy["retain_versions"] = dice.randint(1, len(versions))
    if dice.random() < 0.5 or not policy:
        # Exactly the age of a version, or nearly.
        age = CLOCK.ns // SECOND - dice.choice(versions)[1] + dice.choice([-1, 0, 1])
        policy["older_than"] = max(age, 1)
    if dice.random() < 0.2:
        policy["versions"] = sorted(dice.sample([version for version, _ in versions], dice.randint(1, len(versions))))
    if dice.random() < 0.25:
        policy["delete_unverified"] = True
    policy["error_if_tagged_old_versions"] = dice.random() < 0.2
    return policy


# --- the same ---------------------------------------------------------------------------------------------------------


def compare_lists(ask, at, branch, policy):
    """What Lance would delete and we would too; True if both refuse."""
    theirs = ask("explain", at, branch, policy)
    status, goes, said = ours(at, branch, policy)
    if "error" in theirs:
        assert status == 4, "Lance refuses (%s), ours ends with %d: %s" % (theirs["error"], status, said)
        return True
    assert status == 0, "status %d: %s" % (status, said)
    equal(sorted(set(goes) - set(theirs["files"])), [], "files that only we would delete")
    _, explained, _ = ours(at, branch, policy, "--explain")
    kept = set(theirs["files"]) - set(goes)
    for name in sorted(kept):
        # A version that a branch hangs from is kept whole (lance-14-cleanup D5), and what a branch refers to (D2, D3).
        line = explained.get(name)
        assert line and line[3] == "stays" and "branch:" in line[4], "only Lance would delete %s: %r" % (name, line)
    check_sums(at, branch, policy, goes)
    return False


def check_sums(at, branch, policy, goes):
    """What goes and what stays is all that is there."""
    _, all_files, said = ours(at, branch, policy, "--explain")
    top = os.path.join(at, "tree", branch) if branch else at
    there = set()
    for part in ("_versions", "_transactions", "data", "_deletions", "_indices", "_fri", "_blobs"):
        there |= files_of(os.path.join(top, part))
    equal(sorted(all_files), sorted(there), "files that are explained")
    equal({name for name, line in all_files.items() if line[3] == "goes"}, set(goes), "files that are said to go")
    counts = [int(words[2]) for words in map(str.split, said.splitlines()) if words[:1] in (["goes"], ["stays"])]
    equal(sum(counts), len(there), "sum of what is counted")


def compare_results(ask, at, branch, policy):
    """After Lance cleaned and after we did, each on the same table at the same path."""
    kept_aside = at + ".aside"
    left = []
    _, explained, _ = ours(at, branch, policy, "--explain")
    os.rename(at, kept_aside)
    for ours_turn in (False, True):
        subprocess.run(["cp", "-a", kept_aside, at], check=True)
        if ours_turn:
            status, _, said = ours(at, branch, policy, "--apply")
            assert status == 0, "status %d: %s" % (status, said)
        else:
            theirs = ask("clean", at, branch, policy)
            assert "error" not in theirs, theirs["error"]
        left.append((files_of(at), folders_of(at)))
        shutil.rmtree(at)
    os.rename(kept_aside, at)
    (their_files, their_folders), (our_files, our_folders) = left
    equal(sorted(their_files - our_files), [], "files that only Lance leaves")
    more = {name for name in our_files - their_files if "branch:" not in explained[name][4]}
    equal(sorted(more), [], "files that only we leave")
    # Folders of what is kept for a branch are there, too.
    extra = {name for name in our_folders - their_folders if not any(file.startswith(name) for file in our_files)}
    equal((sorted(their_folders - our_folders), sorted(extra)), ([], []), "folders of indices")


def at_random():
    ask = Asked()
    for number in range(ROUNDS):
        seed = SEED + number
        dice = random.Random("cleanup %d" % seed)
        with scratch() as folder:
            history = aged(folder, seed, dice)
            policy = branch = None
            try:
                lines = [None, *history.branches()]
                for _ in range(4):
                    branch = dice.choice(lines)
                    policy = policy_of(dice, versions_of(history.at, branch))
                    refused = compare_lists(ask, history.at, branch, policy)
                if not refused:
                    compare_results(ask, history.at, branch, policy)
            except Exception as error:
                words = "%s\n%s\n%s, %r at %d" % (error, history, branch or "main", policy, CLOCK.ns)
                raise AssertionError(words) from error


# --- with pins --------------------------------------------------------------------------------------------------------

PINS = 10395


def pin(at, version):
    """A head with a pin of a version long ago, as if it had been there all the time. Released Lance would not have gone on."""
    identity = {snapshot["version"]: snapshot["transaction"] for snapshot in pinctl(at, "snapshots", "--json")}
    head = Head(at)
    ours = "01234567-89ab-4cde-8f01-23456789abcd"
    until = int(time.time()) + 365 * 86400
    record = [(1, wire.encode([(1, bytes.fromhex(ours.replace("-", "")))])), (2, version)]
    record += [(3, identity[version].encode()), (4, wire.encode([(1, until - 10**8)])), (5, wire.encode([(1, until)]))]
    head.fields.append([PINS, wire.encode(record)])
    head.set(WRITER, head.get(WRITER) | FLAG)
    head.publish()
    return ours


def said_of(at, version):
    """What Lance reads of a version, asking an index, too; or what keeps it from that."""
    try:
        ds = lance.dataset(at, version=version)
        rows = hashlib.sha256(repr(ds.to_table().to_pydict()).encode()).hexdigest()
        found = ds.to_table(filter="a = 3", columns=["a"]).to_pydict()
        return rows, found, transaction(ds, version)
    except BaseException as error:
        if isinstance(error, (KeyboardInterrupt, SystemExit)):
            raise
        return (type(error).__name__,)


def unflag(at):
    """Clear bit 19 in every manifest, so that released Lance cleans the table; times stay."""
    for name in glob.glob(os.path.join(at, "_versions", "*.manifest")):
        with open(name, "rb") as file:
            data = file.read()
        (position,) = struct.unpack("<Q", data[-16:-8])
        (size,) = struct.unpack("<I", data[position : position + 4])
        fields = wire.decode(data[position + 4 : position + 4 + size])
        if not wire.first(fields, WRITER, 0) & FLAG:
            continue
        was = os.stat(name)
        fields = [[n, v & ~FLAG if n == WRITER else v] for n, v in fields]
        manifest = wire.encode([f for f in fields if f != [WRITER, 0]])
        with open(name, "wb") as file:
            file.write(data[:position] + struct.pack("<I", len(manifest)) + manifest + data[-16:])
        os.utime(name, ns=(was.st_atime_ns, was.st_mtime_ns))


def check_window(ask, history, dice):
    at = history.at
    versions = [entry["version"] for entry in lance.dataset(at).versions()]
    source = dice.choice(versions)
    # A version may have no transaction that its pin could name, or a window what Lance itself cannot read.
    before = {version: ask("read", at, None, version) for version in versions if version >= source}
    ours_id = pin(at, source)
    policy = {"retain_versions": 1, "error_if_tagged_old_versions": False}
    status, _, said = ours(at, None, dict(policy, delete_unverified=True), "--apply")
    assert status == 0, said
    there = {entry["version"] for entry in lance.dataset(at).versions()}
    equal(sorted(set(before) - there), [], "versions of the window that went")
    equal({version: ask("read", at, None, version) for version in before}, before, "versions of the window")
    pinctl(at, "check")
    pinctl(at, "release", ours_id)
    against_lance(ask, at, policy)


def against_lance(ask, at, policy):
    """Pins were here, and are no more: Lance's own rule is left."""
    aside, left = at + ".aside", []
    _, explained, _ = ours(at, None, policy, "--explain")
    os.rename(at, aside)
    for turn in ("theirs", "ours"):
        subprocess.run(["cp", "-a", aside, at], check=True)
        if turn == "ours":
            status, _, said = ours(at, None, policy, "--apply")
            assert status == 0, said
        else:
            unflag(at)
            answer = ask("clean", at, None, policy)
            assert "error" not in answer, answer
        left.append(files_of(at))
        shutil.rmtree(at)
    os.rename(aside, at)
    theirs, mine = left
    equal(sorted(theirs - mine), [], "files that only Lance leaves")
    more = {name for name in mine - theirs if "branch:" not in explained[name][4]}
    equal(sorted(more), [], "files that only we leave")


def with_pins():
    ask = Asked()
    for number in range(ROUNDS // 2):
        seed = SEED + 100000 + number
        dice = random.Random("pins %d" % seed)
        with scratch() as folder:
            CLOCK.set(time.time_ns() - 30 * DAY)
            history = History(folder, seed, weights={"branch_within": 0}, environment=CLOCK.environment)
            history.run(12)
            CLOCK.set(time.time_ns() + DAY)
            try:
                check_window(ask, history, dice)
            except Exception as error:
                raise AssertionError("%s\n%s" % (error, history)) from error


def numbers_of(at):
    return [entry["version"] for entry in lance.dataset(at).versions()]


def records_of(at, version):
    """Its transaction file, the content of its history, and the files that this is in or names."""
    head = Head(at, version)
    transaction = os.path.join(at, "_transactions", head.get(TRANSACTION_FILE).decode())
    files, content = {transaction}, b""
    for entry, _ in head.entries():
        if wire.first(entry, 3) != history.NAME.encode():
            continue
        details = wire.decode(wire.first(wire.decode(wire.first(entry, 6)), 2))
        content = wire.first(details, 1)
        if content is None:
            number = uuid.UUID(bytes=wire.first(wire.decode(wire.first(entry, 1)), 1))
            (path, size) = (wire.first(wire.decode(wire.first(details, 2)), field, b"") for field in (1, 3))
            name = os.path.join(at, "_indices", str(number), path.decode())
            files.add(name)
            with open(name, "rb") as file:
                content = file.read()[:size]
    for number, element in wire.decode(content):
        partition = wire.first(wire.decode(element), 4) if number == 2 else None
        if partition is not None:
            name = wire.first(wire.decode(partition), 1).decode()
            files.add(os.path.join(at, "_fri", name, "stable_partition.lance"))
    return files, content


def found_by(at, version):
    """Places of rows by Lance's scan and by its index; or what keeps it from that."""
    try:
        ds = lance.dataset(at, version=version)
        return fri.scan(ds), fri.indexed(ds)
    except Exception as error:
        return (type(error).__name__,)


def moved(form):
    """Everything of a window is there: transactions, histories with what they name, and rows that an index finds by them."""
    ask, histories, maps, found = Asked(), 0, 0, 0
    for number in range(max(ROUNDS // 5, 3)):
        dice = random.Random("moved %s %d" % (form, SEED + number))
        with scratch() as folder:
            at = os.path.join(folder, "t.lance")
            if form == "partitions":
                fri.made_up(at, dice)
            else:
                fri.chain(at, form, dice)
            CLOCK.set(time.time_ns() + DAY)
            versions = numbers_of(at)
            source = dice.choice(versions[2:-2])
            before = {version: found_by(at, version) for version in versions if version >= source}
            ours_id, message = pins.pin(source, pins.transaction_of(at, source))
            pins.publish(Head(at), [message])
            window = [*before, versions[-1] + 1]
            records = {version: records_of(at, version) for version in window}
            policy = {"retain_versions": 1}
            status, _, said = ours(at, None, policy, "--apply")
            assert status == 0, said
            equal(numbers_of(at), window, "versions that stay")
            there = files_of(at)
            needed = set().union(*(files for files, _ in records.values()))
            equal(sorted(needed - there), [], "transactions and records of the window that went")
            loose = {name for name in there - needed if "/_transactions/" in name or "/_fri/" in name}
            equal(sorted(loose), [], "transactions and row maps of nobody that stay")
            equal({version: records_of(at, version) for version in window}, records, "records of the window")
            equal({version: found_by(at, version) for version in before}, before, "rows of the window")
            pinctl(at, "check")
            histories += sum(content != b"" for _, content in records.values())
            maps += sum("/_fri/" in name for name in needed)
            found += sum(len(answer[1]) for answer in before.values() if len(answer) == 2)
            pinctl(at, "release", ours_id)
            against_lance(ask, at, policy)
    assert histories > 3 and found > 100, "%d histories, the index found %d rows" % (histories, found)
    assert (maps > 0) == (form == "partitions"), "%d row maps" % maps


def children_first():
    """A branch of which nothing hangs any more gives up what it kept, whatever the names: one call leaves what two do."""
    with scratch() as folder:
        at = os.path.join(folder, "t.lance")
        row = lambda value: pa.table({"a": [value]})
        line = lambda name: lance.dataset(at).checkout_version((name, None))
        lance.write_dataset(row(0), at)
        lance.dataset(at).create_branch("m", 1)
        lance.write_dataset(row(1), line("m"), mode="append")
        for child in ("a/child", "z/child"):
            line("m").create_branch(child)
            lance.write_dataset(row(2), line(child), mode="overwrite")
        lance.write_dataset(row(3), line("m"), mode="overwrite")
        lance.write_dataset(row(4), at, mode="overwrite")
        CLOCK.set(time.time_ns() + DAY)
        lines = (None, "m", "a/child", "z/child")
        read = lambda: {name: line(name).to_table().to_pydict() for name in lines}
        before = read()
        status, _, said = ours(at, None, {"retain_versions": 1}, "--all-branches", "--apply")
        assert status == 0, said
        equal(read(), before, "what is there")
        for name in lines:
            equal(len(versions_of(at, name)), 1, "versions of %s" % (name or "main"))
        status, goes, _ = ours(at, None, {"retain_versions": 1}, "--all-branches")
        equal((status, goes), (0, {}), "what a second call removes")


if __name__ == "__main__" and sys.argv[1:] == ["--ask"]:
    answer_questions()
