"""Prepared work, committed by Lance on an unpinned copy of a table and by pinctl on the pinned one: the same versions come out.

A case is a kind of table and a deed. The deed is done by Lance on the copy, as many commits as it takes; the transactions that lie there afterwards are
what pinctl is given, one after the other. Of each version the manifests must be equal but for the time, section offsets, bit 19 and the pins.
"""

import glob
import json
import os
import shutil
import threading

import lance
from lance.dataset import LanceOperation as Op
from lance.fragment import write_fragments

import fri
from deeds import DEEDS, NOT_FOR, append, commit, compact, rows
from manifest import manifest, readable, unflag
from support import FLAG, LONG, equal, pinctl, pinctl_status, scratch


def cases():
    for kind in KINDS:
        for name, deed in sorted(DEEDS.items()):
            if name in NOT_FOR.get(kind, ()):
                continue
            yield "%s on a table that is %s" % (name, kind), lambda kind=kind, deed=deed: differential(kind, deed)
    for kind in ("plain", "indexed", "stable"):
        # With a pin the movement must be recorded, which is another command's.
        name = "compaction without pins on a table that is %s" % kind
        yield name, lambda kind=kind: differential(kind, compact, pin=False)
    yield "a transaction is committed once", once
    yield "the file of the transaction is the user's", own_file
    yield "fragments as JSON, brought from a scratch dataset", append_json
    yield "fragments as JSON that are refused", bad_json
    yield "work on a branch", on_branch
    yield "committers race, and pins come and go", race
    yield "what bad input is refused, and nothing changes", bad_input


# --- tables -----------------------------------------------------------------------------------------------------------


# moved: a compaction left the remapping of its indices for later; tagged: as transitions.
KINDS = ("plain", "indexed", "stable", "moved", "tagged", "legacy")


def new_table(kind, at):
    if kind == "legacy":
        lance.write_dataset(rows(0, 40), at, max_rows_per_file=10, data_storage_version="legacy")
        lance.dataset(at).delete("id in (3, 17)")
        lance.dataset(at).update_config({"a": "1"})
        return
    stable = kind == "stable"
    ds = lance.write_dataset(rows(0, 40), at, max_rows_per_file=10, enable_stable_row_ids=stable)
    if kind != "plain":
        ds.create_scalar_index("id", "BTREE")
        ds.create_scalar_index("s", "BITMAP")
    ds = lance.dataset(at)
    ds.delete("id in (3, 17)")
    ds.update_config({"a": "1"})
    if kind == "tagged":
        fri.tag(at)
    if kind in ("moved", "tagged"):
        fri.compact(at, 20)
        lance.write_dataset(rows(40, 10), at, mode="append")


class Twins:
    """A table with a pin, and a copy of it without."""

    def __init__(self, kind, folder, pin=True):
        self.pinned, self.copy = os.path.join(folder, "pinned.lance"), os.path.join(folder, "copy.lance")
        new_table(kind, self.pinned)
        pinctl(self.pinned, "enable", "--apply")
        if pin:
            pinctl(self.pinned, "register", "+2h")
        self.make_copy()

    def make_copy(self):
        shutil.copytree(self.pinned, self.copy)
        for name in glob.glob(self.copy + "/_versions/*.manifest"):
            unflag(name)
        self.head = lance.dataset(self.copy).version

    def bring_files(self):
        """What the deed wrote, but for manifests and transactions, into the pinned table."""
        for folder, _, names in os.walk(self.copy):
            relative = os.path.relpath(folder, self.copy)
            if relative.split("/")[0] in ("data", "_deletions", "_indices"):
                os.makedirs(os.path.join(self.pinned, relative), exist_ok=True)
                for name in names:
                    to = os.path.join(self.pinned, relative, name)
                    if not os.path.exists(to):
                        shutil.copy2(os.path.join(folder, name), to)

    def transaction(self, version):
        return os.path.join(self.copy, "_transactions", manifest(self.copy, version)[12][0].decode())


def differential(kind, deed, pin=True):
    with scratch() as folder:
        twins = Twins(kind, folder, pin)
        deed(twins.copy)
        last = lance.dataset(twins.copy).version
        assert last > twins.head, "the deed committed nothing"
        twins.bring_files()
        for version in range(twins.head + 1, last + 1):
            said = pinctl(twins.pinned, "commit", "--transaction", twins.transaction(version), "--json")
            equal(said["version"], version, "version")
            compare(twins, version, kind == "moved")
        equal(len(pinctl(twins.pinned, "ls", "--json")), pin, "pins")
        assert pinctl(twins.pinned, "check") == "", "check finds something"
        compare_rows(twins)


def compare_rows(twins):
    ours, theirs = lance.dataset(twins.pinned), lance.dataset(twins.copy)
    equal(ours.to_table(with_row_id=True).to_pylist(), theirs.to_table(with_row_id=True).to_pylist(), "rows")
    ours.validate()
    if "id" in ours.schema.names:
        for wanted in ("id = 12", "id >= 38", "s = 'row 21'" if "s" in ours.schema.names else "id = 21"):
            found = [ds.to_table(filter=wanted).to_pylist() for ds in (ours, theirs)]
            equal(found[0], found[1], wanted)


def compare(twins, version, moved=False):
    """moved: coverage of indices is carried as it is, and Lance translates it."""
    ours, theirs = manifest(twins.pinned, version), manifest(twins.copy, version)
    assert ours[10][0] & FLAG, "pins are not enabled"
    equal(ours[21], ours[23], "offsets of the transaction")
    ours, theirs = readable(ours), readable(theirs)
    for entry in ours["indices"] + theirs["indices"] if moved else []:
        entry.pop(5, None)
    for part in theirs:
        equal(ours[part], theirs[part], "version %d, %s" % (version, part))


# --- by itself --------------------------------------------------------------------------------------------------------


def once():
    with scratch() as folder:
        twins = Twins("plain", folder)
        append(twins.copy)
        twins.bring_files()
        file = twins.transaction(twins.head + 1)
        first = pinctl(twins.pinned, "commit", "--transaction", file, "--dry-run", "--json")
        equal((first["version"], first["committed"]), (twins.head + 1, False), "dry run")
        equal(lance.dataset(twins.pinned).version, twins.head, "head after a dry run")
        for already in (False, True):
            said = pinctl(twins.pinned, "commit", "--transaction", file, "--json")
            equal((said["version"], said["already"]), (twins.head + 1, already), "version, already")
        equal(lance.dataset(twins.pinned).version, twins.head + 1, "head")


def own_file():
    with scratch() as folder:
        twins = Twins("plain", folder)
        append(twins.copy)
        twins.bring_files()
        file = os.path.join(twins.pinned, "_transactions", os.path.basename(twins.transaction(twins.head + 1)))
        shutil.copy(twins.transaction(twins.head + 1), file)
        pinctl(twins.pinned, "commit", "--transaction", file)
        assert os.path.exists(file), "the file is gone"
        compare(twins, twins.head + 1)


def append_json():
    for kind in ("indexed", "stable"):
        with scratch() as folder:
            twins = Twins(kind, folder)
            place, text = folder + "/scratch.lance", folder + "/fragments.json"
            fragments = write_fragments(rows(100, 15), place, max_rows_per_file=10)
            names = [file.path for fragment in fragments for file in fragment.files]
            with open(text, "w") as file:
                json.dump([fragment.to_json() for fragment in fragments], file)
            pinctl(twins.pinned, "commit", "--append", text, "--from", place, "--dry-run")
            equal(sorted(os.listdir(place + "/data")), sorted(names), "files after a dry run")
            said = pinctl(twins.pinned, "commit", "--append", text, "--from", place, "--json")
            equal((said["operation"], said["version"]), ("Append", twins.head + 1), "operation, version")
            equal(os.listdir(place + "/data"), [], "files left")
            for name in names:
                os.link(os.path.join(twins.pinned, "data", name), os.path.join(twins.copy, "data", name))
            # The same transaction, committed by Lance.
            commit(twins.copy, lance.dataset(twins.pinned).read_transaction(said["version"]).operation)
            ours, theirs = (readable(manifest(at, said["version"])) for at in (twins.pinned, twins.copy))
            del ours[12], theirs[12]
            equal(ours, theirs, "manifest")
            compare_rows(twins)


def on_branch():
    with scratch() as folder:
        pinned, copy = folder + "/pinned.lance", folder + "/copy.lance"
        lance.write_dataset(rows(0, 40), pinned, max_rows_per_file=10).create_scalar_index("id", "BTREE")
        lance.dataset(pinned).create_branch("dev")
        pinctl(pinned, "enable", "--apply", branch="dev")
        pinctl(pinned, "register", "+1h", branch="dev")
        shutil.copytree(pinned, copy)
        for name in glob.glob(copy + "/tree/dev/_versions/*.manifest"):
            unflag(name)

        def branch(at):
            return lance.dataset(at).checkout_version(("dev", None))

        head = branch(copy).version
        branch(copy).insert(rows(100, 5))
        branch(copy).delete("id in (5, 101)")
        branch(copy).update({"n": "n + 1"}, where="id = 7")
        for part in ("data", "_deletions"):
            shutil.copytree(copy + "/tree/dev/" + part, pinned + "/tree/dev/" + part, dirs_exist_ok=True)
        for version in range(head + 1, head + 4):
            name = manifest(copy + "/tree/dev", version)[12][0].decode()
            pinctl(pinned, "commit", "--transaction", "%s/tree/dev/_transactions/%s" % (copy, name), branch="dev")
            ours, theirs = (readable(manifest(at + "/tree/dev", version)) for at in (pinned, copy))
            equal(ours, theirs, "version %d" % version)
        equal(len(pinctl(pinned, "ls", "--json", branch="dev")), 1, "pins")
        ours, theirs = (branch(at).to_table(filter="id >= 0").to_pylist() for at in (pinned, copy))
        equal(ours, theirs, "rows")


def race():
    """Three append what Lance wrote elsewhere, one has transactions that were all prepared on one version, one registers and releases pins."""
    rounds, failures = 60 if LONG else 6, []
    with scratch() as folder:
        twins = Twins("indexed", folder)
        at, copy, base = twins.pinned, twins.copy, twins.head

        def append_all(worker):
            for i in range(rounds):
                first = 10000 * worker + 10 * i
                place, text = "%s/scratch%d-%d.lance" % (folder, worker, i), "%s/%d-%d.json" % (folder, worker, i)
                fragments = write_fragments(rows(first, 10), place)
                with open(text, "w") as file:
                    json.dump([fragment.to_json() for fragment in fragments], file)
                pinctl(at, "commit", "--append", text, "--from", place)

        def configure(worker):
            """Each sets a key of its own, prepared on one and the same version."""
            for i in range(rounds):
                commit(copy, Op.UpdateConfig(config_updates=Op.UpdateMap({"k%d" % i: "v"})), read_version=base)
                file = os.path.join(copy, "_transactions", manifest(copy, base + 1 + i)[12][0].decode())
                pinctl(at, "commit", "--transaction", file)

        def come_and_go(worker):
            for _ in range(rounds):
                pin = pinctl(at, "register", "+1h", "--json")["pin"]["id"]
                pinctl(at, "confirm", pin)
                pinctl(at, "release", pin)

        def guarded(function, worker):
            try:
                function(worker)
            except BaseException as error:
                failures.append(error)

        work = [append_all, append_all, append_all, configure, come_and_go]
        threads = [threading.Thread(target=guarded, args=pair) for pair in zip(work, range(1, 6))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failures, failures
        ds = lance.dataset(at)
        want = sorted(set(range(40)) - {3, 17} | {10000 * w + i for w in (1, 2, 3) for i in range(10 * rounds)})
        equal(sorted(ds.to_table(columns=["id"])["id"].to_pylist()), want, "rows")
        equal(len([key for key in ds.config() if key.startswith("k")]), rounds, "keys")
        equal(len(pinctl(at, "ls", "--json")), 1, "pins")
        assert pinctl(at, "check") == "", "check finds something"
        ids = [fragment.fragment_id for fragment in ds.get_fragments()]
        equal(ids, sorted(set(ids)), "fragment ids")


def bad_json():
    with scratch() as folder:
        twins = Twins("plain", folder)
        place, text = folder + "/scratch.lance", folder + "/fragments.json"
        (fragment,) = write_fragments(rows(100, 5), place)
        name = fragment.files[0].path

        def attempt(status, sentence, **changes):
            with open(text, "w") as file:
                json.dump([{**fragment.to_json(), **changes}], file)
            before = sorted(os.listdir(twins.pinned + "/data") + os.listdir(twins.pinned + "/_versions"))
            found, _, err = pinctl_status(twins.pinned, "commit", "--append", text, "--from", place)
            assert found == status and sentence in err, "exit %d, %r; wanted %d, %r" % (found, err, status, sentence)
            now = sorted(os.listdir(twins.pinned + "/data") + os.listdir(twins.pinned + "/_versions"))
            equal(now, before, "files")
            equal(os.listdir(place + "/data"), [name], "files of the scratch dataset")

        attempt(2, "is not known", invented=1)
        attempt(2, "does not say how many rows", physical_rows=0)
        attempt(2, "files: expected an array", files=None)
        attempt(2, "has deleted rows", deletion_file={"read_version": 1, "id": 2**64 - 1, "file_type": "array", "num_deleted_rows": 1})
        attempt(2, "stable row ids", row_id_meta={"Inline": [10, 4, 10, 2, 16, 5]})
        attempt(2, "two fragments with the id 2", id=2)
        attempt(2, "overlays", overlays=[{}])
        attempt(2, "is not there, and not in the table", files=[{**fragment.to_json()["files"][0], "path": "none.lance"}])
        attempt(2, "no column of this table", files=[{**fragment.to_json()["files"][0], "fields": [7, 8, 9]}])
        attempt(2, "base 7", files=[{**fragment.to_json()["files"][0], "base_id": 7}])
        with open(os.path.join(twins.pinned, "data", name), "w") as file:
            file.write("another")
        attempt(1, "nothing is overwritten")
        with open(text, "w") as file:
            file.write("[{")
        found, _, err = pinctl_status(twins.pinned, "commit", "--append", text)
        assert found == 2 and "not JSON" in err, err


def refused(at, file, status, sentence):
    before = sorted(os.listdir(at + "/_versions") + os.listdir(at + "/_transactions"))
    found, out, err = pinctl_status(at, "commit", "--transaction", file)
    assert found == status and sentence in err, "exit %d, %r; wanted %d, %r" % (found, err, status, sentence)
    equal(out, "", "output")
    equal(sorted(os.listdir(at + "/_versions") + os.listdir(at + "/_transactions")), before, "files")


def bad_input():
    with scratch() as folder:
        twins = Twins("plain", folder)
        bad = os.path.join(folder, "bad.txn")

        def write(data):
            with open(bad, "wb") as file:
                file.write(data)

        append(twins.copy)
        good = open(twins.transaction(twins.head + 1), "rb").read()
        refused(twins.pinned, twins.transaction(twins.head + 1), 2, "which is not there")
        refused(twins.pinned, os.path.join(folder, "none"), 2, "cannot read")
        write(b"")
        refused(twins.pinned, bad, 3, "empty")
        write(good[: len(good) // 2])
        refused(twins.pinned, bad, 3, "is not a transaction")
        twins.bring_files()
        later = lance.write_dataset(rows(0, 1), folder + "/other.lance")
        for i in range(30):
            later = lance.write_dataset(rows(i, 1), folder + "/other.lance", mode="append")
        other = glob.glob(folder + "/other.lance/_transactions/29-*.txn")[0]
        refused(twins.pinned, other, 2, "another table")
        commit_on = {
            "fragment 99": lambda: Op.Delete([], [99], "true"),
        }
        for sentence, make in commit_on.items():
            shutil.rmtree(twins.copy)
            twins.make_copy()
            commit(twins.copy, make())
            refused(twins.pinned, twins.transaction(twins.head + 1), 2, sentence)
