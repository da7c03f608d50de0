"""What may be committed over what: every pair of operations, by Lance on an unpinned copy of a table and by pinctl on the pinned table.

A piece of work is prepared by Lance on version V in a table of its own. For each pair one was committed since, as V + 1, and the other comes after it.
Verdicts must be equal, and where it is allowed the manifests and the rows too. matrix.txt holds what Lance says of every pair, and where pinctl
says otherwise, with the reason: a run must find exactly that. PINFS_LONG looks at all pairs, otherwise a sample of them; with PINFS_RECORD as well it
writes the file.
"""

import contextlib
import json
import os
import random
import shutil

import lance
import pyarrow as pa
from lance.dataset import LanceOperation as Op
from lance.fragment import DataFile, FragmentMetadata
from lance.optimize import Compaction

import fri
from deeds import commit, compact, field_id
from manifest import manifest, readable, unflag
from support import LONG, bring, equal, pinctl, pinctl_status, scratch

FILE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "matrix.txt")
RECORD = "PINFS_RECORD" in os.environ
SAMPLE = 5, 20  # of those that are committed first, and of those after them
KINDS = ("indexed", "stable", "tagged")
NAMES = {".": "allowed", "R": "retryable", "X": "incompatible", "E": "refused as it is"}


def cases():
    for kind in KINDS:
        yield "what may be committed over what, on a table that is %s" % kind, matrix, kind


# --- the table --------------------------------------------------------------------------------------------------------

ROWS = 10  # of a fragment; there are four
OPTIONS = {"target_rows_per_fragment": 2 * ROWS}


def rows(first, count):
    ids = range(first, first + count)
    key = pa.field("id", pa.int64(), nullable=False, metadata={"lance-schema:unenforced-primary-key": "true"})
    schema = pa.schema([key, ("n", pa.int32()), ("s", pa.string()), ("z", pa.int64())])
    return pa.table([list(ids), [i * 10 for i in ids], ["row %d" % i for i in ids], [i * 2 for i in ids]], schema)


def new_table(kind, at):
    """Column z lies in files of its own; index n_idx knows fragments 0 and 1 only. Tagged: there is one more, which others were made into."""
    ds = lance.write_dataset(rows(0, 20).drop(["z"]), at, max_rows_per_file=ROWS, enable_stable_row_ids=kind == "stable")
    ds.create_scalar_index("n", "BTREE")
    lance.write_dataset(rows(20, 20).drop(["z"]), at, mode="append", max_rows_per_file=ROWS)
    ds = lance.dataset(at)
    ds.add_columns({"z": "id * 2"})
    ds.create_scalar_index("s", "BITMAP")  # none on id, with which an upsert would not say its keys
    ds = lance.dataset(at)
    if kind == "stable":
        # Elsewhere pinctl could not record what a compaction moves without being told.
        ds.delete("id in (3, 17)")
    ds.update_config({"a": "1"})
    ds.update_metadata({"owner": "me"})
    ds.update_schema_metadata({"k": "v"})
    if kind == "tagged":
        fri.tag(at)
        lance.write_dataset(rows(200, 20), at, mode="append", max_rows_per_file=ROWS)
        ds = lance.dataset(at)
        Compaction.commit(ds, [Compaction.plan(ds, OPTIONS).tasks[-1].execute(ds)], {**OPTIONS, "defer_index_remap": True})


# --- pieces of work ---------------------------------------------------------------------------------------------------

WORK = {}


class Work:
    def __init__(self, name, prepare, stale=None, anew=False, alone=True, kinds=KINDS):
        self.name, self.prepare = name, prepare
        self.stale = stale  # what Lance commits through a handle of V, where Python loses something of the transaction
        self.anew = anew  # that writes other files
        self.alone = alone  # one commit; else it is only committed first
        self.kinds = kinds


def work(name, prepare, **options):
    WORK[name] = Work(name, prepare, **options)


def through_handle(name, execute, **options):
    work(name, lambda at: execute(lance.dataset(at)), stale=execute, **options)


def delete(where):
    return lambda at: lance.dataset(at).delete(where)


def update(values, where):
    return lambda at: lance.dataset(at).update(values, where=where)


def update_columns(fragment, **columns):
    """Of the first rows of a fragment."""

    def prepare(at):
        first = fragment * ROWS
        new = pa.table({"id": pa.array([first + 1, first + 2], pa.int64()), **columns})
        updated, modified, *offsets = lance.dataset(at).get_fragment(fragment).update_columns(new, left_on="id", right_on="id")
        more = {"updated_fragment_offsets": offsets[0]} if offsets and offsets[0] else {}
        commit(at, Op.Update(updated_fragments=[updated], fields_modified=modified, update_mode="rewrite_columns", **more))

    return prepare


def upsert(first, count, key="id"):
    def execute(ds):
        ds.merge_insert(key).when_matched_update_all().when_not_matched_insert_all().conflict_retries(0).execute(rows(first, count))

    return execute


def replace(column, fragment, values):
    def prepare(at):
        where = at + ".scratch"
        new = lance.write_dataset(pa.table({column: values}), where, mode="overwrite")
        file = new.get_fragments()[0].data_files()[0]
        shutil.copy(os.path.join(where, "data", file.path), os.path.join(at, "data", file.path))
        field = field_id(lance.dataset(at), column)
        file = DataFile(file.path, [field], [0], file.file_major_version, file.file_minor_version, file.file_size_bytes)
        commit(at, Op.DataReplacement([Op.DataReplacementGroup(fragment, file)]))

    return prepare


def index(column, name=None, fragments=None, replaces=False):
    """An index built over the whole table, and then said to be over these fragments."""

    def prepare(at):
        aside = at + ".aside"
        shutil.copytree(at, aside)
        ds = lance.dataset(aside)
        ds.create_scalar_index(column, "BTREE", name=name or column + "_idx", replace=True)
        ds = lance.dataset(aside)
        made = ds.read_transaction(ds.version).operation
        for one in made.new_indices:
            if fragments is not None:
                one.fragment_ids = set(fragments)
        bring(aside, at)
        commit(at, Op.CreateIndex(made.new_indices, made.removed_indices if replaces else []))

    return prepare


def fragments_of(result, part):
    return [FragmentMetadata.from_json(json.dumps(fragment)) for fragment in result[part]]


def rewrite(wanted):
    """These fragments, by a compaction's results, as a transaction that gives no index, and no ids if it can."""
    def prepare(at):
        ds = lance.dataset(at)
        plan = Compaction.plan(ds, OPTIONS)
        results = [json.loads(task.execute(ds).json()) for task in plan.tasks]
        groups = [
            Op.RewriteGroup(fragments_of(result, "original_fragments"), fragments_of(result, "new_fragments"))
            for result in results
            if wanted & {fragment["id"] for fragment in result["original_fragments"]}
        ]
        assert len(groups) == 1, groups
        if ds.has_stable_row_ids:
            # Where fragments have none, Lance computes the coverage of indices before it gives them ids, and puts fragment 0 into it.
            for number, fragment in enumerate(groups[0].new_fragments, 40 + min(wanted)):
                fragment.id = number
        commit(at, Op.Rewrite(groups, []))

    return prepare


def merge(preserves):
    def prepare(at):
        merged = []
        for fragment in lance.dataset(at).get_fragments():
            one, schema = fragment.merge_columns(lambda batch: pa.record_batch({"twice": batch["n"]}), ["n"])
            merged.append(one)
        commit(at, Op.Merge(merged, schema, preserves_nullability=preserves))

    return prepare


def project(preserves):
    def prepare(at):
        commit(at, Op.Project(lance.dataset(at).lance_schema, preserves_nullability=preserves))

    return prepare


def edit(**parts):
    return lambda at: commit(at, Op.UpdateConfig(**parts))


def bases(name, path):
    return lambda ds: ds.add_bases([lance.DatasetBasePath(path, name)])


Map = Op.UpdateMap

work("Append", lambda at: lance.write_dataset(rows(100, 15), at, mode="append", max_rows_per_file=ROWS))
work("Delete, rows of 0", delete("id in (5, 6)"))
work("Delete, other rows of 0 and of 2", delete("id in (7, 25)"))
work("Delete, fragment 0", delete("id < 10"))
work("Delete, fragments 1 and 2", delete("id >= 10 and id < 30"))
work("Delete, all", lambda at: lance.dataset(at).truncate_table())
work("Update, n of a row of 0", update({"n": "n + 1"}, "id = 1"))
work("Update, s of rows of 2", update({"s": "'new'"}, "id in (21, 22)"))
work("Update, all rows of 1", update({"n": "0"}, "id >= 10 and id < 20"))
work("Update, column n of 0", update_columns(0, n=pa.array([1, 2], pa.int32())))
work("Update, column z of 0", update_columns(0, z=pa.array([1, 2], pa.int64())))
work("Update, column s of 2", update_columns(2, s=pa.array(["x", "y"])))
for name, arguments in (("35 to 44", (35, 10)), ("1 and 2", (1, 2)), ("40 to 44", (40, 5))):
    through_handle("Update, upsert of the keys %s" % name, upsert(*arguments), anew=True)
work("Overwrite", lambda at: lance.write_dataset(rows(0, 7), at, mode="overwrite"))
work("Overwrite, another schema", lambda at: lance.write_dataset(pa.table({"id": [1, 2], "x": ["y", "z"]}), at, mode="overwrite"))
work("CreateIndex, z", index("z"))
work("CreateIndex, z again", index("z"))
work("CreateIndex, z of 0 and 1", index("z", "z01_idx", [0, 1]))
work("CreateIndex, z of 2", index("z", "z2_idx", [2]))
work("CreateIndex, n_idx for 2 and 3", index("n", "n_idx", [2, 3]))
work("CreateIndex, n_idx anew", index("n", "n_idx", replaces=True))
work("CreateIndex, drop of n_idx", lambda at: lance.dataset(at).drop_index("n_idx"))
work("CreateIndex, drop of s_idx", lambda at: lance.dataset(at).drop_index("s_idx"))
work("Rewrite, 0 and 1", rewrite({0, 1}), kinds=("indexed", "stable"))
work("Rewrite, 2 and 3", rewrite({2, 3}), kinds=("indexed", "stable"))
work("ReserveFragments and Rewrite with indices", compact, alone=False, kinds=("indexed", "stable"))
work("Merge, a column", lambda at: lance.dataset(at).add_columns({"m": "n * 2"}))
work("Merge, a column of nulls", lambda at: lance.dataset(at).add_columns(pa.field("m", pa.int64())))
work("Merge, columns by fragments", merge(False))
work("Merge, columns by fragments, nulls as they were", merge(True))
work("Merge, cast of z", lambda at: lance.dataset(at).alter_columns({"path": "z", "data_type": pa.int32()}))
work("Restore", lambda at: lance.dataset(at, version=3).restore())
work("Project, the same", project(False))
work("Project, the same, nulls as they were", project(True))
through_handle("Project, without s", lambda ds: ds.drop_columns(["s"]))
through_handle("Project, without z", lambda ds: ds.drop_columns(["z"]))
through_handle("Project, n is called number", lambda ds: ds.alter_columns({"path": "n", "name": "number"}))
work("UpdateConfig, a", edit(config_updates=Map({"a": "2"})))
work("UpdateConfig, b", edit(config_updates=Map({"b": "1"})))
work("UpdateConfig, without a", edit(config_updates=Map({"a": None})))
work("UpdateConfig, only b", edit(config_updates=Map({"b": "2"}, replace=True)))
work("UpdateConfig, only c", edit(config_updates=Map({"c": "2"}, replace=True)))
work("UpdateConfig, nothing", edit())
work("UpdateConfig, table metadata owner", edit(table_metadata_updates=Map({"owner": "you"})))
work("UpdateConfig, table metadata other", edit(table_metadata_updates=Map({"other": "1"})))
work("UpdateConfig, only table metadata other", edit(table_metadata_updates=Map({"other": "1"}, replace=True)))
work("UpdateConfig, schema metadata k", edit(schema_metadata_updates=Map({"k": "w"})))
work("UpdateConfig, schema metadata other", edit(schema_metadata_updates=Map({"other": "1"})))
work("UpdateConfig, only schema metadata other", edit(schema_metadata_updates=Map({"other": "1"}, replace=True)))
work("UpdateConfig, column n", edit(field_metadata_updates={1: Map({"unit": "km"})}))
work("UpdateConfig, column s", edit(field_metadata_updates={2: Map({"unit": "m"})}))
work("DataReplacement, n of 0", replace("n", 0, pa.array([5] * ROWS, pa.int32())))
work("DataReplacement, z of 0", replace("z", 0, pa.array([5] * ROWS, pa.int64())))
work("DataReplacement, z of 2", replace("z", 2, pa.array([6] * ROWS, pa.int64())))
work("DataReplacement, s of 2", replace("s", 2, pa.array(["r"] * ROWS)))
for name, path in (("one", "/nowhere/1"), ("two", "/nowhere/2"), ("one", "/nowhere/3")):
    through_handle("UpdateBases, %s at %s" % (name, path), bases(name, path))


# --- both sides -------------------------------------------------------------------------------------------------------


class Side:
    """A table to which one piece of work after the other is committed, and taken back."""

    def __init__(self, at):
        self.at = at
        self.version = lance.dataset(at).version
        self.there = self.names()

    def names(self):
        return {(part, name) for part in ("_versions", "_transactions") for name in os.listdir(os.path.join(self.at, part))}

    @contextlib.contextmanager
    def attempt(self):
        hint = os.path.join(self.at, "_versions/latest_version_hint.json")
        before = open(hint, "rb").read() if os.path.exists(hint) else None
        yield
        for part, name in self.names() - self.there:
            os.unlink(os.path.join(self.at, part, name))
        if before is not None:
            os.unlink(hint)  # It may be a link that other tables have too.
            with open(hint, "wb") as file:
                file.write(before)


def link(source, to):
    shutil.copytree(source, to, copy_function=os.link)
    hint = os.path.join(to, "_versions/latest_version_hint.json")
    if os.path.exists(hint):
        os.unlink(hint)


class Prepared:
    """The table with a pin (pinned), with the flag only (flagged) and without (base), and each work done once on a copy of its own."""

    def __init__(self, kind, folder, wanted):
        self.folder = folder
        self.pinned, self.flagged, self.base = (os.path.join(folder, name) for name in ("pinned", "flagged", "base"))
        new_table(kind, self.pinned)
        pinctl(self.pinned, "enable", "--apply")
        pin = pinctl(self.pinned, "register", "+2h").strip()
        shutil.copytree(self.pinned, self.flagged)
        # The same version of both.
        pinctl(self.pinned, "renew", pin, "+3h")
        pinctl(self.flagged, "release", pin)
        shutil.copytree(self.flagged, self.base)
        for name in os.listdir(self.base + "/_versions"):
            if name.endswith(".manifest"):
                unflag(os.path.join(self.base, "_versions", name))
        self.version = lance.dataset(self.base).version
        self.at, self.files, self.transactions = {}, {}, {}
        for i, work in enumerate(wanted):
            at = self.at[work.name] = os.path.join(folder, "work%d" % i)
            shutil.copytree(self.base, at)
            work.prepare(at)
            done = lance.dataset(at)
            assert done.version == self.version + 1 or not work.alone and done.version > self.version, work.name
            names = [manifest(at, version)[12][0].decode() for version in range(self.version + 1, done.version + 1)]
            self.files[work.name] = [os.path.join(at, "_transactions", name) for name in names]
            self.transactions[work.name] = None if work.stale or not work.alone else done.read_transaction(done.version)
            for table in (self.pinned, self.flagged, self.base):
                bring(at, table)

    def landed(self, work):
        """(pinned, flagged, copy) with this work committed."""
        sides = []
        for name, table in (("pinned", self.pinned), ("flagged", self.flagged), ("copy", self.at[work.name])):
            at = os.path.join(self.folder, "landed-" + name)
            shutil.rmtree(at, ignore_errors=True)
            link(table, at)
            if name == "copy":
                bring(self.base, at)
            elif not (name == "pinned" and involves_rewrite(work)):
                for file in self.files[work.name]:
                    pinctl(at, "commit", "--transaction", file)
            sides.append(Side(at))
        return sides


def ask_lance(prepared, side, work):
    try:
        if work.stale:
            work.stale(lance.dataset(side.at, version=prepared.version))
        else:
            lance.LanceDataset.commit(side.at, prepared.transactions[work.name])
        return ".", ""
    except (OSError, ValueError, RuntimeError) as error:
        text = str(error)
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        text = str(error)
    if "Retryable commit conflict" in text or "Too many concurrent writers" in text:
        return "R", text
    return "X" if "Incompatible transaction" in text else "E", text


def ask_pinctl(prepared, side, work):
    status, _, err = pinctl_status(side.at, "commit", "--transaction", prepared.files[work.name][-1])
    verdict = {0: ".", 75: "R", 1: "X", 2: "E"}.get(status)
    assert verdict, "%s: exit %d: %s" % (work.name, status, err)
    return verdict, err


def compare(ours, theirs, work, kind):
    """Where the newest versions differ."""
    if work.anew:
        return []
    one, other = (readable(manifest(side.at, lance.dataset(side.at).version)) for side in (ours, theirs))
    if work.name.startswith(("Delete", "Update,")) or work.stale:
        # A transaction that Lance rebases gets another read version, and one through a handle another uuid.
        del one[12], other[12]
    if work.name.startswith(("Project", "Merge")):
        # Schema metadata is not in the transaction, or Python loses it: Lance drops the table's, or brings back what its handle read. Ours stays.
        equal(one[5], readable(manifest(ours.at, ours.version))[5], "schema metadata")
        del one[5], other[5]
    # Of a compaction that nobody asked to be recorded, pinctl keeps a record.
    one["indices"] = [entry for entry in one["indices"] if kind == "tagged" or entry[3] != [b"__lance_frag_reuse"]]
    found = ["%s: %r, Lance: %r" % (part, one[part], other[part]) for part in other if one[part] != other[part]]
    if not found and not same_rows(ours, theirs):
        found.append("rows")
    return found


def same_rows(*sides):
    one, other = (lance.dataset(side.at).to_table(with_row_id=True) for side in sides)
    return one.equals(other)


def involves_rewrite(*works):
    return any("Rewrite" in work.name for work in works)


# --- what is known of it ----------------------------------------------------------------------------------------------


def explain(ours, theirs, lance_says, pinctl_says):
    """Why pinctl says otherwise; None: it must not."""
    if ours.anew and (lance_says, pinctl_says) == (".", "R"):
        return "a transaction does not say which rows of a fragment it changes; Lance was asked through the handle that knows"
    if ours.name.startswith("CreateIndex, z") and theirs.name in ("Project, without z", "Merge, cast of z"):
        return "an index on a column that is gone fails every later compaction in Lance; pinctl refuses it"
    return None


HEAD = """\
What Lance 14.0.2 says of every pair of operations. A line a piece of work that is committed, a column for each that was committed since it was
prepared: in the same order, and on a diagonal the work itself, which is not asked. %s.
Below each table: where pinctl says otherwise, and why. Written by tests/interop/matrix.py, which compares.
""" % ", ".join("%s %s" % pair for pair in NAMES.items())


def recorded():
    """{kind: ({(ours, theirs): Lance's verdict}, {(ours, theirs): (pinctl's, reason)})}"""
    found, names = {}, list(WORK)
    with open(FILE) as file:
        for line in file.read().splitlines()[HEAD.count("\n") :]:
            if line.startswith("== "):
                verdicts, differences = found[line[3:]] = {}, {}
            elif line.startswith("  "):
                pair, verdict, reason = line[2:].split(" | ")
                differences[tuple(pair.split(" over "))] = verdict, reason
            elif line:
                name, row = line.split(" | ")
                verdicts.update(((name.rstrip(), theirs), c) for theirs, c in zip(names, row) if c != "-")
    return found


def record(kind, verdicts, differences):
    sections = recorded() if os.path.exists(FILE) else {}
    sections[kind] = verdicts, differences
    with open(FILE, "w") as file:
        file.write(HEAD)
        for kind in KINDS:
            verdicts, differences = sections.get(kind, ({}, {}))
            file.write("\n== %s\n" % kind)
            for ours in (work.name for work in WORK.values() if work.alone):
                file.write("%-50s | %s\n" % (ours, "".join(verdicts.get((ours, theirs), "-") for theirs in WORK)))
            for (ours, theirs), (verdict, reason) in differences.items():
                file.write("  %s over %s | %s | %s\n" % (ours, theirs, verdict, reason))


def pairs(kind):
    """{the work that is committed first: those that are committed after it}"""
    every = [work for work in WORK.values() if kind in work.kinds]
    first, then = every, [work for work in every if work.alone]
    if not LONG:
        chance = random.Random(kind)
        first, then = chance.sample(first, SAMPLE[0]), chance.sample(then, SAMPLE[1])
    return {theirs: [ours for ours in then if ours is not theirs] for theirs in first}


def matrix(kind):
    chosen = pairs(kind)
    used = {*chosen, *(ours for row in chosen.values() for ours in row)}
    verdicts, differences, wrong = {}, {}, []
    with scratch() as folder:
        prepared = Prepared(kind, folder, [work for work in WORK.values() if work in used])
        for theirs, row in chosen.items():
            if RECORD:
                print("# %s, over %s, %d so far that are wrong" % (kind, theirs.name, len(wrong)), "\n".join(wrong[-3:]), flush=True)
            pinned, flagged, copy = prepared.landed(theirs)
            for ours in row:
                pair = ours.name, theirs.name
                side = flagged if involves_rewrite(ours, theirs) else pinned
                with side.attempt(), copy.attempt():
                    verdicts[pair], said = ask_lance(prepared, copy, ours)
                    found, err = ask_pinctl(prepared, side, ours)
                    if found != verdicts[pair]:
                        reason = explain(ours, theirs, verdicts[pair], found)
                        differences[pair] = found, reason or "not explained"
                        if not reason:
                            wrong.append("%s over %s: pinctl %s, Lance %s\n  %s\n  %s" % (*pair, found, verdicts[pair], err, said))
                    elif found == ".":
                        wrong += ["%s over %s, %s" % (*pair, line) for line in compare(side, copy, ours, kind)]
    if RECORD:
        record(kind, verdicts, differences)
    else:
        known = recorded()[kind]
        for pair, verdict in verdicts.items():
            if (verdict, differences.get(pair)) != (known[0].get(pair), known[1].get(pair)):
                wrong.append("%s over %s: not what is in matrix.txt: %s, %s" % (*pair, verdict, differences.get(pair)))
    assert not wrong, "%d of %d:\n%s" % (len(wrong), len(verdicts), "\n".join(wrong))
