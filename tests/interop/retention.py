"""What versions refer to, what pins, tags and branches keep of it and how much that is: core against Lance's
tracked_files and sets of files, for every version and branch of the fixtures and of tables made at random; and what core
keeps no cleanup of Lance's takes for free."""

import glob
import json
import os
import random
import subprocess

import lance
import pyarrow as pa

from histories import History
from support import BUILD, LONG, copy, equal, fixtures, make, scratch

import pins
from table import Head

DUMP = os.path.join(BUILD, "tests/survey_dump")
SEED = 20261129
ROUNDS = 400 if LONG else 16
FOLDERS = ("_versions", "_transactions", "data", "_deletions", "_indices", "_fri", "_blobs")
# What Lance calls the classes of core.
KINDS = {
    "manifest": "manifest",
    "transaction": "transaction file",
    "data": "data file",
    "deletion": "deletion file",
    "index": "index file",
}


def cases():
    yield "fixtures: each version has the files that Lance says", carried
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


def expand(files):
    """{file: value} with directories as the files in them. An index that keeps everything in its entry has none."""
    found = {}
    for name, value in files.items():
        if name.endswith("/"):
            for folder, _, inside in os.walk(name):
                found.update((os.path.join(folder, file), value) for file in inside)
        elif "/_indices/" not in name or os.path.exists(name):
            found[name] = value
    return found


def tracked(ds):
    """{version: {file: kind}} as Lance says."""
    said = {}
    for row in ds.tracked_files().read_all().to_pylist():
        path = os.path.realpath(os.path.join(row["base_uri"], row["path"]))
        said.setdefault(row["version"], {})[path] = row["type"]
    return said


def open_lines(at):
    ds = lance.dataset(at)
    return {"main": ds, **{name: ds.checkout_version((name, None)) for name in ds.branches.list()}}


def same(found, expected, what):
    """Two dicts, whatever their order; only what differs is said."""
    differ = {key: (found.get(key), expected.get(key)) for key in found.keys() | expected.keys()}
    differ = {key: two for key, two in differ.items() if two[0] != two[1]}
    assert not differ, "%s (found, expected): %r" % (what, differ)


def compare(at, gutted=frozenset()):
    """
    All lines of the table. What core says, for more questions. gutted: the versions of main that Lance's cleanup left
    without their transaction files, because a branch was made from them (lance-14-cleanup D5).
    """
    said, lines = dump(at), open_lines(at)
    equal(sorted(said), sorted(lines), "branches")
    place = Places(at, lines)
    for name, line in lines.items():
        ours, theirs = said[name], tracked(line)
        equal(ours["gaps"], [], "gaps of " + name)
        equal(sorted(map(int, ours["versions"])), sorted(theirs), "versions of " + name)
        ours["files"] = {}
        for version, files in theirs.items():
            found = expand(ours["versions"][str(version)])
            ours["files"][version] = dict(found)
            # Sidecars, row maps, and indices that a branch has of another: Lance reads them, and does not name them.
            for unsaid in [path for path in found if place.unsaid(path, name) and path not in files]:
                del found[unsaid]
            what = "of %s, version %d" % (name, version)
            same({path: KINDS[kind] for path, kind in found.items()}, files, "files " + what)
    for name in lines:
        check_disk(place, name, said, gutted if name == "main" else ())
        check_kept(place, name, said)
    return said


class Places:
    """Whose a file is."""

    def __init__(self, at, names):
        self.at = os.path.realpath(at)
        self.roots = {name: self.at + ("" if name == "main" else "/tree/" + name) for name in names}

    def owner(self, path):
        """The line in a folder of whose the file is; of lines within each other's folders the inner one."""
        found = [
            name
            for name, root in self.roots.items()
            if path.startswith(root + "/") and path[len(root) + 1 :].split("/")[0] in FOLDERS
        ]
        return max(found, key=lambda name: len(self.roots[name]), default=None)

    def unsaid(self, path, name):
        return path.endswith(".blob") or "/_fri/" in path or ("/_indices/" in path and self.owner(path) != name)


def check_disk(place, name, said, gutted):
    """What versions name and what they do not are together what is there, and none is both."""
    ours = said[name]
    loose = {path for version in gutted for path in ours["files"].get(version, {}) if "/_transactions/" in path}
    equal([problem for problem in ours["problems"] if not misstamped(place, problem)], [], "problems of " + name)
    named = {path for files in ours["files"].values() for path in files if place.owner(path) == name}
    orphans = {os.path.join(place.at, path) for path in ours["orphans"]}
    needed = {path for path in expand(ours["kept_files"]) if place.owner(path) == name}
    there = {
        os.path.join(folder, file)
        for part in FOLDERS
        for folder, _, files in os.walk(os.path.join(place.roots[name], part))
        for file in files
    }
    there = {path for path in there if place.owner(path) == name}
    equal(sorted((named | needed) & orphans), [], "files that are named and are not, of " + name)
    equal(sorted(there - named - needed - orphans), [], "files that are not seen, of " + name)
    equal(sorted((named | needed | orphans) - there - loose), [], "files that are not there, of " + name)
    kept = needed & there
    equal(amounts(kept), amount(ours, "kept"), "kept of " + name)
    equal(amounts((named & there) - kept), amount(ours, "free"), "free of " + name)
    equal(amounts(orphans)[1], ours["totals"]["bytes_orphaned"], "bytes that no version names, of " + name)


def misstamped(place, problem):
    """A branch of a branch or of a clone, made by Lance 12, looks for an index there and not where that has it from."""
    name = os.path.basename(problem["file"] or "")
    elsewhere = glob.glob(os.path.dirname(place.at) + "/**/_indices/" + name, recursive=True)
    return bool(name and elsewhere) and problem["text"].endswith("_indices/%s is missing" % name)


def amounts(paths):
    return len(paths), sum(os.path.getsize(path) for path in paths if os.path.exists(path))


def amount(ours, what):
    return ours["totals"]["files_" + what], ours["totals"]["bytes_" + what]


# --- what is kept, from first principles ------------------------------------------------------------------------------


def references(at, folder):
    where = os.path.join(at, "_refs", folder)
    for name in sorted(os.listdir(where)) if os.path.isdir(where) else []:
        with open(os.path.join(where, name)) as file:
            yield name[: -len(".json")].replace("%2F", "/"), json.load(file)


def kept_for(at, name, pinned, versions):
    """{version: reasons} by pins ({id: source}), tags and the head."""
    reasons = {version: {"pin:" + pin for pin, source in pinned.items() if source <= version} for version in versions}
    reasons[max(versions)].add("head")
    for tag, content in references(at, "tags"):
        if (content.get("branch") or "main") == name and content["version"] in reasons:
            reasons[content["version"]].add("tag:" + tag)
    return reasons


def roots_of(at, name):
    """{branch: the version of `name` that it or what it was made from was made from}."""
    branches, lineage = dict(references(at, "branches")), {"main": []}

    def of(branch):
        content = branches[branch]
        if "identifier" in content:
            return content["identifier"]["version_mapping"]
        # Made by 1.0.4 or before.
        parent = content.get("parentBranch")
        return (of(parent) if parent else []) + [[content["parentVersion"], branch]]

    lineage.update((branch, of(branch)) for branch in branches)
    ours = lineage[name]
    made = {branch: theirs for branch, theirs in lineage.items() if len(theirs) > len(ours)}
    return {branch: theirs[len(ours)][0] for branch, theirs in made.items() if theirs[: len(ours)] == ours}


def check_kept(place, name, said, pinned=None):
    """Reasons of every version and file, and what each pin costs."""
    ours, at = said[name], place.at
    reasons = kept_for(at, name, pinned or {}, ours["files"])
    files, roots = {}, roots_of(at, name)
    for other in said:
        if other == name:
            continue
        needed = {path for theirs in said[other]["files"].values() for path in theirs if place.owner(path) == name}
        for path in needed:
            files.setdefault(path, set()).add("branch:" + other)
        if needed and roots.get(other) in reasons:
            reasons[roots[other]].add("branch:" + other)
    for version, why in reasons.items():
        for path in ours["files"][version] if why else []:
            files.setdefault(path, set()).update(why)
    split = lambda text: sorted(text.split(","))
    same(
        {int(version): split(text) for version, text in ours["kept_versions"].items()},
        {version: sorted(why) for version, why in reasons.items() if why},
        "reasons of versions of " + name,
    )
    kept = {path: split(text) for path, text in expand(ours["kept_files"]).items()}
    same(kept, {path: sorted(why) for path, why in files.items()}, "reasons of files of " + name)
    now = set(ours["files"][max(ours["files"])])
    for pin in pinned or {}:
        held = {path: why for path, why in files.items() if "pin:" + pin in why and place.owner(path) == name}
        alone = {path for path, why in held.items() if len(why) == 1}
        expected = {
            "exclusive": amounts(alone)[1],
            "shared": amounts(held.keys() - alone)[1],
            "old": amounts(held.keys() - now)[1],
        }
        same(ours["usage"][pin], expected, "what pin %s costs" % pin)


def pin_some(at, dice):
    """Pins on versions of every line, as if data was committed since: {line: {id: source}}."""
    made = {}
    for name, line in open_lines(at).items():
        root = os.path.join(at, "" if name == "main" else "tree/" + name)
        made[name], messages = {}, []
        versions = sorted(entry["version"] for entry in line.versions())
        for source in dice.sample(versions, min(len(versions), dice.randint(1, 3))):
            pin, message = pins.pin(source, pins.transaction_of(root, source))
            made[name][pin] = source
            messages.append(message)
        pins.publish(Head(root), messages)
    return made


def check_holes(ours, made):
    """Of the windows of which pins versions are missing: those are told, and no others. What else is told is left."""
    versions = set(map(int, ours["versions"]))
    holed = {pin for pin, source in made.items() if set(range(source, max(versions))) - versions}
    found = [problem for problem in ours["problems"] if "missing" in problem["text"] and not problem["file"]]
    equal({pin for problem in found for pin in problem["pins"]}, holed, "pins in whose windows versions are missing")
    ours["problems"] = [problem for problem in ours["problems"] if problem not in found]


def compare_pinned(at, dice, gutted=frozenset()):
    """The windows of pins, one by one and together."""
    made = pin_some(at, dice)
    said, lines = dump(at), open_lines(at)
    place = Places(at, lines)
    for name, line in lines.items():
        ours = said[name]
        check_holes(ours, made[name])
        ours["files"] = {int(version): expand(files) for version, files in ours["versions"].items()}
    for name, line in lines.items():
        check_disk(place, name, said, gutted if name == "main" else ())
        check_kept(place, name, said, made[name])
        kept = expand(said[name]["kept_files"])
        for pin, source in made[name].items():
            files = line.tracked_files(min_version=source).read_all().to_pylist()
            theirs = {os.path.realpath(os.path.join(row["base_uri"], row["path"])) for row in files}
            found = {path for path, why in kept.items() if "pin:" + pin in why.split(",")}
            found -= {path for path in found - theirs if place.unsaid(path, name)}
            equal(sorted(found ^ theirs), [], "files in the window of version %d of %s" % (source, name))


def carried():
    for fixture in fixtures():
        with copy(fixture) as at:
            try:
                compare(at)
                compare_pinned(at, random.Random(SEED))
            except Exception as error:
                raise AssertionError(fixture) from error


def made(kind):
    with scratch() as folder:
        at = os.path.join(folder, "t.lance")
        make(kind, at)
        compare(at)
        compare_pinned(at, random.Random(SEED))


# --- histories --------------------------------------------------------------------------------------------------------


def histories():
    refused = done = 0
    for number in range(ROUNDS):
        with scratch() as folder:
            history = one_history(folder, SEED + number)
        refused, done = refused + history.refused, done + history.done
    assert refused * 10 < done, "%d of %d steps were refused" % (refused, done)


def one_history(folder, seed):
    gutted = set()
    history = History(folder, seed, extra={"keep": (lambda history: keep(history, gutted), 1)})
    try:
        history.run(14)
        compare(history.at, gutted)
        compare_pinned(history.at, history.dice, gutted)
    except Exception as error:
        raise AssertionError(str(history)) from error
    return history


def keep(history, gutted):
    """Lance's own cleanup, of main, leaves the versions that core keeps for tags, branches and the head."""
    kept = dump(history.at)["main"]["kept_versions"]
    if all("identifier" in content for _, content in references(history.at, "branches")):
        lance.dataset(history.at).cleanup_old_versions(
            retain_versions=history.dice.randint(1, 4), error_if_tagged_old_versions=False
        )
        gutted.update(roots_of(history.at, "main").values())
        gone = set(map(int, kept)) - {version["version"] for version in lance.dataset(history.at).versions()}
        assert not gone, "core keeps versions %r (%r), Lance does not" % (gone, kept)


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
            version: sum(name.endswith(".blob") for name in files) for version, files in said["files"].items()
        }
        assert counts[1] == 2 and counts[2] == 4 and counts[3] in (2, 4), counts
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
