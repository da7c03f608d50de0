"""What versions refer to, and what branches need of each other: core's survey against Lance's tracked_files, for every
version and branch of tables that Lance made at random; and what core keeps no cleanup of Lance's takes for free."""

import json
import os
import random
import subprocess

import lance
import pyarrow as pa
from lance.optimize import Compaction

from support import BUILD, LONG, equal, make, scratch

DUMP = os.path.join(BUILD, "tests/survey_dump")
SEED = 20261129
ROUNDS = 150 if LONG else 12


def cases():
    for kind in ("branches", "clone", "bases"):
        yield "%s: each version has the files that Lance says" % kind, made, kind
    yield "histories at random (seed %d)" % SEED, histories
    yield "sidecars of blobs", blobs
    yield "an index that Lance remaps on a branch, and then does not find", misplaced
    yield "a branch made through a link", linked
    yield "a table that was moved, with its branch", moved


# --- what both say ----------------------------------------------------------------------------------------------------


def dump(at):
    done = subprocess.run([DUMP, at], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def expand(names):
    """Directories as the files in them. Those of indices that keep everything in their entry are not there."""
    found = set()
    for name in names:
        if name.endswith("/"):
            for folder, _, files in os.walk(name):
                found.update(os.path.join(folder, file) for file in files)
        elif "/_indices/" not in name:
            found.add(name)
    return found


def tracked(ds):
    """{version: files} as Lance says."""
    said = {}
    for row in ds.tracked_files().read_all().to_pylist():
        path = os.path.join(row["base_uri"], row["path"])
        said.setdefault(row["version"], set()).add(os.path.realpath(path))
    return said


def compare(at):
    """All lines of the table. What core says, for more questions."""
    said = dump(at)
    ds = lance.dataset(at)
    lines = {"main": ds, **{name: ds.checkout_version((name, None)) for name in ds.branches.list()}}
    equal(sorted(said), sorted(lines), "branches")
    for name, line in lines.items():
        ours, theirs = said[name], tracked(line)
        equal(ours["gaps"], [], "gaps of " + name)
        equal(sorted(map(int, ours["versions"])), sorted(theirs), "versions of " + name)
        for version, files in theirs.items():
            found = expand(ours["versions"][str(version)])
            what = "of %s, version %d" % (name, version)
            root = os.path.realpath(at) + ("" if name == "main" else "/tree/" + name)
            found -= unsaid(found, root)
            equal(sorted(found - files), [], "files too many " + what)
            equal(sorted(files - found), [], "files lacking " + what)
    return said


def unsaid(files, root):
    """What Lance leaves out, though it reads them: sidecars, and indices that a branch has of another."""
    own = root + "/_indices/"
    return {name for name in files if name.endswith(".blob") or ("/_indices/" in name and not name.startswith(own))}


def made(kind):
    with scratch() as folder:
        at = os.path.join(folder, "t.lance")
        make(kind, at)
        compare(at)


# --- histories --------------------------------------------------------------------------------------------------------


class Table:
    """A table, and what may happen to it. Each action leaves it readable, or raises what Lance has against it."""

    def __init__(self, at, dice):
        self.at, self.dice, self.next, self.names, self.current = at, dice, 0, 0, None
        lance.write_dataset(self.rows(), at, max_rows_per_file=7)

    def rows(self):
        first, count = self.next, self.dice.randint(1, 30)
        self.next += count
        values = list(range(first, first + count))
        return pa.table({"a": pa.array(values, pa.int64()), "b": pa.array(["%d" % value for value in values])})

    def line(self):
        """Main, or any of its branches."""
        ds = lance.dataset(self.at)
        self.current = self.dice.choice([None, None, *ds.branches.list()])
        return ds.checkout_version((self.current, None)) if self.current else ds

    def name(self, prefix):
        self.names += 1
        return "%s%d" % (prefix, self.names)

    def append(self, ds):
        extra = [name for name in ds.schema.names if name not in "ab"]
        if not extra:
            lance.write_dataset(self.rows(), ds, mode="append", max_rows_per_file=7)

    def delete(self, ds):
        ds.delete("a %% %d = %d" % (self.dice.randint(2, 6), self.dice.randint(0, 5)))

    def update(self, ds):
        ds.update({"b": "'changed'"}, where="a %% %d = 0" % self.dice.randint(2, 9))

    def merge(self, ds):
        if ds.schema.names == ["a", "b"]:
            ds.merge_insert("a").when_matched_update_all().when_not_matched_insert_all().execute(self.rows())

    def add_column(self, ds):
        ds.add_columns({self.name("c"): "a * 2"})

    def drop_column(self, ds):
        extra = [name for name in ds.schema.names if name not in "ab"]
        if extra:
            ds.drop_columns([self.dice.choice(extra)])

    def index(self, ds):
        ds.create_scalar_index("a", self.dice.choice(["BTREE", "BITMAP"]), replace=True)

    def compact(self, ds):
        options = {"target_rows_per_fragment": 20, "defer_index_remap": self.dice.random() < 0.5}
        plan = Compaction.plan(ds, options=options)
        results = [task.execute(ds) for task in plan.tasks]
        if results:
            Compaction.commit(ds, results, options=options)

    def optimize(self, ds):
        ds.optimize.optimize_indices()

    def restore(self, ds):
        version = self.dice.choice(ds.versions())["version"]
        lance.dataset(self.at).checkout_version((self.current, version)).restore()

    def overwrite(self, ds):
        lance.write_dataset(self.rows(), ds, mode="overwrite", max_rows_per_file=7)

    def tag(self, ds):
        main = lance.dataset(self.at)
        main.tags.create(self.name("t"), self.dice.choice(main.versions())["version"])

    def branch(self, ds):
        ds.create_branch(self.dice.choice(["%s", "x/%s"]) % self.name("b"))

    def config(self, ds):
        ds.update_config({"k": "%d" % self.dice.randint(0, 99)})

    def clean(self, ds):
        """Lance's own, of main: it keeps the versions that core keeps for tags, branches and the head."""
        kept = dump(self.at)["main"]["kept_versions"]
        ds = lance.dataset(self.at)
        ds.cleanup_old_versions(retain_versions=self.dice.randint(1, 4), error_if_tagged_old_versions=False)
        gone = set(map(int, kept)) - {version["version"] for version in lance.dataset(self.at).versions()}
        assert not gone, "core keeps versions %r (%r), Lance does not" % (gone, kept)

    ACTIONS = [
        (append, 6), (delete, 4), (update, 3), (merge, 3), (add_column, 2), (drop_column, 2), (index, 2), (compact, 3),
        (optimize, 1), (restore, 1), (overwrite, 1), (tag, 1), (branch, 1), (config, 1), (clean, 1),
    ]  # fmt: skip

    def act(self):
        actions, weights = zip(*self.ACTIONS)
        action = self.dice.choices(actions, weights)[0]
        action(self, self.line())
        return action.__name__


def histories():
    for number in range(ROUNDS):
        with scratch() as folder:
            at = os.path.join(folder, "t.lance")
            table = Table(at, random.Random(SEED + number))
            done = []
            try:
                for _ in range(12):
                    done.append(table.act())
                compare(at)
            except Exception as error:
                raise AssertionError("history %d, %s" % (number, ", ".join(done))) from error


def blobs():
    from lance.blob import blob_array, blob_field

    with scratch() as folder:
        at = os.path.join(folder, "t.lance")
        schema = pa.schema([pa.field("id", pa.int64()), blob_field("blob")])
        for first in (0, 2):
            values = [b"x" * 200_000, b"y" * 5_000_000]
            table = pa.table({"id": pa.array([first, first + 1]), "blob": blob_array(values)}, schema=schema)
            lance.write_dataset(table, at, data_storage_version="2.2", mode="append" if first else "create")
        lance.dataset(at).delete("id >= 2")
        said = compare(at)["main"]
        counts = {
            version: sum(name.endswith(".blob") for name in expand(files)) for version, files in said["versions"].items()
        }
        assert counts["1"] == 2 and counts["2"] == 4 and counts["3"] in (2, 4), counts
        equal([name for name in said["orphans"] if name.endswith(".blob")], [], "orphans")


def misplaced():
    with scratch() as folder:
        at = os.path.join(folder, "t.lance")
        table = pa.table({"a": pa.array(range(20), pa.int64())})
        lance.write_dataset(table, at, max_rows_per_file=10).create_scalar_index("a", "BITMAP")
        branch = lance.dataset(at).create_branch("dev")
        branch.optimize.compact_files(target_rows_per_fragment=100)
        try:
            lance.dataset(at).checkout_version(("dev", None)).to_table(filter="a = 3")
        except Exception as error:
            assert "Not found" in str(error), error
        said = compare(at)["dev"]
        equal(said["problems"], [], "problems")
        equal([name for name in said["orphans"] if "_indices" in name], [], "orphans")


# --- what Lance loses and core must not -------------------------------------------------------------------------------


def branched(at):
    """Main 1 to 3, branch dev of 1, which deletes nothing."""
    lance.write_dataset(pa.table({"a": [1, 2]}), at)
    lance.dataset(at).create_branch("dev", 1)
    lance.write_dataset(pa.table({"a": [3]}), at, mode="overwrite")
    lance.write_dataset(pa.table({"a": [4]}), at, mode="overwrite")


def assert_kept_for(said, at, branch):
    equal(said["main"]["kept_versions"], {"1": "branch:" + branch, "3": "head"}, "versions")
    needed = [name for name in said["main"]["versions"]["1"] if "/data/" in name]
    equal([said["main"]["kept_files"].get(name) for name in needed], ["branch:" + branch], "the file of version 1")
    equal(said["main"]["problems"], [], "problems")


def linked():
    with scratch() as folder:
        at, link = os.path.join(folder, "t.lance"), os.path.join(folder, "link")
        os.symlink(at, link)
        os.mkdir(at)
        branched(link)
        for spelling in (at, link, at + "/", os.path.join(folder, ".", "link")):
            assert_kept_for(dump(spelling), at, "dev")


def moved():
    with scratch() as folder:
        old, new = os.path.join(folder, "old.lance"), os.path.join(folder, "new.lance")
        branched(old)
        os.rename(old, new)
        assert_kept_for(dump(new), new, "dev")
