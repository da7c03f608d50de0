"""A table with pins reads as it did without: at the head and at every version, before, between and after pin commits."""

import os
import re

import lance

from support import FIXTURES, answers, copy, equal, fixtures, make, pinctl, scratch, transaction


def cases():
    for fixture in fixtures():
        yield "%s reads the same after each pin commit" % fixture, carried, fixture
    for kind in ("clone", "bases"):
        yield "%s, whose files lie elsewhere, reads the same after each pin commit" % kind, made, kind


def everything(at):
    """Answers for the attached versions, and for whatever else can be named: detached versions and tags."""
    ds = lance.dataset(at)
    versions = {entry["version"]: one(at, entry["version"]) for entry in ds.versions()}
    names = sorted(re.findall(r"d(\d+)\.manifest", " ".join(os.listdir(os.path.join(at, "_versions")))))
    others = {"detached " + number: one(at, int(number)) for number in names}
    for name, tag in sorted(ds.tags.list().items()):
        if name.startswith("pinfs-"):
            continue  # a pin's guard tag: guard.py
        others["tag " + name] = {"ref": str(tag), **one(at, name)}
    return versions, others


def one(at, version):
    ds = lance.dataset(at, version=version)
    return {"answers": answers(ds), "transaction": transaction(ds, ds.version)}


def carried(fixture):
    original = os.path.join(FIXTURES, "tables", fixture)
    with copy(fixture) as at:
        unchanged(at, everything(original))


def made(kind):
    with scratch() as folder:
        at = os.path.join(folder, "t.lance")
        make(kind, at)
        unchanged(at, everything(at))


def unchanged(at, before):
    old_head = max(before[0])
    commits = {}
    pin = None
    for words in (["enable", "--apply"], ["register", "+2h"], ["renew", "PIN", "+4h"], ["release", "PIN"]):
        pinctl(at, *[pin if word == "PIN" else word for word in words])
        status = pinctl(at, "status", "--json")
        if words[0] == "register":
            (record,) = pinctl(at, "ls", "--json")
            pin = record["id"]
        commits[status["version"]] = status["transaction"], status["message"]
        if words[0] != "enable":
            assert pin in status["message"], "the message does not name the pin: %r" % status["message"]
            compare(at, before, old_head, commits)
    equal(sorted(commits), list(range(old_head + 1, old_head + 5)), "versions of the pin commits")


def compare(at, before, old_head, commits):
    head = lance.dataset(at)
    equal(head.version, max(commits), "version opened")
    equal(head.latest_version, max(commits), "latest_version")

    versions, others = everything(at)
    equal(others, before[1], "tags and detached versions")
    equal(list(versions), [*before[0], *commits], "versions")
    for version, said in before[0].items():
        equal(versions[version], said, "version %s" % version)
    for version, (uuid, message) in commits.items():
        equal(versions[version]["answers"], before[0][old_head]["answers"], "version %d" % version)
        equal(versions[version]["transaction"], (uuid, "UpdateConfig", message), "the transaction of version %d" % version)
