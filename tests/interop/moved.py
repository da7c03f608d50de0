"""Branches and clones of tables whose rows were moved, tagged and mixed histories with row maps and long ones in files of their own: what pinctl makes is
what Lance makes, Lance finds every row by it, and the history goes on there, through compactions and trims."""

import json
import os
import random
import shutil
import uuid

import lance
from lance.optimize import Compaction

import fri
import history
import wire
from branches import Twins, comparable
from manifest import fields, manifest
from support import LONG, equal, pinctl, scratch
from table import Head

SEED = 20261130
ROUNDS = 20 if LONG else 3


def cases():
    yield "branches and clones of tagged and mixed histories (seed %d)" % SEED, tagged
    yield "of one that is too long for its entry", long
    for external in (False, True):
        yield "of a version 0 history, %s" % ("in a file" if external else "inline"), version_0, external


# --- what is made -----------------------------------------------------------------------------------------------------


def split_history(at, found):
    """The entries of a manifest but that of the history; that one without what is made anew; and its content, wherever it is."""
    (ours,) = [e for e in found["indices"] if e[3] == [history.NAME.encode()]]
    others = [e for e in found["indices"] if e is not ours]
    name = str(uuid.UUID(bytes=fields(ours[1][0])[1][0]))
    details = fields(fields(ours[6][0])[2][0])
    if 2 in details:
        file = fields(details[2][0])
        path = os.path.join(at, "_indices", name, file[1][0].decode())
        content = open(path, "rb").read() if os.path.exists(path) else None
    else:
        content = details[1][0]
    return others, {number: value for number, value in ours.items() if number not in (1, 6)}, name, 2 in details, content


def compare(twins, ours, theirs, version, tagged):
    """Two lines that were made of one version. Where the content of a version 0 history is on a base, the entries say so alike."""
    made = []
    for line in (ours, theirs):
        found = comparable(twins, line, version)
        others, entry, name, external, content = split_history(line, found)
        found["indices"] = (others, entry, external, content if tagged else name)
        made.append((found, name, content))
    equal(made[0][0], made[1][0], "first version of " + ours)
    assert made[0][2] is not None or not tagged, "a tagged history has no content of its own"
    if tagged:
        assert made[0][1] != made[1][1], "two entries of one uuid"


def clone_of(at):
    return at.replace(".lance", "-clone.lance")


def lines(twins, head, tagged):
    """Branches, a branch of a branch, and clones of main and of a branch; their datasets as Lance opens them."""
    ds = lance.dataset(twins.theirs)
    child = ds.create_branch("child", head)
    ds.create_branch("child/grand", ("child", None))
    lance.dataset(twins.theirs).shallow_clone(clone_of(twins.theirs), head)
    pinctl(twins.ours, "branch", "create", "child")
    pinctl(twins.ours, "branch", "create", "child/grand", "--from", "child")
    pinctl(twins.ours, "clone", clone_of(twins.ours))
    del child
    for below in ("/tree/child", "/tree/child/grand"):
        compare(twins, twins.ours + below, twins.theirs + below, head, tagged)
    compare(twins, clone_of(twins.ours), clone_of(twins.theirs), head, tagged)
    ours = lance.dataset(twins.ours)
    return {
        "child": ours.checkout_version(("child", None)),
        "child/grand": ours.checkout_version(("child/grand", None)),
        None: lance.dataset(clone_of(twins.ours)),
    }


def whole(ds, want, what):
    """Every row is where a scan finds it, and an index that knows only the addresses of its day finds it there."""
    scanned = fri.scan(ds)
    equal(sorted(scanned), sorted(want), "rows of " + what)
    by_index = fri.indexed(ds)
    equal(by_index, {value: scanned[value] for value in by_index}, "index of " + what)
    return by_index


# --- what goes on there -----------------------------------------------------------------------------------------------


def go_on(twins, name, ds, want, found):
    """A pin on the line, a compaction that Lance executes there, and a trim, which may drop nothing that the index needs."""
    at = twins.ours if name else clone_of(twins.ours)
    raw = manifest(os.path.join(at, "tree", name) if name else at, ds.version)
    assert 10395 not in raw, "pins in a new line"
    pinctl(at, "register", "+2h", branch=name)
    plan = Compaction.plan(ds, options=dict(target_rows_per_fragment=1000, defer_index_remap=True, num_threads=1))
    results = [json.loads(task.execute(ds).json()) for task in plan.tasks]
    if results:
        with open(os.path.join(os.path.dirname(at), "results.json"), "w") as file:
            json.dump(results, file)
        pinctl(at, "commit", "--rewrite", file.name, branch=name)
    pinctl(at, "trim", "--apply", branch=name)
    now = lance.dataset(at)
    now = now.checkout_version((name, None)) if name else now
    by_index = whole(now, want, "%s after a compaction" % (name or "the clone"))
    # Lance 14 compacts what is indexed together with what is not, on a tagged table, and then the index loses it.
    assert set(by_index) <= set(found), "the index found more than before"
    equal(pinctl(at, "check", branch=name), "", "check")


def both(folder, make, tagged):
    twins = Twins.__new__(Twins)
    twins.ours, twins.theirs = os.path.join(folder, "ours.lance"), os.path.join(folder, "theirs.lance")
    make(twins.ours)
    want = fri.scan(lance.dataset(twins.ours))
    # Row maps and details name no path, so the copy reads its own.
    shutil.copytree(twins.ours, twins.theirs)
    twins.pin()
    made = lines(twins, lance.dataset(twins.ours).version, tagged)
    before = whole(lance.dataset(twins.ours), want, "main")
    for name, ds in made.items():
        what = name or "the clone"
        equal(sorted(whole(ds, want, what)), sorted(before), "what the index of %s finds" % what)
    for name, ds in made.items():
        go_on(twins, name, ds, want, before)
    whole(lance.dataset(twins.ours), want, "main afterwards")
    return len(before)


def tagged():
    found = 0
    for number in range(ROUNDS):
        dice = random.Random("%d %d" % (SEED, number))
        with scratch() as folder:
            found += both(folder, lambda at: fri.made_up(at, dice), True)
    assert found > 5 * ROUNDS, "the indices found %d rows" % found


def content_of(at, head):
    """What the entry of a head holds, inline or in its file."""
    (entry,) = [e for e, _ in head.entries() if wire.first(e, 3) == history.NAME.encode()]
    details = wire.decode(wire.first(wire.decode(wire.first(entry, 6)), 2))
    if wire.first(details, 1) is not None:
        return wire.first(details, 1)
    name = str(uuid.UUID(bytes=wire.first(wire.decode(wire.first(entry, 1)), 1)))
    with open(os.path.join(at, "_indices", name, "details.binpb"), "rb") as file:
        return file.read()


def long():
    """Records of rows that are nowhere, beside those that matter: the history is in a file, of each line its own."""

    def make(at):
        fri.made_up(at, random.Random(SEED))
        head = Head(at)
        content = content_of(at, head)
        for number in range(1_000_000, 1_005_000):
            content += history.ordered([number << 32], [history.digest(number, 1)], [history.digest(number + 1, 1)])
        head.set_history(content, 1, external=True)
        head.publish(operation=100)

    with scratch() as folder:
        both(folder, make, True)
        for line in ("ours.lance/tree/child", "ours.lance/tree/child/grand", "ours-clone.lance"):
            names = os.listdir(os.path.join(folder, line, "_indices"))
            assert any(os.path.exists(os.path.join(folder, line, "_indices", n, "details.binpb")) for n in names), names


def version_0(external):
    def make(at):
        fri.new_table(at, [5, 6, 7, 8, 9])
        lance.dataset(at).delete("a in (2, 12)")
        fri.compact(at, 12)
        head = Head(at)
        if external:
            live = [f.fragment_id for f in lance.dataset(at).get_fragments()]
            head.set_history(content_of(at, head), 0, external=True, bitmap=live)
        head.publish(operation=100)

    with scratch() as folder:
        both(folder, make, False)
