"""What people do to a table, through the gateway and by Lance alone on a copy: the client is answered the same, and the same is
on the table.

With a pin, and with pins enabled and none. What a pin needs is there whatever was done: Lance 14.0.2, asked directly, reads every
version from its source on, with the same rows, and its indices answer as a scan does.
"""

import datetime
import functools
import glob
import json
import os
import re
import shutil
import subprocess
import tempfile

import lance

import deeds
import gateway_deeds
from gateway import gateway
from reader import by_index, content
from support import LONG, RELEASE, ROOT, equal, pinctl, scratch
from twins import Twins, branches, bytes_of, manifests, new_pin, pins_in, pins_of, same, same_tree

MAJOR = int(RELEASE.split(".")[0])
LATEST = "14.0.2"
DEEDS = {**deeds.DEEDS, **gateway_deeds.DEEDS, **gateway_deeds.COMPACTIONS, **gateway_deeds.REMOVALS}
GROUPS = {
    "rows": """
        append, append by one handle, append by many, append of another format, delete of rows, delete of a fragment,
        delete of all, update, update of an indexed column, update of a whole fragment, update by indices, merge insert, merge insert
        of columns, overwrite, overwrite by fragments, overwrite by another format, conflict, rebase
    """,
    "indices": "create index, replace index, extend index, drop index, optimize indices, text index, vector index",
    "columns": """
        add column, add column of nulls, cast column, rename column, drop column, drop indexed column, merge columns,
        replace data, replace indexed data, replace a column's own file, update columns, update indexed columns
    """,
    "the rest": """
        config, metadata, restore, restore of the first version, tags, branch, branch of an old version, branch deleted,
        detached commit, shallow clone, deep clone, batch, another base, metadata of fields, a version that is not there, cleanup of what is old
    """,
}
GROUPS = {group: " ".join(names.split()).split(", ") for group, names in GROUPS.items()}
STATES = {"pinned": "with a pin", "enabled": "without a pin", "plain": "where pins are not enabled"}
# What a release has no words for, or refuses by itself.
OTHER_FORMAT = {"append of another format"}
REPLACEMENT = {"replace data", "replace indexed data"}
NO_CLONE = {"deep clone"}
LACKS = {
    "8.0.1": OTHER_FORMAT | REPLACEMENT | NO_CLONE,
    "4.0.1": REPLACEMENT | NO_CLONE | {"merge columns"},
    "1.0.4": REPLACEMENT | NO_CLONE | {"merge columns", "delete of all", "detached commit", "cleanup of all but two"}
    | {name for name in gateway_deeds.COMPACTIONS if "deferred" in name},
}.get(RELEASE, set()) | {"a version that is not there", "cleanup where there is a tag"}

FORMS = (("V1", "names of V1", {"detached commit"}), ("stable", "stable row ids", set()))


def cases():
    assert sorted(sum(GROUPS.values(), [])) == sorted([*deeds.DEEDS, *gateway_deeds.DEEDS])
    for name, group in GROUPS.items():
        yield name, twice, group
    for name in gateway_deeds.COMPACTIONS:
        yield name, twice, [name]
        # There Lance records nothing, and refuses to be asked to; the first release cannot read what it makes.
        if "deferred" not in name and MAJOR >= 4:
            yield name + " with stable row ids", twice, [name], "stable"
        # The index of words of 4 answers wrongly then, without us, too.
        if "on by" in name and (MAJOR in (14, 8) or LONG and ("deferred" not in name or MAJOR > 8)):
            yield name + ", of vectors and words", twice, [name], "indices"
    for name in gateway_deeds.REMOVALS:
        if MAJOR < 4 and "two" in name:
            continue
        yield name, removed, DEEDS[name], "tag" in name
    for name, do in (("drop", lance.LanceDataset.drop), ("rm -rf", remove_all)):
        yield name, refused, do
        if LONG or MAJOR == 14:
            yield "%s, %s" % (name, STATES["enabled"]), refused, do, "", "enabled"
            yield "%s, %s" % (name, STATES["plain"]), emptied, do
    yield "migration of manifests", refused, lambda at: lance.dataset(at).migrate_manifest_paths_v2(), "V1"
    for kind, told, fails in FORMS if LONG or MAJOR == 14 else ():
        for name in GROUPS if LONG else ("rows",):
            yield "%s, %s" % (name, told), twice, GROUPS[name], kind, "pinned", DEEDS, LACKS | fails
    yield "a branch with a pin", pinned_branch
    yield "versions, tags and branches as they look", view
    for state in ("enabled", "plain"):
        for name, group in GROUPS.items():
            if LONG or MAJOR == 14 and (state == "enabled" or name == "rows"):
                yield "%s, %s" % (name, STATES[state]), twice, group, "", state
        for name in [*gateway_deeds.COMPACTIONS, *gateway_deeds.REMOVALS]:
            if LONG or MAJOR == 14 and state == "enabled":
                yield "%s, %s" % (name, STATES[state]), twice, [name], "", state


# --- tables -------------------------------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=None)
def template(kind, state):
    """A table that is made once, in a folder that is there as long as that is held."""
    folder = tempfile.TemporaryDirectory(prefix="interop-")
    at = os.path.join(folder.name, "t.lance")
    options = {"enable_stable_row_ids": kind == "stable", **({"enable_v2_manifest_paths": False} if kind == "V1" else {})}
    ds = lance.write_dataset(deeds.rows(0, 40), at, max_rows_per_file=10, **options)
    ds.create_scalar_index("id", "BTREE")
    ds.create_scalar_index("s", "BITMAP")
    if kind == "indices":
        # With more, Lance does not find its own scratch files when it extends what it has moved.
        gateway_deeds.vector_index(at, partitions=1)
        lance.dataset(at).create_scalar_index("s", "INVERTED", replace=True, name="words")
    lance.dataset(at).delete("id in (3, 17)")
    lance.dataset(at).update_config({"a": "1"})
    if state == "pinned":
        new_pin(at)
    elif state != "plain":
        pinctl(at, "enable", "--apply")
    if state == "unguarded":
        pinctl(at, "register", "+1h", "--no-guard")
    return folder, at


@functools.lru_cache(maxsize=None)
def process(release, program):
    venv = subprocess.run([os.path.join(ROOT, "tools/venv"), release], stdout=subprocess.PIPE, text=True, check=True)
    command = [venv.stdout.strip(), "-W", "ignore", os.path.join(ROOT, "tests/interop", program)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def ask(release, program, question):
    """What another release says."""
    other = process(release, program)
    other.stdin.write(json.dumps(question) + "\n")
    other.stdin.flush()
    found = json.loads(other.stdout.readline())
    if isinstance(found, str):
        raise OSError("%s, asked to %s: %s" % (release, question[0], found))
    return found


def ask_latest(*question):
    return ask(LATEST, "reader.py", question)


# --- the same, twice ----------------------------------------------------------------------------------------------------


def answer(twins, deed, at):
    try:
        return deed(at)
    except BaseException as error:
        if isinstance(error, (KeyboardInterrupt, SystemExit)):
            raise
        text = re.sub(r"[0-9a-f-]{32,}|, [^ ]*\.rs:\d+.*", "", twins.here(str(error)))
        return "%s: %s" % (type(error).__name__, text)


class Seen:
    """What a client was answered, and what it read after each deed."""

    def __init__(self, twins, names, at, source, deeds):
        ours = at == twins.ours
        self.answers, self.rows, self.found = {}, {}, {}
        base = lance.dataset(at).version
        for name in names:
            self.answers[name] = answer(twins, deeds[name], at)
            head = lance.dataset(at)
            self.found[str(head.version)] = by_index(head, scan=ours)
            for scratch in glob.glob(at + ".scratch*"):
                shutil.rmtree(scratch)
            if len(names) > 1:
                # What comes next finds the table as this did.
                lance.dataset(at, version=base).restore()
        self.head = lance.dataset(at).version
        for version in (found["version"] for found in lance.dataset(at).versions()):
            # The others are what a restore made; that they have the same files is looked at.
            if version >= source and (ours or str(version) in self.found):
                self.rows[str(version)] = content(lance.dataset(at, version=version))


def twice(names, kind="", state="pinned", deeds=DEEDS, fails=LACKS):
    """With several, the table is as it was before each."""
    moves = any(re.search("compact|optimize$", name) for name in names)
    with scratch() as folder:
        pin = state == "pinned"
        twins = Twins(template(kind, state)[1], folder)
        source = list(manifests(twins.ours))[-1] - pin
        pins = pins_of(twins.ours, source + pin)
        with gateway(twins.ours):
            ours = Seen(twins, names, twins.ours, source, deeds)
        theirs = Seen(twins, names, twins.theirs, source, deeds)
        same(ours.answers, theirs.answers, "answer")
        failed = {name for name, said in theirs.answers.items() if isinstance(said, str)}
        equal(failed, fails & set(names), "what fails")
        same(ours.found, theirs.found, "what indices answer")
        same({version: ours.rows[version] for version in theirs.rows}, theirs.rows, "rows")
        same_tree(twins, records=not (moves and pin))
        kept(twins.ours, source if pin else ours.head, ours.head, pins)
        rows, found = ask_latest("read", twins.ours, list(map(int, ours.rows)), list(map(int, ours.found)))
        same(rows, ours.rows, "rows that are read directly")
        same(found, ours.found, "what indices answer directly")
        for side, other in zip(branches(twins.ours), branches(twins.theirs)):
            versions = list(manifests(side))
            for version in versions:
                # As the version had it of which the branch was made.
                equal(pins_of(side, version), ([], state != "plain" and not side.endswith("/old")), "pins of " + side)
            same(ask_latest("read", side, versions, versions[-1:]), ask_latest("read", other, versions, versions[-1:]), side)
        if moves and pin and not failed:
            ask_latest("follow", twins.ours, source, kind == "stable")


def kept(at, source, head, pins):
    """The line of versions has no gap, and each has the pins and bit 19."""
    there = manifests(at)
    equal([v for v in there if v >= source], list(range(source, head + 1)), "versions")
    for version in range(source + 1, head + 1):
        equal(pins_of(at, version), pins, "pins of version %d" % version)
    said = [line.split("\t") for line in pinctl(at, "check").splitlines()]
    # Of versions that nobody needs Lance up to 12 removes the transactions first, and then is refused what comes next.
    equal([line for line in said if line[0] != "note" or int(line[2]) >= source], [], "check")


# --- what is removed ----------------------------------------------------------------------------------------------------


def tree(at):
    found = {os.path.relpath(os.path.join(folder, name), at) for folder, _, names in os.walk(at) for name in names}
    return {name for name in found if not name.startswith("_refs/tags/pinfs-")}


def removed(do, of_tag=False):
    """Lance removes what it would without a pin, but what the pin needs. of_tag: unless it is to stop at tagged versions."""
    with scratch() as folder:
        twins = Twins(template("", "pinned")[1], folder)
        source = list(manifests(twins.ours))[-1] - 1
        pins = pins_of(twins.ours, source + 1)
        before = tree(twins.ours)
        with gateway(twins.ours):
            said = answer(twins, do, twins.ours)
            head = lance.dataset(twins.ours).version
            seen = {str(v): content(lance.dataset(twins.ours, version=v)) for v in range(source, head + 1)}
            with open(twins.ours + "/.pinfs/retention/files") as file:
                needed = {line.rstrip("\n").split("\t")[2] for line in file}
        if of_tag:
            assert '"pinfs' in said, said
        elif MAJOR < 13:
            assert "Device or resource busy" in said, said
        else:
            equal(said[1], MAJOR < 13, "nothing failed")
        alone = answer(twins, do, twins.theirs)
        assert not isinstance(alone, str) or "tagged version" in alone, alone
        if not isinstance(said, str):
            equal((tree(twins.ours) - tree(twins.theirs)) & before - needed, set(), "what is left and nobody needs")
        kept(twins.ours, source, head, pins)
        rows, _ = ask_latest("read", twins.ours, list(map(int, seen)), [head])
        same(rows, seen, "rows that are read directly")


def refused(do, kind="", state="pinned"):
    """What would take the table away takes nothing that the pin needs, or where there is none, of the head."""
    with scratch() as folder:
        twins = Twins(template(kind, state)[1], folder)
        head = list(manifests(twins.ours))[-1]
        source = head - (state == "pinned")
        pins = pins_of(twins.ours, head)
        with gateway(twins.ours):
            said = answer(twins, do, twins.ours)
            assert isinstance(said, str) and re.search("Device or resource busy|Operation not permitted", said), said
            seen = {str(v): content(lance.dataset(twins.ours, version=v)) for v in range(source, head + 1)}
        kept(twins.ours, source, head, pins)
        rows, _ = ask_latest("read", twins.ours, list(range(source, head + 1)), [head])
        same(rows, seen, "rows that are read directly")


def emptied(do):
    """Where pins are not enabled, all goes; but not the directory, on which the gateway is."""
    with scratch() as folder:
        twins = Twins(template("", "plain")[1], folder)
        with gateway(twins.ours):
            said = answer(twins, do, twins.ours)
            assert "Device or resource busy" in said, said
            equal(tree(twins.ours), set(), "what is left")


def remove_all(at):
    done = subprocess.run(["rm", "-rf", at], stderr=subprocess.PIPE, text=True)
    return done.stderr


def pinned_branch():
    """What is written to a branch with a pin keeps it, and the branch is there until that is released."""
    with scratch() as folder:
        twins = Twins(template("", "pinned")[1], folder)
        with gateway(twins.ours):
            side = lance.dataset(twins.ours).create_branch("feat/x")
            # Lance itself does not delete a branch with a tag.
            pin = pinctl(twins.ours, "register", "+1h", "--no-guard", branch="feat/x").strip()
            side = lance.dataset(side.uri)
            source = side.version - 1
            side.insert(deeds.rows(100, 5))
            side.delete("id = 5")
            pinctl(twins.ours, "confirm", pin, branch="feat/x")
            delete = lambda at: lance.dataset(at).branches.delete("feat/x")
            said = answer(twins, delete, twins.ours)
            assert "Device or resource busy" in said, said
            seen = {str(v): content(lance.dataset(side.uri, version=v)) for v in range(source, side.version + 1)}
        rows, _ = ask_latest("read", twins.ours + "/tree/feat/x", list(map(int, seen)), [side.version])
        same(rows, seen, "rows that are read directly")
        with gateway(twins.ours):
            for one in pinctl(twins.ours, "ls", "--json", branch="feat/x"):
                pinctl(twins.ours, "release", one["id"], branch="feat/x")
            delete(twins.ours)
            equal(list(lance.dataset(twins.ours).branches.list()), [], "branches")
            assert not os.path.exists(twins.ours + "/tree/feat/x/_versions")


# --- the view -----------------------------------------------------------------------------------------------------------


def listing(at):
    found = {}
    for folder, folders, names in os.walk(at):
        folders.sort()
        for name in names + folders:
            path = os.path.join(folder, name)
            st = os.lstat(path)
            found[os.path.relpath(path, at)] = st.st_mode, st.st_size, st.st_ino, st.st_mtime_ns, st.st_uid, st.st_nlink
    return found


def history(at):
    """All that a client can say of the past of a table."""
    found = {"versions": [(v["version"], v["timestamp"], v["metadata"]) for v in lance.dataset(at).versions()]}
    for version, time, _ in found["versions"]:
        ds = lance.dataset(at, version=version)
        equal(lance.dataset(at).checkout_version(version).count_rows(), ds.count_rows(), "rows of version %d" % version)
        equal(lance.dataset(at, asof=time + datetime.timedelta(microseconds=1)).version, version, "version as of its time")
        found[version] = content(ds), ds.schema.to_string(), [f.metadata.to_json() for f in ds.get_fragments()], by_index(ds)
    found["tags"] = lance.dataset(at).tags.list()
    for name in found["tags"]:
        found["tag " + name] = content(lance.dataset(at, version=name))
    found["branches"] = lance.dataset(at).branches.list()
    for name in found["branches"]:
        side = at + "/tree/" + name
        versions = [v["version"] for v in lance.dataset(side).versions()]
        found["branch " + name] = {version: content(lance.dataset(side, version=version)) for version in versions}
    return found


def view():
    """Every version, tag and branch reads through the gateway as without it; files are the same but for a bit of manifests."""
    with scratch() as folder:
        twins = Twins(template("", "pinned")[1], folder)
        at = twins.ours
        with gateway(at):
            for name in ("append", "tags", "add column", "update", "branch", "restore", "create index"):
                DEEDS[name](at)
            through, files = history(at), listing(at)
            contents = {name: bytes_of(os.path.join(at, name)) for name in files if os.path.isfile(os.path.join(at, name))}
        same(history(at), through, "history")
        same(listing(at), files, "files")
        for name, data in contents.items():
            plain = bytes_of(os.path.join(at, name))
            if not name.endswith(".manifest") or not pins_in(plain)[1]:
                assert plain == data, name
                continue
            differ = [a ^ b for a, b in zip(plain, data) if a != b]
            assert len(plain) == len(data) and differ == [1 << 19 % 7], "%s: %r" % (name, differ)
