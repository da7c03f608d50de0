"""Every file of a window, removed or damaged by itself: it is told by name, with the pins whose windows need it."""

import os
import random
import uuid

import pins
import wire
from histories import History
from retention import dump, expand, pin_some
from support import LONG, copy, equal, make, scratch
from table import FRAGMENTS, TRANSACTION_21, TRANSACTION_23, Head

# Fields of IndexMetadata, DataFragment and DataFile.
FILES = 10
DATA_FILES, DATA_PATH, DATA_MAJOR, DATA_SIZE = 2, 1, 4, 6
HEAD = "head"
SEED = 20261129
# Between them: every kind of file, transactions that are nowhere but in their files (0.39), both ways of naming.
FIXTURES = ["0.39.0/plain", "0.39.0/btree", "4.0.1/fri", "14.0.2/fri", "14.0.2/deletions", "14.0.2/stable-row-ids"]
# Files that a run looks at, of each table.
SAMPLE = 10**6 if LONG else 10
ROUNDS = 12 if LONG else 2


def cases():
    for fixture in FIXTURES:
        yield "%s: any one file" % fixture, carried, fixture + ".lance"
    for kind in ("branches", "bases"):
        yield "%s: any one file" % kind, made, kind
    for number in range(ROUNDS):
        yield "history %d: any one file" % (SEED + number), history, SEED + number


def carried(fixture):
    with copy(fixture) as at:
        each(at, SEED)


def made(kind):
    with scratch() as folder:
        at = os.path.join(folder, "t.lance")
        make(kind, at)
        each(at, SEED)


def history(seed):
    with scratch() as folder:
        found = History(folder, seed, others=0, weights={"branch": 4})
        found.run(12)
        try:
            each(found.at, seed)
        except Exception as error:
            raise AssertionError(str(found)) from error


def each(at, seed):
    """Damage one file after the other, and mend it again."""
    dice = random.Random(seed)
    pin_some(at, dice)
    before = dump(at)
    for ours in before.values():
        equal(ours["problems"], [], "problems of a table that is whole")
    files = sorted({path for ours in before.values() for path in held(ours)})
    chosen = dice.sample(files, min(len(files), SAMPLE))
    for path in chosen:
        for damage in (remove, cut, empty, scramble):
            check(at, before, path, damage)
    equal(dump(at), before, "what is said when all is mended")


def remove(data):
    return None


def cut(data):
    return data[:-1]


def empty(data):
    return b""


def scramble(data):
    return bytes(byte ^ 0x55 for byte in data)


def held(ours):
    """{path: pins} of the files in windows."""
    found = {}
    for path, why in expand(ours["kept_files"]).items():
        pins = {reason[len("pin:") :] for reason in why.split(",") if reason.startswith("pin:")}
        if pins:
            found[path] = pins
    return found


def check(at, before, path, damage):
    expected = {name: needing(at, name, ours, path, damage) for name, ours in before.items()}
    with open(path, "rb") as file:
        data = file.read()
    times, changed = os.stat(path), damage(data)
    os.unlink(path)
    try:
        if changed is not None:
            with open(path, "wb") as file:
                file.write(changed)
        after, refusal = dump_or_refusal(at)
    finally:
        with open(path, "wb") as file:
            file.write(data)
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    for name, ours in before.items():
        if expected[name] == HEAD or after is None:
            # Its pins are not known either.
            told = refusal if after is None else after[name]["unknown"]
            assert os.path.basename(path) in told, "%s of %s: %s" % (damage.__name__, path, told)
        if expected[name] in (None, HEAD) or after is None:
            continue
        problems = after[name]["problems"]
        told = {pin for problem in problems if tells(at, ours, problem, path) for pin in problem["pins"]}
        what = "%s of %s: pins of %s that are told of it" % (damage.__name__, os.path.relpath(path, at), name)
        equal(sorted(told), sorted(expected[name]), what)


def dump_or_refusal(at):
    try:
        return dump(at), None
    except AssertionError as error:
        return None, str(error)


def tells(at, ours, problem, path):
    if problem["file"]:
        told = os.path.join(os.path.realpath(at), problem["file"])
        # Of a folder with several files the folder is told.
        return path == told or path.startswith(told + "/")
    return path.endswith(".manifest") and path in ours["versions"].get(str(problem["version"]), {})


def needing(at, name, ours, path, damage):
    """
    The pins of a line that must be told of this damage; None where nobody can know of it without reading the data itself;
    HEAD where the line cannot be read.
    """
    pins = held(ours).get(path, set())
    root = os.path.join(at, "" if name == "main" else "tree/" + name)
    if not pins:
        return pins
    if "/_versions/" in path:
        if path not in ours["versions"][str(max(map(int, ours["versions"])))]:
            return pins
        # Without the newest manifest the one before is the head, and nothing says that there was another.
        return None if damage == remove else HEAD
    if "/_transactions/" in path:
        (version,) = [int(version) for version, files in ours["versions"].items() if path in files]
        manifest = Head(root, version)
        if manifest.get(TRANSACTION_21, None) is not None or manifest.get(TRANSACTION_23, None) is not None:
            return set()
        return pins
    if damage in (remove, empty) and "/_indices/" not in path:
        return pins
    if "/_indices/" in path and damage != scramble:
        return pins if index_sized(root, ours, path) else None
    if path.endswith(".lance") and damage == cut:
        return pins if data_sized(root, ours, path) else None
    return None


def data_sized(root, ours, path):
    """Whether a manifest says how long a data file is: of the legacy format some releases tell the length of a part."""
    version = next(version for version, files in ours["versions"].items() if path in files)
    for fragment in wire.every(Head(root, int(version)).fields, FRAGMENTS):
        for file in map(wire.decode, wire.every(wire.decode(fragment), DATA_FILES)):
            if wire.first(file, DATA_PATH).decode() == os.path.basename(path):
                return wire.first(file, DATA_SIZE, 0) > 0 and wire.first(file, DATA_MAJOR, 0) > 0
    raise AssertionError("%s is in no fragment" % path)


def index_sized(root, ours, path):
    """Whether the entry of an index says how long its files are: since Lance 8."""
    folder = uuid.UUID(path[path.index("/_indices/") + len("/_indices/") :].split("/")[0])
    inside = os.path.join(path[: path.index("/_indices/")], "_indices", str(folder)) + "/"
    for version, files in ours["versions"].items():
        if inside in files:
            for entry, _ in Head(root, int(version)).entries():
                if wire.first(wire.decode(wire.first(entry, 1)), 1) == folder.bytes:
                    return bool(wire.every(entry, FILES))
    raise AssertionError("%s is in no version" % path)
