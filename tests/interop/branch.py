"""Pins on a branch, by pinctl and through the mount: the branch keeps its rows, and neither main nor the other branch moves."""

import json
import os
import uuid

import lance

from support import answers, equal, make, mounted, pinctl, scratch, transaction

FEAT = "feat/x"


def cases():
    yield "pinctl -b: register, renew and release on a branch", on_branch, by_pinctl
    yield "branches/feat%2Fx in the mount: mkdir, echo and rm", on_branch, by_mount


def everything(at, branch):
    """version -> what this release says of it, on one branch; main if None."""
    ds = lance.dataset(at)
    if branch:
        ds = ds.checkout_version((branch, None))
    versions = [entry["version"] for entry in ds.versions()]
    return {version: one(lance.dataset(at).checkout_version((branch, version))) for version in versions}


def one(ds):
    return {"answers": answers(ds), "transaction": transaction(ds, ds.version)}


def by_pinctl(at):
    """Run the commits, one at each step, and yield what it must be called."""
    pinctl(at, "enable", "--apply", branch=FEAT)
    yield
    pin = pinctl(at, "register", "+2h", "--json", branch=FEAT)["pin"]["id"]
    yield pin
    pinctl(at, "renew", pin, "+4h", branch=FEAT)
    yield pin
    pinctl(at, "release", pin, branch=FEAT)
    yield pin


def by_mount(at):
    pinctl(at, "enable", "--apply", branch=FEAT)
    yield
    with mounted(at) as mount:
        branch = os.path.join(mount, "branches", "feat%2Fx")
        pin = str(uuid.uuid4())
        path = os.path.join(branch, "pins", pin)

        def head():
            with open(os.path.join(branch, "head")) as f:
                return json.load(f)["version"]

        before = head()
        os.mkdir(path + ",expires_at=+2h")
        with open(path) as f:
            record = json.load(f)
        equal((record["id"], record["source_version"]), (pin, before), "record in the mount")
        equal(head(), before + 1, "head in the mount")
        equal(pinctl(at, "show", pin, "--json", branch=FEAT), record, "record by pinctl")
        equal(os.listdir(os.path.join(mount, "pins")), [], "pins of main")
        yield pin
        with open(path, "w") as f:
            f.write("+4h\n")
        yield pin
        os.unlink(path)
        equal(os.listdir(os.path.join(branch, "pins")), [], "pins of the branch")
        yield pin


def on_branch(steps):
    with scratch() as folder:
        at = os.path.join(folder, "t.lance")
        make("branches", at)
        names = (None, "dev", FEAT)
        before = {branch: everything(at, branch) for branch in names}
        old_head = max(before[FEAT])
        for count, pin in enumerate(steps(at), 1):
            after = {branch: everything(at, branch) for branch in names}
            equal(after[None], before[None], "main")
            equal(after["dev"], before["dev"], "dev")
            feat = after[FEAT]
            equal(list(feat), [*before[FEAT], *range(old_head + 1, old_head + count + 1)], "versions of " + FEAT)
            equal({version: feat[version] for version in before[FEAT]}, before[FEAT], FEAT)
            equal(feat[old_head + count]["answers"], before[FEAT][old_head]["answers"], "the new head of " + FEAT)
            _, operation, message = feat[old_head + count]["transaction"]
            equal(operation, "UpdateConfig", "operation of the new head")
            assert not pin or pin in message, "the message does not name the pin: %r" % message
        equal(count, 4, "commits")
        heads = {branch["name"]: branch["head"] for branch in pinctl(at, "branch", "ls", "--json")}
        expected = {"main": max(before[None]), "dev": max(before["dev"]), FEAT: old_head + 4}
        equal(sorted(heads.items()), sorted(expected.items()), "heads by pinctl")
