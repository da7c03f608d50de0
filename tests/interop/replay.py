"""What released Lance committed on a copy of a pinned table, brought back by `pinctl commit --from-copy`: rows and index answers of each version are those
of the copy, with what others committed to the table meanwhile; pins and bit 19 stay; and each transaction comes back once, whatever ends a run.
"""

import json
import os
import random
import shutil
import signal
import subprocess
import time
from datetime import timedelta

import lance
import pyarrow as pa
from lance.blob import blob_array, blob_field
from lance.fragment import write_fragments

import compact as compactions
import fri
from commit import KINDS, new_table
from deeds import DEEDS, NOT_FOR, append, compact, rows
from manifest import manifest, manifest_name
from support import FLAG, LONG, PINCTL, ROOT, equal, pinctl, pinctl_status, scratch

HERE = os.path.dirname(os.path.abspath(__file__))
SEED = 20261130

def defer(at):
    fri.compact(at, 30)


# Compactions, too: with fragments that have deletions.
WORK = {**DEEDS, "compaction": compact, "deferred compaction": defer}
# By stable row ids nothing is deferred; over a history of moved rows all is (and eager remapping of Lance's loses rows there).
COMPACTIONS = {"stable": ["compaction"], "moved": ["deferred compaction"], "tagged": ["deferred compaction"]}


def fits(kind, name):
    if name in ("compaction", "deferred compaction"):
        return name in COMPACTIONS.get(kind, [name])
    return "restore" not in name and name not in NOT_FOR.get(kind, ())


# Rows that others append to the table while Lance works on the copy.
FOREIGN = range(9000, 9012)
# Lance's own rule: whoever adds or takes columns does it again over rows that were appended meanwhile.
OVER_APPENDS = {"add column", "add column of nulls", "cast column", "drop column", "merge columns", "replace a column's own file"}
INDEX_FILES = {"create index", "replace index", "extend index", "drop index", "replace indexed data", "update indexed columns"}


def cases():
    for kind in KINDS:
        yield "random work on a copy of a table that is %s (seed %d)" % (kind, SEED), histories, kind, False
        if kind != "legacy":
            yield "random work on a copy of a table that is %s, which went on (seed %d)" % (kind, SEED), histories, kind, True
    for kind in KINDS if LONG else ():
        for name in sorted(WORK):
            if fits(kind, name):
                yield "%s on a copy of a table that is %s" % (name, kind), single, kind, name, False
                if kind != "legacy" and name not in OVER_APPENDS:
                    yield "%s on a copy of a table that is %s, which went on" % (name, kind), single, kind, name, True
    for moved in (False, True):
        also = ", which went on" if moved else ""
        for kind in ("indexed", "stable"):
            yield "compactions that remap indices, of a table that is %s%s" % (kind, also), eager, kind, moved
        yield "compactions whose remapping is deferred%s" % also, deferred, moved
    yield "row ids and versions of rows where both gave the same ones", lineage
    yield "index files that do not fit are left out", skip_indices
    yield "a conflict stops it, and says what is in", conflict
    yield "a dry run writes nothing", dry_run
    yield "on a branch", on_branch
    yield "blobs come along", blobs
    for kind in ("plain", "indexed", "stable"):
        yield "the results of a compaction lie in a copy, of a table that is %s" % kind, rewrite_from, kind
    for release in ("8.0.1", "12.0.0"):
        yield "Lance %s writes to the copy" % release, other_release, release
    yield "killed at any time, each transaction comes back once", killed
    yield "copies that are refused", bad_copies


# --- a table, its copy, and what both say ------------------------------------------------------------------------------


class Pair:
    def __init__(self, kind, folder, make=None):
        self.folder, self.at, self.copy = folder, folder + "/t.lance", folder + "/copy.lance"
        (make or new_table)(kind, self.at)
        pinctl(self.at, "enable", "--apply")
        pinctl(self.at, "register", "+2h")
        pinctl(self.at, "copy", self.copy)
        self.made = lance.dataset(self.copy).version
        pinctl(self.at, "register", "+3h")

    def go_on(self):
        """Others append to the table."""
        append_json(self.at, FOREIGN, self.folder)

    def replay(self, *words):
        """[(version of the copy, of the table or None, operation, state)]"""
        return lines(pinctl(self.at, "commit", "--from-copy", self.copy, *words))

    def compare(self, found):
        equal([line[0] for line in found], list(range(self.made + 1, lance.dataset(self.copy).version + 1)), "versions")
        for theirs, ours, operation, _ in found:
            if ours is not None:
                self.compare_version(theirs, ours, "version %d of the copy, %s" % (theirs, operation))
        lance.dataset(self.at).validate()
        # Of a run that was ended something may be left, which is no trouble.
        found = [line for line in pinctl(self.at, "check").splitlines() if not line.startswith("note\t")]
        equal(found, [], "check")
        equal(len(pinctl(self.at, "ls", "--json")), 2, "pins")

    def compare_version(self, theirs, ours, what):
        assert manifest(self.at, ours)[10][0] & FLAG, "%s: pins are not enabled" % what
        ours, theirs = lance.dataset(self.at, version=ours), lance.dataset(self.copy, version=theirs)
        equal(ours.schema, theirs.schema, "schema, " + what)
        equal(said(ours), said(theirs), "rows, " + what)
        for wanted in ("id = 12", "id >= 38", "s = 'row 21'", "s = 'new'", "n = 120", "n = 7", "n < 0"):
            if wanted.split()[0] not in theirs.schema.names:
                continue
            scanned = said(theirs, filter=wanted, use_scalar_index=False)
            equal(said(ours, filter=wanted), scanned, "%s, %s" % (wanted, what))


def said(ds, **how):
    """Its rows without those of others, in no order; or that Lance cannot read what it wrote, as it sometimes cannot."""
    try:
        table = ds.scanner(**how).to_table().to_pylist()
    except pa.ArrowInvalid as error:
        return str(error)
    return sorted(map(repr, (row for row in table if row.get("id") not in FOREIGN)))


def lines(text):
    found = [line.split("\t") for line in text.splitlines()]
    return [(int(theirs), None if ours == "-" else int(ours), operation, state) for theirs, ours, operation, state in found]


def append_json(at, ids, folder):
    place, text = "%s/others%d.lance" % (folder, ids[0]), "%s/others%d.json" % (folder, ids[0])
    fragments = write_fragments(rows(ids[0], len(ids)), place, max_rows_per_file=10)
    with open(text, "w") as file:
        json.dump([fragment.to_json() for fragment in fragments], file)
    pinctl(at, "commit", "--append", text, "--from", place)


def listing(at):
    return sorted(os.path.join(folder, name) for folder, _, names in os.walk(at) for name in names)


# --- work on the copy -------------------------------------------------------------------------------------------------


def single(kind, name, moved):
    with scratch() as folder:
        pair = Pair(kind, folder)
        if moved:
            pair.go_on()
        WORK[name](pair.copy)
        found = pair.replay(*(["--skip-indices"] if moved else []))
        assert moved or all(state == "committed" for *_, state in found), found
        pair.compare(found)


def histories(kind, moved):
    for seed in range(12 if LONG else 1):
        dice = random.Random("%d %s %s %d" % (SEED, kind, moved, seed))
        with scratch() as folder:
            pair = Pair(kind, folder)
            done = []
            if moved:
                pair.go_on()
            names = [name for name in sorted(WORK) if fits(kind, name)]
            if moved:
                names = [name for name in names if name not in OVER_APPENDS | INDEX_FILES]
            if kind == "legacy":
                # With files of another format, of which Lance then reads garbage.
                names = [name for name in names if not name.startswith("overwrite by")]
            last = dice.choice(COMPACTIONS.get(kind, ["compaction", "deferred compaction"]))
            for name in [*dice.sample([name for name in names if "compaction" not in name], 6), last]:
                try:
                    WORK[name](pair.copy)
                except Exception:
                    continue  # what came before took what it needs
                done.append(name)
                if dice.random() < 0.4:
                    # What came before is in: the next run goes on behind it.
                    pair.replay()
                if dice.random() < 0.3:
                    pinctl(pair.at, "release", pinctl(pair.at, "register", "+1h", "--json")["pin"]["id"])
            try:
                pair.replay()
                pair.compare(pair.replay())
            except AssertionError as error:
                raise AssertionError("seed %d, %s: %s" % (seed, done, error)) from error


def whole(kind, at):
    """Fragments without deletions."""
    ds = lance.write_dataset(rows(0, 40), at, max_rows_per_file=10, enable_stable_row_ids=kind == "stable")
    ds.create_scalar_index("id", "BTREE")
    ds.create_scalar_index("s", "BITMAP")


def eager(kind, moved):
    with scratch() as folder:
        pair = Pair(kind, folder, whole)
        if moved:
            pair.go_on()
        compact(pair.copy)
        append(pair.copy)
        lance.dataset(pair.copy).optimize.compact_files(target_rows_per_fragment=1000)
        lance.dataset(pair.copy).update({"n": "7"}, where="id in (12, 101)")
        lance.dataset(pair.copy).drop_index("s_idx")
        pair.compare(pair.replay())
        equal([index["name"] for index in lance.dataset(pair.at).list_indices() if not index["name"].startswith("__")], ["id_idx"], "indices")


def deferred(moved):
    with scratch() as folder:
        pair = Pair("indexed", folder, whole)
        if moved:
            pair.go_on()
        fri.compact(pair.copy, 20)
        lance.dataset(pair.copy).update({"n": "7"}, where="id in (12, 31)")
        fri.compact(pair.copy, 1000)
        lance.dataset(pair.copy).delete("id = 12")
        pair.compare(pair.replay())
        # The pin's rows are followed to the head, where Lance's own translation says that they are.
        before = lance.dataset(pair.copy, version=pair.made).to_table(columns=["id"], with_row_address=True).to_pydict()
        after = lance.dataset(pair.at).to_table(columns=["id"], with_row_address=True).to_pydict()
        where = dict(zip(after["id"], after["_rowaddr"]))
        followed = fri.follow(pair.at, before["_rowaddr"])
        for one, was in zip(before["id"], before["_rowaddr"]):
            if one not in (12, 31):  # those were written anew
                equal(followed[was], where[one], "where row %d is" % one)


def lineage():
    """With stable row ids: each row has one id, and the versions that made and changed it are those of the table."""
    columns = ["id", "n", "_rowid", "_row_created_at_version", "_row_last_updated_at_version"]
    with scratch() as folder:
        pair = Pair("stable", folder)
        pair.go_on()
        append(pair.copy)
        lance.dataset(pair.copy).update({"n": "7"}, where="id in (12, 101, 110)")
        lance.dataset(pair.copy).optimize.compact_files(target_rows_per_fragment=1000)
        new = rows(108, 10)
        lance.dataset(pair.copy).merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(new)
        found = pair.replay("--skip-indices")
        pair.compare(found)
        version = {theirs: ours for theirs, ours, _, _ in found}
        ours, theirs = (
            {row["id"]: row for row in lance.dataset(at).to_table(columns=columns).to_pylist()} for at in (pair.at, pair.copy)
        )
        ids = [row["_rowid"] for row in ours.values()]
        equal(len(set(ids)), len(ids), "distinct row ids")
        equal(sorted(ours), sorted([*theirs, *FOREIGN]), "rows")
        for one, row in theirs.items():
            for part in columns[3:]:
                equal(ours[one][part], version.get(row[part], row[part]), "%s of row %d" % (part, one))
            if one < 100:
                equal(ours[one]["_rowid"], row["_rowid"], "id of row %d" % one)


def skip_indices():
    with scratch() as folder:
        pair = Pair("indexed", folder)
        pair.go_on()
        append(pair.copy)
        lance.dataset(pair.copy).create_scalar_index("n", "BTREE")
        lance.dataset(pair.copy).optimize.optimize_indices()
        lance.dataset(pair.copy).delete("id in (1, 101)")
        status, out, err = pinctl_status(pair.at, "commit", "--from-copy", pair.copy)
        assert status == 1 and "--skip-indices" in err and "n_idx" in err, err
        assert "up to %d, the last as version" % (pair.made + 1) in err, err
        equal([line[3] for line in lines(out)], ["committed"], "states")
        pair.replay("--skip-indices")
        found = pair.replay()
        pair.compare(found)
        equal([line[3] for line in found], ["already", "left-out", "left-out", "already"], "states")


def conflict():
    with scratch() as folder:
        pair = Pair("plain", folder)
        append(pair.copy)
        lance.dataset(pair.copy).delete("id = 5")
        append(pair.copy)
        # The same rows, by others: prepared on another copy.
        pinctl(pair.at, "copy", folder + "/other.lance")
        lance.dataset(folder + "/other.lance").delete("id = 6")
        pinctl(pair.at, "commit", "--from-copy", folder + "/other.lance")
        for _ in range(2):
            status, out, err = pinctl_status(pair.at, "commit", "--from-copy", pair.copy)
            assert status == 75 and "version %d of the copy, Delete" % (pair.made + 2) in err, "exit %d: %s" % (status, err)
            assert "up to %d" % (pair.made + 1) in err, err
            equal(len(lines(out)), 1, "versions that are in")
        equal(lance.dataset(pair.at).count_rows("id = 5"), 1, "a row of the transaction that conflicts")


def dry_run():
    with scratch() as folder:
        pair = Pair("plain", folder)
        append(pair.copy)
        lance.dataset(pair.copy).delete("id = 101")
        before = listing(pair.at)
        equal([(ours, state) for _, ours, _, state in pair.replay("--dry-run")], [(pair.made + 2, "possible"), (None, "later")], "told")
        equal(listing(pair.at), before, "files")
        found = json.loads(pinctl_status(pair.at, "commit", "--from-copy", pair.copy, "--json")[1])
        equal([(one["copy_version"], one["version"], one["state"]) for one in found],
              [(pair.made + i, pair.made + 1 + i, "committed") for i in (1, 2)], "JSON")
        equal(found[0]["transaction"], lance.dataset(pair.copy).read_transaction(pair.made + 1).uuid, "transaction")


def on_branch():
    with scratch() as folder:
        at, copy = folder + "/t.lance", folder + "/copy.lance"
        lance.write_dataset(rows(0, 40), at, max_rows_per_file=10).create_scalar_index("id", "BTREE")
        lance.dataset(at).create_branch("dev")
        pinctl(at, "enable", "--apply", branch="dev")
        pinctl(at, "register", "+1h", branch="dev")
        pinctl(at, "copy", copy)
        pinctl(at, "register", "+1h", branch="dev")

        def branch(at):
            return lance.dataset(at).checkout_version(("dev", None))

        branch(copy).insert(rows(100, 5))
        branch(copy).delete("id in (5, 101)")
        branch(copy).create_scalar_index("n", "BTREE")
        branch(copy).update({"n": "n + 1"}, where="id = 7")
        found = lines(pinctl(at, "commit", "--from-copy", copy, branch="dev"))
        equal([line[3] for line in found], ["committed"] * 4, "states")
        for wanted in ("id >= 0", "n = 71", "id = 7"):
            equal(*(sorted(map(repr, branch(one).to_table(filter=wanted).to_pylist())) for one in (at, copy)), wanted)
        equal(len(pinctl(at, "ls", "--json", branch="dev")), 2, "pins")
        status, _, err = pinctl_status(at, "commit", "--from-copy", copy)
        assert status == 0 and "nothing was committed" in err, err


def blobs():
    def write(first, at, mode):
        big = [os.urandom(100_000) for _ in range(4)]
        schema = pa.schema([pa.field("id", pa.int64()), blob_field("blob")])
        data = pa.table({"id": pa.array(range(first, first + 4)), "blob": blob_array(big)}, schema=schema)
        lance.write_dataset(data, at, mode=mode, data_storage_version="2.2")
        return big

    with scratch() as folder:
        pair = Pair("blobs", folder, lambda kind, at: write(0, at, "create"))
        big = write(4, pair.copy, "append")
        beside = [name for name in listing(pair.copy + "/data") if os.path.dirname(name) != pair.copy + "/data"]
        assert beside, "no blobs beside the data"
        pair.replay()
        shutil.rmtree(pair.copy)
        ds = lance.dataset(pair.at)
        found = [blob.readall() for blob in ds.take_blobs("blob", indices=[4, 5, 6, 7])]
        equal(found, big, "blobs")


def rewrite_from(kind):
    """Lance plans and executes on a copy, where nothing is committed; results and their files are the table's."""
    with scratch() as folder:
        pair = Pair(kind, folder)
        pair.go_on()
        before, had = said(lance.dataset(pair.at)), listing(pair.copy)
        file = compactions.save(folder, compactions.execute(pair.copy))
        new = set(listing(pair.copy)) - set(had)
        assert new, "no files"
        pinctl(pair.at, "commit", "--rewrite", file, "--from", pair.copy, "--dry-run")
        equal(set(listing(pair.copy)) - set(had), new, "files that wait")
        pinctl(pair.at, "commit", "--rewrite", file, "--from", pair.copy)
        equal(listing(pair.copy), had, "files of the copy")
        ds = lance.dataset(pair.at)
        ds.validate()
        equal(said(ds), before, "rows")
        equal(said(ds, filter="id = 12"), said(ds, filter="id = 12", use_scalar_index=False), "index answers")
        equal(len(pinctl(pair.at, "ls", "--json")), 2, "pins")
        equal(pinctl(pair.at, "check"), "", "check")


def other_release(release):
    deeds = "append delete_rows compact update create_index merge_insert add_column append optimize config".split()
    script = "import sys; sys.path.insert(0, %r)\nfrom deeds import *\nat = sys.argv[1]\n" % HERE
    script += "def optimize(at): lance.dataset(at).optimize.optimize_indices()\n" + "".join("%s(at)\n" % deed for deed in deeds)
    command = [ROOT + "/tools/venv", release]
    (python,) = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.split()
    with scratch() as folder:
        pair = Pair("indexed", folder, whole)
        subprocess.run([python, "-W", "ignore", "-c", script, pair.copy], check=True)
        pair.compare(pair.replay())


# --- ended, and refused -----------------------------------------------------------------------------------------------


def killed():
    dice = random.Random(SEED)
    for _ in range(10 if LONG else 1):
        with scratch() as folder:
            pair = Pair("indexed", folder)
            pair.go_on()
            for i in range(4):
                lance.write_dataset(rows(100 + 10 * i, 10), pair.copy, mode="append")
                lance.dataset(pair.copy).delete("id in (%d, %d)" % (i, 100 + 10 * i))
                lance.dataset(pair.copy).update({"n": "7"}, where="id = %d" % (101 + 10 * i))
            runs = 0
            while runs < 200:
                runs += 1
                run = subprocess.Popen([PINCTL, "-d", pair.at, "commit", "--from-copy", pair.copy], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                time.sleep(dice.random() * 0.002 * runs)
                run.send_signal(signal.SIGKILL)
                if run.wait() == 0:
                    break
            pair.compare(pair.replay())
            ds = lance.dataset(pair.at)
            uuids = [ds.read_transaction(version).uuid for version in range(2, ds.version + 1)]
            equal(len(set(uuids)), len(uuids), "transactions")
            theirs = lance.dataset(pair.copy)
            wanted = [theirs.read_transaction(version).uuid for version in range(pair.made + 1, theirs.version + 1)]
            equal([one for one in uuids if one in wanted], wanted, "transactions of the copy, in their order")


def refused(at, copy, status, sentence, *words):
    before = listing(at)
    found, out, err = pinctl_status(at, "commit", "--from-copy", copy, *words)
    assert found == status and sentence in err, "exit %d, %r; wanted %d, %r" % (found, err, status, sentence)
    equal(out, "", "output")
    equal(listing(at), before, "files")


def bad_copies():
    with scratch() as folder:
        pair = Pair("plain", folder)
        new_table("plain", folder + "/another.lance")
        pinctl(folder + "/another.lance", "copy", folder + "/copy of another.lance")
        append(folder + "/copy of another.lance")
        shutil.copytree(pair.at, folder + "/earlier.lance")
        append_json(pair.at, range(500, 505), folder)
        pinctl(pair.at, "copy", folder + "/later.lance")
        append(folder + "/later.lance")
        append(pair.copy)
        lance.dataset(pair.copy).delete("id = 5")

        refused(pair.at, folder + "/none", 2, "none")
        refused(pair.at, folder + "/another.lance", 2, "expected one that `pinctl copy` made")
        refused(pair.at, pair.at, 2, "expected one that `pinctl copy` made")
        refused(pair.at, folder + "/copy of another.lance", 2, "of another table")
        refused(folder + "/earlier.lance", folder + "/later.lance", 2, "later state")

        def copied(name):
            return shutil.copytree(pair.copy, folder + "/" + name)

        with open(manifest_name(copied("cut"), pair.made + 1), "r+b") as file:
            file.truncate(100)
        refused(pair.at, folder + "/cut", 3, "manifest")
        with open(manifest_name(copied("damaged"), pair.made + 2), "r+b") as file:
            file.seek(manifest(pair.copy, pair.made + 2)[23][0] + 4)
            file.write(b"\xff" * 8)
        refused(pair.at, folder + "/damaged", 3, "version %d" % (pair.made + 2))
        os.remove(manifest_name(copied("gap"), pair.made + 1))
        refused(pair.at, folder + "/gap", 2, "version %d of the copy is gone" % (pair.made + 1))
        lance.dataset(copied("cleaned")).cleanup_old_versions(timedelta(0), delete_unverified=True)
        refused(pair.at, folder + "/cleaned", 2, "its history was cleaned up")
        lance.dataset(copied("restored"), version=pair.made).restore()
        refused(pair.at, folder + "/restored", 2, "it restores version %d" % pair.made)
        copied("reset")
        for version in range(pair.made, pair.made + 3):
            os.remove(manifest_name(folder + "/reset", version))
        refused(pair.at, folder + "/reset", 2, "versions of it are gone")
        for name in os.listdir(copied("without data") + "/data"):
            if name not in os.listdir(pair.at + "/data"):
                os.remove(folder + "/without data/data/" + name)
        refused(pair.at, folder + "/without data", 2, "is not there, and not in the table either")
        new = sorted(set(os.listdir(pair.copy + "/data")) - set(os.listdir(pair.at + "/data")))[0]
        with open(os.path.join(pair.at, "data", new), "w") as file:
            file.write("another")
        refused(pair.at, pair.copy, 1, "nothing is overwritten")
        os.remove(os.path.join(pair.at, "data", new))
        with open(copied("marked") + "/.pinfs-copy", "w") as file:
            file.write("7\n")
        refused(pair.at, folder + "/marked", 3, ".pinfs-copy")
        # After all of that it still comes back.
        pair.replay()
        equal(sorted(lance.dataset(pair.at).to_table(columns=["id"])["id"].to_pylist()),
              sorted({*range(40), *range(500, 505), *range(100, 115)} - {3, 5, 17}), "rows")
