"""Random histories by released Lance through the gateway, several releases at a table, with pins that come at any time: each row of each pinned version is at
the head where the table's records say. Where it is is told by nothing but the rows themselves, version by version.

  gateway_histories.py    the same of other tables, which have a column `a` of unique values. Reads what judge() is to be given, JSON, a line each, and says of each
                          what is wrong, JSON, empty if nothing is
"""

import json
import os
import sys
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
if __name__ == "__main__":
    sys.path.insert(0, os.path.join(os.path.dirname(HERE), "fri"))

import lance

import fri
import wire
from gateway import gateway
from histories import History
from support import LONG, equal, pinctl, scratch
from table import REWRITE, TRANSACTION_23, TRANSACTION_FILE, Head

SEED = 20261130
ROUNDS = 40 if LONG else 3
STEPS = 24
# Where it compacts eagerly over what was deferred, Lance itself loses rows of its indices (lance-14-fri correction 11), and a merge then finds none to update.
MODES = {"eager": 0, "deferred": 1, "mixed": 0.5}
# What comes to be by a compaction is what matters; a table is restored or overwritten in its course, but not all the time.
WEIGHTS = {"compact": 14, "index": 5, "optimize": 3, "delete": 6, "restore": 0.7, "overwrite": 0.2, "tagged": 0, "detached": 0, "tag": 0, "untag": 0}


def cases():
    for number in range(ROUNDS):
        mode = list(MODES)[number % len(MODES)]
        yield "a history and its pins, compactions %s (seed %d)" % (mode, SEED + number), history, SEED + number, mode


class Pins:
    """Those of all lines: where they are from."""

    def __init__(self):
        self.of = []

    def register(self, made):
        """As a step of a history."""
        branch = made.dice.choice([None, *made.branches()])
        # One of a version from before there were pins.
        pinctl(made.at, "enable", "--apply", branch=branch)
        pin = pinctl(made.at, "register", "+1h", "--no-guard", branch=branch).strip()
        (source,) = [one["source_version"] for one in pinctl(made.at, "ls", "--json", branch=branch) if one["id"] == pin]
        self.of.append((branch, source))
        return "%d%s" % (source, " of " + branch if branch else "")


def history(seed, mode):
    pins = Pins()
    with scratch() as folder:
        weights = dict(WEIGHTS, merge=0, merge_column=0) if mode == "mixed" else WEIGHTS
        made = History(folder, "gateway %d" % seed, others=0.7, weights=weights, extra={"pin": (pins.register, 4)})
        made.state["deferred"] = MODES[mode]
        try:
            live(made, pins)
            # Lance 14 panics over an index of its legacy format that is asked alone.
            alone = "storage legacy" not in made.said[0]
            judge(made.at, pins.of, made.state["stable"], mode != "mixed", alone)
        except Exception as error:
            raise AssertionError(str(made)) from error


def live(made, pins):
    for step in ("append", "index", "append", *made.dice.choice([["branch"], ["compact"], ["tagged"], []])):
        made.step(step)
    for name in [None, *made.branches()]:
        pinctl(made.at, "enable", "--apply", branch=name)
    with gateway(made.at):
        made.step("pin")
        made.run(made.done + STEPS)
        # Nothing that Lance itself would do is refused but for the sake of pins.
        for line in made.said:
            assert "Operation not permitted" not in line or line.startswith("migrate"), line
            # What other releases recorded, each can read.
            assert "split of indexed and non-indexed" not in line, line
        for name in {branch for branch, _ in pins.of}:
            pinctl(made.at, "check", branch=name)


# --- where rows are ---------------------------------------------------------------------------------------------------


def places(ds):
    found = ds.scanner(columns=["a"], filter="a >= 0", with_row_address=True, use_scalar_index=False).to_table()
    values = found.column("a").to_pylist()
    assert len(values) == len(set(values)), "a row was found twice"
    return dict(zip(values, found.column("_rowaddr").to_pylist()))


OVERWRITE, RESTORE = 102, 106
# Restored to before the pinned version: nothing has to lead back. Or overwritten: old releases then give ids of fragments again, that are followed like others.
UNKNOWN = -1


class Line:
    """The versions of main, or of a branch."""

    def __init__(self, at, name):
        self.ds, self.name, self.cache = lance.dataset(at), name, {}
        self.head = self.open(None).version

    def open(self, version):
        if self.name:
            return self.ds.checkout_version((self.name, version))
        return lance.dataset(self.ds.uri, version=version) if version else self.ds

    def places(self, version):
        if version not in self.cache:
            self.cache[version] = places(self.open(version))
        return self.cache[version]

    def operation(self, version):
        """Its number, and the message. Lance 14 has no words for some that older releases wrote."""
        head = Head(os.path.join(self.ds.uri, "tree", self.name) if self.name else self.ds.uri, version)
        if head.get(TRANSACTION_23):
            transaction = head._section(head.get(TRANSACTION_23))
        else:
            with open(os.path.join(head.at, "_transactions", head.get(TRANSACTION_FILE).decode()), "rb") as file:
                transaction = file.read()
        return [(number, body) for number, body in wire.decode(transaction) if number >= 100][0]


def walk(line, source):
    """{value: where its row is at the head, None if it was deleted or rewritten, UNKNOWN}, of the rows of a version."""
    at = {source: line.places(source)}
    for version in range(source + 1, line.head + 1):
        number, body = line.operation(version)
        before, now = at[version - 1], line.places(version)
        live = set(now.values())
        at[version] = {}
        if number == RESTORE:
            back = at.get(wire.first(wire.decode(body), 1))
            for value, place in before.items():
                at[version][value] = back[value] if back else place if now.get(value) == at[source][value] == place else UNKNOWN
            continue
        if number == OVERWRITE:
            at[version] = dict.fromkeys(before, UNKNOWN)
            continue
        for value, place in before.items():
            if place is None or place == UNKNOWN or (now.get(value) == place):
                pass
            elif number == REWRITE and place not in live:
                place = now.get(value)
            else:
                place = None
            at[version][value] = place
    return at[line.head]


def judge(at, pins, stable=False, indices=True, alone=True):
    """pins: (branch or None, source version) of each. indices: its indices are right, and can be asked alone."""
    for branch in sorted({branch for branch, _ in pins}, key=str):
        line = Line(at, branch)
        head = line.open(None)
        live = set(line.places(line.head).values())
        if indices:
            by_index(line, head, alone)
        for source in sorted({version for name, version in pins if name == branch}):
            truth = walk(line, source)
            if stable:
                same_ids(line, source, truth)
                continue
            before = line.places(source)
            tagged, said = follow(at, list(before.values()), branch)
            for value, place in truth.items():
                found = said[before[value]]
                if place is None:
                    assert found not in live, "row %d of version %d is gone, and is told to be at %d" % (value, source, found)
                elif place != UNKNOWN:
                    equal(found, place, "where row %d of version %d is" % (value, source))
            if not tagged:
                compare_lance(head, said)


def follow(at, addresses, branch):
    """Is its history tagged? And where the addresses lead."""
    said, status, sentence = fri.dump(at, addresses, branch)
    assert status == 0, sentence
    if "history" not in said:
        return False, {address: address for address in addresses}
    return said["history"]["index_version"] > 0, dict(zip(addresses, said["translated"]))


def compare_lance(head, said):
    import pyarrow as pa

    theirs = head.remap_row_addrs(pa.array(list(said), pa.uint64()))
    if theirs is not None:
        equal(list(said.values()), theirs.to_pylist(), "what Lance says of the same")


def same_ids(line, source, truth):
    ids = lambda version: dict(zip(*line.open(version).scanner(columns=["a"], with_row_id=True).to_table().to_pydict().values()))
    before, now = ids(source), ids(line.head)
    for value, place in truth.items():
        if place is not None and place != UNKNOWN:
            equal(now[value], before[value], "id of row %d" % value)


def by_index(line, head, alone):
    """What an index of Lance finds is there: it has the records to go by."""
    scanned = line.places(line.head)
    scanner = head.scanner(columns=["a"], filter="a >= 0", with_row_address=True, fast_search=True)
    if alone and "ScalarIndexQuery" in scanner.explain_plan():
        found = scanner.to_table()
        for value, place in zip(found.column("a").to_pylist(), found.column("_rowaddr").to_pylist()):
            equal(scanned[value], place, "where the index says row %d is" % value)
    for value in list(scanned)[:: 1 + len(scanned) // 200]:
        equal(head.to_table(columns=["a"], filter="a = %d" % value).num_rows, 1, "rows of value %d by the index" % value)


def main():
    for line in sys.stdin:
        said = ""
        try:
            judge(*json.loads(line))
        except BaseException:
            said = traceback.format_exc()
        print(json.dumps(said), flush=True)


if __name__ == "__main__":
    main()
