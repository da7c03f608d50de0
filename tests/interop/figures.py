"""The library, pinctl and the mount say the same of random tables: what is kept, why, how much it is; and what would go
if a pin were released is what goes when it is."""

import json
import os

from histories import History
from retention import Places, dump, expand, pin_some, same
from support import LONG, equal, mounted, pinctl, pinctl_status, scratch

SEED = 20261129
ROUNDS = 60 if LONG else 4


def cases():
    for number in range(ROUNDS):
        yield "history %d: the same figures from all" % (SEED + number), history, SEED + number


def history(seed):
    with scratch() as folder:
        found = History(folder, "figures %d" % seed, others=0.2, weights={"branch": 4, "tag": 4})
        found.run(12)
        try:
            made = pin_some(found.at, found.dice)
            table = Table(found.at)
            with mounted(found.at) as mount:
                for name in table.said:
                    where = mount if name == "main" else os.path.join(mount, "branches", name.replace("/", "%2F"))
                    same_in_mount(table, name, os.path.join(where, "retention"))
            for name in table.said:
                same_from_pinctl(table, name, found.dice)
            for name in made:
                for pin in found.dice.sample(sorted(made[name]), len(made[name])):
                    release(table, name, pin)
                register(table, name)
        except Exception as error:
            raise AssertionError(str(found)) from error


class Table:
    """What the library says, as sets."""

    def __init__(self, at):
        self.at = os.path.realpath(at)
        self.look()

    def look(self):
        self.said = dump(self.at)
        self.files, self.versions, self.words = {}, {}, {}
        for name, ours in self.said.items():
            self.files[name] = {
                path: set(why.split(",")) for path, why in expand(ours["kept_files"]).items() if os.path.exists(path)
            }
            kept = ours["kept_versions"]
            self.versions[name] = {int(v): set(kept[v].split(",")) if v in kept else set() for v in ours["versions"]}

    def branch(self, name):
        return None if name == "main" else name

    def own(self, name):
        """Those in the line's own folders."""
        place = Places(self.at, self.said)
        return {path: why for path, why in self.files[name].items() if place.owner(path) == name}


def read(*path):
    with open(os.path.join(*path)) as file:
        return file.read()


def same_in_mount(table, name, where):
    ours, summary = table.said[name], json.loads(read(where, "summary"))
    totals = ours["totals"]
    for what in ("files", "bytes"):
        expected = {"kept": totals[what + "_kept"], "free": totals[what + "_free"]}
        equal(summary[what], expected, "%s in the summary of %s" % (what, name))
    kept = sum(bool(why) for why in table.versions[name].values())
    equal(summary["versions"], {"kept": kept, "free": len(table.versions[name]) - kept}, "versions in the summary")
    same(usage(summary["usage"]), ours["usage"], "usage in the summary of " + name)
    equal(summary["blocked"] is None, not ours["problems"], "blocked, of " + name)

    found = {}
    for line in read(where, "files").splitlines():
        size, why, path = line.split("\t")
        path = path[len("file://") :] if path.startswith("file://") else os.path.join(table.at, path)
        assert path not in found, "%s is there twice" % path
        equal(int(size), os.path.getsize(path), "bytes of " + path)
        found[path] = set(why.split(","))
    same(found, table.files[name], "files of " + name)

    entries = os.listdir(os.path.join(where, "snapshots"))
    versions = {int(entry): set(json.loads(read(where, "snapshots", entry))["reasons"]) for entry in entries}
    same(versions, table.versions[name], "snapshots of " + name)


def usage(said):
    figures = ("exclusive", "shared", "old")
    return {pin["id"]: {figure: pin[figure + "_bytes"] for figure in figures} for pin in said}


def same_from_pinctl(table, name, dice):
    at, branch = table.at, table.branch(name)
    said = usage(pinctl(at, "--json", "usage", branch=branch))
    same(said, table.said[name]["usage"], "usage of " + name)
    dear = [pin["exclusive"] for pin in said.values()]
    equal(dear, sorted(dear, reverse=True), "bytes that only one pin holds, in the order of pins")
    said = pinctl(at, "--json", "snapshots", "--reasons", branch=branch)
    same({v["version"]: set(v["reasons"]) for v in said}, table.versions[name], "snapshots of " + name)
    for path in dice.sample(sorted(table.own(name)), min(4, len(table.own(name)))):
        reasons = pinctl(at, "--json", "why", path, branch=branch)["reasons"]
        equal({reason["reason"] for reason in reasons}, table.files[name][path], "why " + path)
    named = [path for files in table.said[name]["versions"].values() for path in expand(files)]
    free = [path for path in named if path not in table.files[name] and os.path.exists(path)]
    for path in free[:2] + table.said[name]["orphans"][:2]:
        status, _, sentence = pinctl_status(at, "why", path, branch=branch)
        equal(status, 1, "exit status of why %s (%s)" % (path, sentence))


def goes(table, name):
    """Files that a cleanup would delete which keeps no more than it must. Each line is bytes, class and path."""
    keep_least = ("--retain", "1", "--tags", "skip", "--delete-unverified")
    lines = pinctl(table.at, "cleanup", *keep_least, branch=table.branch(name)).splitlines()
    return {os.path.join(table.at, path): int(size) for size, _, path in (line.split("\t") for line in lines)}


def release(table, name, pin):
    """What if, and then the deed. What was the head before is of the past then: its own files are left out."""
    at, branch, reason = table.at, table.branch(name), "pin:" + pin
    said = pinctl(at, "--json", "what-if", "release", pin, branch=branch)
    freed = {path for path, why in table.own(name).items() if why == {reason}}
    versions = [version for version, why in sorted(table.versions[name].items()) if why == {reason}]
    equal(said["snapshots_freed"], versions, "snapshots that would be free")
    equal(said["files_freed"], len(freed), "files that would be free")
    equal(said["bytes_freed"], sum(map(os.path.getsize, freed)), "bytes that would be free")
    before, head = table.files[name], max(table.versions[name])
    files = table.said[name]["versions"][str(head)]
    passing = {path for path, kind in files.items() if kind in ("manifest", "transaction")}
    went = goes(table, name)
    pinctl(at, "release", pin, branch=branch)
    goes_now = goes(table, name)
    equal(sorted(went.keys() - goes_now.keys()), [], "files that stay by one pin less")
    more = {path: size for path, size in goes_now.items() if path not in went and path not in passing}
    expected = {path: os.path.getsize(path) for path in freed - passing}
    equal(sorted(more.items()), sorted(expected.items()), "what a cleanup deletes by one pin less")
    table.look()
    after = table.files[name]
    gone, expected = before.keys() - after.keys(), {path for path, why in before.items() if why == {reason}}
    equal(sorted(gone - passing), sorted(expected - passing), "files that nothing on this line keeps now")
    left = before.keys() & after.keys() - passing
    same({path: after[path] for path in left}, {path: before[path] - {reason} for path in left}, "other reasons")


def register(table, name):
    """One pin more keeps what was kept."""
    before, versions = table.files[name], table.versions[name]
    pinctl(table.at, "register", "+1h", "--no-guard", branch=table.branch(name))
    table.look()
    equal(sorted(before.keys() - table.files[name].keys()), [], "files that are free by one pin more")
    lost = {version for version, why in versions.items() if why and not table.versions[name][version]}
    equal(lost, set(), "versions that are free by one pin more")
