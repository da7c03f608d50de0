"""Three committers and a compactor on one pinned table, each with work that Lance prepared, while pins come and go.

What they append, update and delete is known, so that the history, read in its order, says which rows each version must have. Where rows went since a
pin was registered is asked of Lance, and of the head.
"""

import json
import os
import random
import shutil
import threading
import uuid

import lance
import pyarrow as pa
from lance.optimize import Compaction

from manifest import unflag
from support import LONG, bring, equal, pinctl, pinctl_status, scratch

ROUNDS = 500 if LONG else 15
COMMITTERS = 3
# Of versions whose rows are read, and of pins that are gone again whose rows are followed, at most.
READ, FOLLOWED = 500, 60 if LONG else 12
AGAIN = 75


def cases():
    yield "%d rounds of %d committers and a compactor: rows are those of the history, in its order" % (ROUNDS, COMMITTERS), race


def rows(ids, n=0):
    ids = list(ids)
    return pa.table({"id": pa.array(ids, pa.int64()), "n": pa.array([n] * len(ids), pa.int64())})


def content(ds, where=None):
    table = ds.to_table(columns=["id", "n"], filter=where)
    found = dict(sorted(zip(table.column("id").to_pylist(), table.column("n").to_pylist())))
    equal(len(found), table.num_rows, "rows that are there twice")
    return found


class Deed:
    """Rows that are appended or get another n (put), and those that go."""

    def __init__(self, kind, put=None, gone=()):
        self.kind, self.put, self.gone = kind, put or {}, set(gone)

    def apply(self, model, version):
        mine = set(self.put)
        assert not mine & set(model) if self.kind == "append" else mine <= set(model), "version %d: %s" % (version, self.kind)
        assert self.gone <= set(model), "version %d deletes what is gone" % version
        model.update(self.put)
        for one in self.gone:
            del model[one]


class Worker(threading.Thread):
    def __init__(self, race):
        super().__init__(daemon=True)
        self.race, self.error = race, None

    def run(self):
        try:
            self.work()
        except BaseException as error:
            self.error = error


class Committer(Worker):
    def __init__(self, race, number):
        super().__init__(race)
        self.number, self.dice = number, random.Random(number)
        self.deeds, self.refused, self.next = {}, 0, number * 10**6

    def work(self):
        for turn in range(ROUNDS):
            kind = self.dice.choice(["append", "append", "update", "delete"])
            while not self.attempt(kind):
                self.refused += 1
                assert self.refused < 100 * (turn + 1), "nothing but conflicts"

    def prepare(self, kind, at):
        """Do it on a copy of the head."""
        ds = lance.dataset(at)
        if kind == "append":
            ids = range(self.next, self.next + self.dice.randint(1, 20))
            lance.write_dataset(rows(ids), at, mode="append")
            return Deed(kind, put=dict.fromkeys(ids, 0))
        here = content(ds)
        some = self.dice.sample(sorted(here), min(len(here), self.dice.randint(1, 3)))
        where = "id in (%s)" % ", ".join(map(str, some))
        if kind == "delete":
            ds.delete(where)
            return Deed(kind, gone=some)
        ds.update({"n": "n + 1"}, where=where)
        return Deed(kind, put={one: here[one] + 1 for one in some})

    def attempt(self, kind):
        with scratch() as folder:
            at = os.path.join(folder, "copy.lance")
            head = self.race.copy_head(at)
            deed = self.prepare(kind, at)
            ds = lance.dataset(at)
            equal(ds.version, head + 1, "version that was prepared")
            (name,) = [name for name in os.listdir(at + "/_transactions") if name.startswith("%d-" % head)]
            bring(at, self.race.at)
            status, out, err = pinctl_status(self.race.at, "commit", "--transaction", at + "/_transactions/" + name)
        if status == AGAIN:
            return False
        equal(status, 0, "exit status (%s)" % err)
        self.next += 20
        self.deeds[int(out)] = deed
        return True


class Pinner(Worker):
    """Registers, renews and releases; keeps some. gone: of each that was released, its source, and the last version that had it."""

    def work(self):
        dice, self.held, self.gone = random.Random("pins"), {}, []
        while not self.race.over:
            if self.held and dice.random() < 0.5:
                pin = dice.choice(sorted(self.held))
                words = ["renew", pin, "+%dh" % dice.randint(3, 9)] if dice.random() < 0.5 else ["release", pin]
                said = pinctl(self.race.at, *words, "--json")
                if words[0] == "release":
                    self.gone.append((self.held.pop(pin), said[0]["version"] - 1))
            else:
                pin = str(uuid.uuid4())
                said = pinctl(self.race.at, "register", "+2h", "--id", pin, "--json")
                self.held[pin] = said["pin"]["source_version"]


class Compactor(Worker):
    """Puts small fragments together, planned and done by Lance on the pinned table itself; once at least, however soon the committers are done."""

    def work(self):
        dice, self.versions, self.refused = random.Random("compactor"), [], 0
        while not (self.race.over and self.versions):
            ds = lance.dataset(self.race.at)
            tasks = Compaction.plan(ds, {"target_rows_per_fragment": 100, "defer_index_remap": True}).tasks
            if not tasks:
                continue
            file = self.race.at + ".rewrite"
            with open(file, "w") as out:
                json.dump([json.loads(task.execute(ds).json()) for task in dice.sample(tasks, min(len(tasks), 2))], out)
            status, out, err = pinctl_status(self.race.at, "commit", "--rewrite", file)
            if status == AGAIN:
                self.refused += 1
                continue
            equal(status, 0, "exit status (%s)" % err)
            self.versions.append(int(out))


class Race:
    def __init__(self, at):
        self.at, self.over = at, False
        lance.write_dataset(rows(range(-40, 0)), at, max_rows_per_file=10)
        lance.dataset(at).create_scalar_index("id", "BTREE")
        pinctl(at, "enable", "--apply")
        self.first = lance.dataset(at).version

    def copy_head(self, at):
        """A table that is the head alone and may be written by Lance; its version."""
        head = lance.dataset(self.at).version
        for folder in ("_versions", "_transactions", "data", "_deletions", "_indices"):
            os.makedirs(os.path.join(at, folder))
        name = "_versions/%020d.manifest" % (2**64 - 1 - head)
        shutil.copy(os.path.join(self.at, name), os.path.join(at, name))
        unflag(os.path.join(at, name))
        bring(self.at, at)
        return head


def race():
    with scratch() as folder:
        race = Race(os.path.join(folder, "t.lance"))
        committers = [Committer(race, number) for number in range(1, COMMITTERS + 1)]
        pinner, compactor = Pinner(race), Compactor(race)
        for worker in [*committers, pinner, compactor]:
            worker.start()
        for committer in committers:
            committer.join()
        race.over = True
        pinner.join()
        compactor.join()
        for worker in [*committers, pinner, compactor]:
            if worker.error:
                raise worker.error
        judge(race, committers, pinner, compactor)


def judge(race, committers, pinner, compactor):
    deeds = {version: deed for committer in committers for version, deed in committer.deeds.items()}
    equal(len(deeds), COMMITTERS * ROUNDS, "versions that committers were told of")
    ds = lance.dataset(race.at)
    equal([entry["version"] for entry in ds.versions()], list(range(1, ds.version + 1)), "versions")
    model = content(lance.dataset(race.at, version=race.first))
    deeds.update((version, Deed("rewrite")) for version in compactor.versions)
    kinds = {"append": "Append", "delete": "Delete", "update": "Update", "rewrite": "Rewrite", None: "UpdateConfig"}
    seen = set()
    for version in range(race.first + 1, ds.version + 1):
        deed = deeds.get(version)
        transaction = ds.read_transaction(version)
        equal(type(transaction.operation).__name__, kinds[deed and deed.kind], "operation of version %d" % version)
        assert transaction.uuid not in seen, "a transaction landed twice"
        seen.add(transaction.uuid)
        if deed:
            deed.apply(model, version)
        if version % (1 + ds.version // READ) == 0 or version == ds.version:
            equal(content(lance.dataset(race.at, version=version)), dict(sorted(model.items())), "rows of version %d" % version)
    found = {pin["id"]: pin["source_version"] for pin in pinctl(race.at, "ls", "--json")}
    equal(found, pinner.held, "pins")
    for wanted in list(model)[:: max(1, len(model) // 20)]:
        equal(content(ds, "id = %d" % wanted), {wanted: model[wanted]}, "what the index says")
    equal(pinctl(race.at, "check"), "", "what check finds")
    lives = [(source, ds.version) for source in set(pinner.held.values())]
    lives += pinner.gone[:: 1 + len(pinner.gone) // FOLLOWED]
    for source, last in lives:
        touched = {one for version, deed in deeds.items() if source < version <= last for one in [*deed.put, *deed.gone]}
        follow(lance.dataset(race.at, version=last), source, touched)
    refused = sum(committer.refused for committer in committers)
    assert refused or not LONG, "nobody was ever refused"
    numbers = (ds.version, len(deeds), refused, len(compactor.versions), compactor.refused, len(pinner.held) + len(pinner.gone), len(lives))
    print("# %d versions, %d pieces of work, %d prepared anew; %d compactions, %d planned anew; %d pins, %d followed" % numbers)


def places(ds):
    table = ds.scanner(columns=["id"], with_row_address=True).to_table()
    return dict(zip(table.column("id").to_pylist(), table.column("_rowaddr").to_pylist()))


def follow(head, source, touched):
    """The rows of this version that nobody touched since are, by the records, where the later one has them."""
    before, now = places(lance.dataset(head.uri, version=source)), places(head)
    kept = [one for one in before if one not in touched]
    addresses = [before[one] for one in kept]
    moved = head.remap_row_addrs(pa.array(addresses, pa.uint64()))
    # None: that version has no record yet, as of a pin that went before the first compaction.
    followed = addresses if moved is None else moved.to_pylist()
    equal(dict(zip(kept, followed)), {one: now[one] for one in kept}, "where rows of version %d went" % source)
