"""What Lance's own cleanup loses, and pinctl cleanup keeps (lance-14-cleanup: dangers): each by the table on which it does so."""

import glob
import json
import os
import shutil
import time

import lance
import pyarrow as pa
from lance import DatasetBasePath

from cleanup import CLOCK, DAY, files_of, ours
from support import equal, scratch


def cases():
    for name in DANGERS:
        yield name, danger, name


def detached(at, folder):
    """D1: started from a detached version, Lance deletes all others; here there is no such start, and it stays."""
    ds = lance.dataset(at)
    operation = lance.LanceOperation.Delete([], [], "false")
    alone = lance.LanceDataset.commit(ds, operation, read_version=ds.version, detached=True)
    ds.tags.create("alone", alone.version)


def spelled(at, folder):
    """D2: the branch was made by another spelling of the path."""
    lance.dataset("file://" + at).create_branch("dev", 2)


def nameless(at, folder):
    """D3: branches of Lance up to 1.0 have no identifier."""
    lance.dataset(at).create_branch("dev", 2)
    (name,) = glob.glob(os.path.join(at, "_refs/branches/*.json"))
    with open(name) as file:
        ref = json.load(file)
    del ref["identifier"]
    with open(name, "w") as file:
        json.dump(ref, file)


def dropped(at, folder):
    """D5: of the version that a branch hangs from Lance leaves nothing but its manifest, when the branch dropped the rest."""
    lance.write_dataset(pa.table({"a": [4]}), at, mode="append")
    ds = lance.dataset(at)
    ds.create_branch("dev", ds.version)
    branch = lance.dataset(at).checkout_version(("dev", None))
    branch.delete("a = 4")
    lance.write_dataset(pa.table({"a": [9]}), at, mode="overwrite")
    branch = lance.dataset(at).checkout_version(("dev", None))
    branch.cleanup_old_versions(retain_versions=1)


def within(at, folder):
    """D4: a branch in a folder of another, which is the one that is cleaned."""
    lance.dataset(at).create_branch("x")
    branch = lance.dataset(at).checkout_version(("x", None))
    branch.create_branch("x/data")
    lance.write_dataset(pa.table({"a": [7]}), lance.dataset(at).checkout_version(("x/data", None)), mode="overwrite")
    return "x"


def linked(at, folder):
    """D9: what is behind a link is not the table's."""
    elsewhere = os.path.join(folder, "elsewhere")
    os.makedirs(elsewhere)
    for name in ("theirs.lance", "page"):
        with open(os.path.join(elsewhere, name), "w") as file:
            file.write("theirs")
    os.symlink(elsewhere, os.path.join(at, "data/link"))
    os.makedirs(os.path.join(at, "_indices"))
    os.symlink(elsewhere, os.path.join(at, "_indices/link"))


def inside(at, folder):
    """D10, D11: what a base inside the table holds is alive; and a file of the same name in the table is another."""
    base = os.path.join(at, "data", "base")
    os.makedirs(base)
    added = DatasetBasePath(base, name="inner", is_dataset_root=False)
    lance.dataset(at).add_bases([added])
    lance.write_dataset(pa.table({"a": [5]}), lance.dataset(at), mode="append", target_bases=["inner"])
    (name,) = os.listdir(base)
    shutil.copy(os.path.join(base, name), os.path.join(at, "data", name))


def unreadable_name(at, folder):
    """D12: Lance stops there, with half of the files deleted."""
    with open(os.path.join(os.fsencode(at), b"data/bad\xff.lance"), "w") as file:
        file.write("x")


def tag_of_main(at, folder):
    """D14: it protects nothing for Lance."""
    ds = lance.dataset(at)
    ds.tags.create("keep", 2)
    name = os.path.join(at, "_refs/tags/keep.json")
    with open(name) as file:
        tag = json.load(file)
    tag["branch"] = "main"
    with open(name, "w") as file:
        json.dump(tag, file)


DANGEROUS = (detached, spelled, nameless, within, dropped, linked, inside, unreadable_name, tag_of_main)
DANGERS = {made.__name__: made for made in DANGEROUS}


def lines_of(at):
    """What Lance reads of each branch, of what it hangs from, and of each tag."""
    ds = lance.dataset(at)
    said = {"main": ds.to_table().to_pydict()}
    for name, branch in sorted(ds.branches.list().items()):
        said[name] = ds.checkout_version((name, None)).to_table().to_pydict()
        root = (branch["parent_branch"], branch["parent_version"])
        said["root of " + name] = ds.checkout_version(root).to_table().to_pydict()
    for name, tag in sorted(ds.tags.list().items()):
        said["tag " + name] = lance.dataset(at, version=tag["version"]).to_table().to_pydict()
    return said


def danger(name):
    with scratch() as folder:
        at = os.path.join(folder, "t.lance")
        for value in range(4):
            lance.write_dataset(pa.table({"a": [value]}), at, mode="overwrite")
        branch = DANGERS[name](at, folder)
        before = lines_of(at)
        CLOCK.set(time.time_ns() + 30 * DAY)
        policy = {"retain_versions": 1, "delete_unverified": True, "error_if_tagged_old_versions": False}
        outside = files_of(folder) - files_of(at)
        status, _, said = ours(at, branch, policy, "--apply")
        assert status == 0, said
        equal(lines_of(at), before, "what is there")
        equal(sorted(outside - files_of(folder)), [], "files outside the table that went")
        versions = [entry["version"] for entry in lance.dataset(at).versions()]
        assert branch or 1 not in versions, "nothing went: %r" % versions
