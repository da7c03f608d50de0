"""Compactions that do not say which rows they moved, of tables with deleted rows: what is read from the deletion files is what Lance itself records of the
same plan, and every row of the pinned version is found where the record says."""

import json
import os
import random
import shutil

import lance
from lance.optimize import Compaction, RewriteResult

import fri
from manifest import manifest, treemap, unflag
from support import LONG, RELEASE, equal, pinctl, pinctl_status, scratch

SEED = 20261130
ROUNDS = 60 if LONG else 5
# From here on a deletion file is a bitmap (lance-format 3).
MANY = 5_000
NEWEST = int(RELEASE.split(".")[0]) >= 14


def cases():
    for kind in ("plain", "tagged") if NEWEST else ("plain",):
        yield "random deletions and plans, eager, %s (seed %d)" % (kind, SEED), eager, kind
    yield "row addresses with another row than a live one", untrue
    yield "rows that are deleted after it was planned", deleted_since
    if NEWEST:
        yield "deletion files on a base: a branch", branched
        yield "deletion files on a base: a clone", cloned


# --- tables -----------------------------------------------------------------------------------------------------------


def delete(at, dice, first, count):
    """Some of these rows, in up to three steps: each writes a new deletion file with all that the one before had."""
    for _ in range(dice.randrange(4)):
        if count > 2 * MANY and dice.randrange(2):
            where = "a %% %d != %d" % (dice.randint(2, 9), dice.randrange(2))
        else:
            values = dice.sample(range(first, first + count), dice.randint(1, max(1, min(count // 2, 300))))
            where = "a in (%s)" % ",".join(map(str, values))
        lance.dataset(at).delete("a >= %d and a < %d and %s" % (first, first + count, where))


def new_table(at, dice, tagged=False):
    # One fragment is large enough for a bitmap.
    sizes = [dice.randint(1, 60) for _ in range(dice.randint(2, 9))] + [dice.randint(3 * MANY, 4 * MANY)]
    dice.shuffle(sizes)
    first = 0
    for i, count in enumerate(sizes):
        lance.write_dataset(fri.rows(first, count), at, mode="append" if i else "create")
        first += count
    if tagged:
        fri.tag(at)
    first = 0
    for count in sizes:
        delete(at, dice, first, count)
        first += count


def plan(ds, options, defer):
    """The results of each task, by the fragments that went in; the files are there, nothing is committed."""
    tasks = Compaction.plan(ds, options=dict(options, defer_index_remap=defer)).tasks
    results = [json.loads(task.execute(ds).json()) for task in tasks]
    return {tuple(f["id"] for f in result["original_fragments"]): result for result in results}


def any_options(dice):
    return {
        "target_rows_per_fragment": dice.choice([20, 100, 1000, 6000, 100_000]),
        "materialize_deletions": True,
        "materialize_deletions_threshold": dice.choice([0.0, 0.1, 0.3]),
        "num_threads": dice.randint(1, 4),
        "batch_size": dice.choice([7, 100, 8192]),
    }


# --- what is derived --------------------------------------------------------------------------------------------------


def expected_moves(results, new_fragments):
    """By Lance's own row addresses: each one's place, in the order of addresses and of new rows."""
    moves = {}
    for fragments, result in results.items():
        addresses = sorted(treemap(bytes(result["row_addrs"])))
        places = [number << 32 | row for number, count in new_fragments[fragments] for row in range(count)]
        assert len(addresses) == len(places) > 0
        moves.update(zip(addresses, places))
    return moves


def dumped(at, branch=None):
    """What the history says that new fragments are, by the old ones: (id, rows) each."""
    said, status, sentence = fri.dump(at, [], branch)
    equal(status, 0, sentence)
    return {
        tuple(f["id"] for f in group["from"]): [(f["id"], f["physical_rows"]) for f in group["to"]]
        for record in said["history"]["records"]
        for group in record["groups"]
    }


def compare(at, layout, deferred, before, branch=None):
    """Each row of the fragments that went in, deleted or not."""
    touched = {number for fragments in deferred for number in fragments}
    addresses = [number << 32 | row for number in sorted(touched) for row in range(layout[number])]
    ours = fri.follow(at, addresses, branch)
    wanted = expected_moves(deferred, dumped(at, branch))
    for address in addresses:
        equal(ours[address], wanted.get(address), "where row %d of fragment %d went" % (address & 0xFFFFFFFF, address >> 32))
    ds = lance.dataset(at)
    scanned = fri.scan(ds.checkout_version((branch, None)) if branch else ds)
    equal(list(scanned), list(before), "rows")
    followed = fri.follow(at, list(before.values()), branch)
    for value, address in before.items():
        equal(followed[address], scanned[value], "the place of row %d" % value)


def committed_by_lance(folder, at, results):
    """The transaction of the release's own eager commit of these, on a copy."""
    other = os.path.join(folder, "other.lance")
    shutil.rmtree(other, ignore_errors=True)
    shutil.copytree(at, other)
    for name in os.listdir(other + "/_versions"):
        if name.endswith(".manifest"):
            unflag(os.path.join(other, "_versions", name))
    texts = [json.dumps(result) for result in results.values()]
    Compaction.commit(lance.dataset(other), [RewriteResult.from_json(text) for text in texts])
    return os.path.join(other, "_transactions", manifest(other, lance.dataset(other).version)[12][0].decode())


def save(folder, results):
    name = os.path.join(folder, "results.json")
    with open(name, "w") as file:
        json.dump(list(results), file)
    return name


def pin(at, branch=None):
    pinctl(at, "enable", "--apply", branch=branch)
    return pinctl(at, "register", "+2h", branch=branch).strip()


def eager(kind):
    dice = random.Random("%d %s" % (SEED, kind))
    moved = 0
    for _ in range(ROUNDS):
        with scratch() as folder:
            at = os.path.join(folder, "t.lance")
            new_table(at, dice, kind == "tagged")
            ds, options = lance.dataset(at), any_options(dice)
            deferred = plan(ds, options, True)
            results = plan(ds, options, False)
            equal(sorted(results), sorted(deferred), "groups of both plans")
            if not results:
                continue
            layout, before = fri.layout_of(ds), fri.scan(ds)
            if kind == "plain":
                words = ("--transaction", committed_by_lance(folder, at, results))
            else:
                # Lance commits no such compaction eagerly on a tagged table.
                said_nothing = [dict(result, row_addrs=None) for result in results.values()]
                words = ("--rewrite", save(folder, said_nothing))
            pin(at)
            pinctl(at, "commit", *words)
            compare(at, layout, deferred, before)
            moved += len(results)
    assert moved > ROUNDS, "hardly anything was compacted"


# --- what is refused --------------------------------------------------------------------------------------------------


def deleted_table(at):
    lance.write_dataset(fri.rows(0, 40), at, max_rows_per_file=10)
    lance.dataset(at).delete("a in (3, 4, 17, 25)")


WHOLE = {"target_rows_per_fragment": 1000, "materialize_deletions_threshold": 0.0}


def untrue():
    """As many rows of each fragment, and each one that it has."""
    import roaring

    with scratch() as folder:
        at = os.path.join(folder, "t.lance")
        deleted_table(at)
        (result,) = plan(lance.dataset(at), WHOLE, True).values()
        pin(at)
        live = treemap(bytes(result["row_addrs"]))
        for out, into, row in ((5, 3, 3), (9, 4, 4), (1 << 32 | 6, 1 << 32 | 7, 7)):
            other = list(roaring.treemap(live - {out} | {into}))
            status, _, said = pinctl_status(at, "commit", "--rewrite", save(folder, [dict(result, row_addrs=other)]))
            equal(status, 2, "exit status")
            assert "row %d of fragment %d, which is deleted" % (row, into >> 32) in said, said
        pinctl(at, "commit", "--rewrite", save(folder, [result]))


def deleted_since():
    with scratch() as folder:
        at = os.path.join(folder, "t.lance")
        deleted_table(at)
        (result,) = plan(lance.dataset(at), WHOLE, False).values()
        lance.dataset(at).delete("a = 30")
        pin(at)
        head = lance.dataset(at).version
        for rows in (result["row_addrs"], None):
            status, _, said = pinctl_status(at, "commit", "--rewrite", save(folder, [dict(result, row_addrs=rows)]))
            assert status in (1, 2, 4, 75) and said, "%d: %s" % (status, said)
        equal(lance.dataset(at).version, head, "head")


# --- deletion files elsewhere -----------------------------------------------------------------------------------------


def branched():
    with scratch() as folder:
        at = os.path.join(folder, "t.lance")
        deleted_table(at)
        lance.dataset(at).create_branch("feat/x")
        line = lance.dataset(at).checkout_version(("feat/x", None))
        # A file of the branch's own beside those of main.
        line.delete("a in (18, 31)")
        line = lance.dataset(at).checkout_version(("feat/x", None))
        assert len(os.listdir(os.path.join(at, "tree/feat/x/_deletions"))) == 2
        layout, before = fri.layout_of(line), fri.scan(line)
        deferred, results = plan(line, WHOLE, True), plan(line, WHOLE, False)
        pin(at, "feat/x")
        said_nothing = [dict(result, row_addrs=None) for result in results.values()]
        pinctl(at, "commit", "--rewrite", save(folder, said_nothing), branch="feat/x")
        compare(at, layout, deferred, before, "feat/x")


def cloned():
    with scratch() as folder:
        source, at = os.path.join(folder, "source.lance"), os.path.join(folder, "t.lance")
        deleted_table(source)
        ds = lance.dataset(source).shallow_clone(at, lance.dataset(source).version)
        layout, before = fri.layout_of(ds), fri.scan(ds)
        deferred, results = plan(ds, WHOLE, True), plan(ds, WHOLE, False)
        pin(at)
        file = save(folder, [dict(result, row_addrs=None) for result in results.values()])
        os.rename(source, source + ".away")
        status, _, said = pinctl_status(at, "gate", file)
        assert status == 3 and "deletion file _deletions/0-" in said and "is missing" in said, said
        os.rename(source + ".away", source)
        pinctl(at, "commit", "--rewrite", file)
        compare(at, layout, deferred, before)
