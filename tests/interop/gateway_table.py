"""What people do to a table, through the gateway and by Lance alone on a copy: the client is answered the same, and the same is
on the table.

With a pin, and with pins enabled and none. What a pin needs is there whatever was done: Lance 14.0.2, asked directly, reads every
version from its source on, with the same rows, and its indices answer as a scan does.
"""

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
from twins import Twins, manifests, new_pin, pins_of, same, same_tree

MAJOR = int(RELEASE.split(".")[0])
LATEST = "14.0.2"
DEEDS = {**deeds.DEEDS, **gateway_deeds.DEEDS, **gateway_deeds.COMPACTIONS, **gateway_deeds.REMOVALS}
GROUPS = {
    "rows": """
        append, append by one handle, append of another format, delete of rows, delete of a fragment, delete of all,
        update, update of an indexed column, update of a whole fragment, update by indices, merge insert, merge insert
        of columns, overwrite, overwrite by fragments, overwrite by another format, conflict, rebase
    """,
    "indices": "create index, replace index, extend index, drop index, optimize indices, text index, vector index",
    "columns": """
        add column, add column of nulls, cast column, rename column, drop column, drop indexed column, merge columns,
        replace data, replace indexed data, replace a column's own file, update columns, update indexed columns
    """,
    "the rest": """
        config, metadata, restore, restore of the first version, tags, branch, branch of an old version, branch deleted,
        detached commit, shallow clone, a version that is not there, cleanup of what is old
    """,
}
GROUPS = {group: " ".join(names.split()).split(", ") for group, names in GROUPS.items()}
# What a release has no words for, or refuses by itself.
OTHER_FORMAT = {"append of another format"}
REPLACEMENT = {"replace data", "replace indexed data"}
LACKS = {
    "8.0.1": OTHER_FORMAT | REPLACEMENT,
    "4.0.1": REPLACEMENT | {"merge columns"},
    "1.0.4": REPLACEMENT | {"merge columns", "delete of all", "detached commit"},
}.get(RELEASE, set()) | {"a version that is not there"}


def cases():
    assert sorted(sum(GROUPS.values(), [])) == sorted([*deeds.DEEDS, *gateway_deeds.DEEDS])
    for pin in (True, False) if MAJOR == 14 or LONG else (True,):
        for name, group in GROUPS.items():
            yield name + ("" if pin else ", without a pin"), twice, group, "plain", pin


# --- tables -------------------------------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=None)
def template(kind, pin):
    """A table that is made once, in a folder that is there as long as that is held."""
    folder = tempfile.TemporaryDirectory(prefix="interop-")
    at = os.path.join(folder.name, "t.lance")
    ds = lance.write_dataset(deeds.rows(0, 40), at, max_rows_per_file=10, enable_stable_row_ids=kind == "stable")
    ds.create_scalar_index("id", "BTREE")
    ds.create_scalar_index("s", "BITMAP")
    lance.dataset(at).delete("id in (3, 17)")
    lance.dataset(at).update_config({"a": "1"})
    if pin:
        new_pin(at)
    else:
        pinctl(at, "enable", "--apply")
    return folder, at


@functools.lru_cache(maxsize=None)
def latest():
    """Lance 14.0.2, whatever release this is."""
    venv = subprocess.run([os.path.join(ROOT, "tools/venv"), LATEST], stdout=subprocess.PIPE, text=True, check=True)
    command = [venv.stdout.strip(), "-W", "ignore", os.path.join(ROOT, "tests/interop/reader.py")]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def read_by_latest(at, *versions):
    latest().stdin.write(json.dumps([at, *versions]) + "\n")
    latest().stdin.flush()
    found = json.loads(latest().stdout.readline())
    assert not isinstance(found, str), "direct reading: " + str(found)
    return found


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

    def __init__(self, twins, group, at, source):
        self.answers, self.rows, self.found = {}, {}, {}
        base = lance.dataset(at).version
        for name in group:
            self.answers[name] = answer(twins, DEEDS[name], at)
            head = lance.dataset(at)
            self.found[str(head.version)] = by_index(head)
            for scratch in glob.glob(at + ".scratch*"):
                shutil.rmtree(scratch)
            # What comes next finds the table as this did.
            lance.dataset(at, version=base).restore()
        self.head = lance.dataset(at).version
        for version in range(source, self.head + 1):
            self.rows[str(version)] = content(lance.dataset(at, version=version))


def twice(group, kind, pin=True):
    with scratch() as folder:
        twins = Twins(template(kind, pin)[1], folder)
        source = list(manifests(twins.ours))[-1] - pin
        before = pins_of(twins.ours, source + pin)
        with gateway(twins.ours):
            ours = Seen(twins, group, twins.ours, source)
        theirs = Seen(twins, group, twins.theirs, source)
        same(ours.answers, theirs.answers, "answer")
        equal(failed(theirs.answers), LACKS & set(group), "what fails")
        same(ours.found, theirs.found, "what indices answer")
        same(ours.rows, theirs.rows, "rows")
        same_tree(twins)
        kept(twins.ours, source, ours.head, before)
        rows, found = read_by_latest(twins.ours, list(map(int, ours.rows)), list(map(int, ours.found)))
        same(rows, ours.rows, "rows that are read directly")
        same(found, ours.found, "what indices answer directly")


def failed(answers):
    return {name for name, said in answers.items() if isinstance(said, str)}


def kept(at, source, head, pins):
    """The line of versions has no gap, and each has the pins and bit 19."""
    there = manifests(at)
    equal([v for v in there if v >= source], list(range(source, head + 1)), "versions")
    for version in range(source + 1, head + 1):
        equal(pins_of(at, version), pins, "pins of version %d" % version)
    equal(pinctl(at, "check"), "", "check")
