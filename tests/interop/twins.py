"""Two copies of a table that Lance does the same to: what is in them must be the same, but for uuids, times and what pins add.

Whatever is random or of its moment gets a name for the order in which it comes up, the same in both if they are alike.
"""

import collections
import copy
import functools
import glob
import hashlib
import json
import os
import re
import shutil
import struct
import time

from manifest import fields, section, unflag
from support import FLAG, equal, pinctl

PINS = 10395  # proto/pins.proto
UPDATE, FIELDS_MODIFIED = 108, 4  # of a transaction
RECORDS = b"__lance_frag_reuse"  # of moved rows
HINT = "latest_version_hint.json"
TIMESTAMP, OFFSETS = 7, (6, 21, 23)
RANDOM = re.compile(
    rb"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"  # a uuid
    rb"|[01]{24}[0-9a-f]{26}"  # a data file
    rb"|(?<=\x12\x0a\x10)(?s:.{16})"  # a uuid in protobuf, in a message of its own
)
NUMBER = re.compile(r"(_deletions/\d+-\d+-|_versions/d)\d+")


def bytes_of(path):
    with open(path, "rb") as file:
        return file.read()


class Twins:
    """ours is what is looked at, theirs what Lance is alone with."""

    def __init__(self, template, folder):
        # Paths are as long, since they are in manifests.
        self.ours, self.theirs = (os.path.join(folder, side, "t.lance") for side in "ab")
        for at in (self.ours, self.theirs):
            shutil.copytree(template, at)
        for name in manifests(self.theirs).values():
            unflag(name)
        for name in glob.glob(self.theirs + "/_refs/tags/pinfs-*"):
            os.unlink(name)

    def here(self, text):
        # Some releases leave out the first slash.
        return text.replace(self.ours[1:], "T").replace(self.theirs[1:], "T")


def new_pin(at):
    pinctl(at, "enable", "--apply")
    return pinctl(at, "register", "+1h").strip()


def manifests(at, branch=""):
    """{version: path}, whatever names Lance gives them."""
    found = {}
    for name in glob.glob(os.path.join(at, branch, "_versions", "[0-9]*.manifest")):
        number = os.path.basename(name).split(".")[0]
        found[2**64 - 1 - int(number) if len(number) == 20 else int(number)] = name
    return dict(sorted(found.items()))


def sections(data):
    """The manifest, its indices and the transaction that it has inline, if it has one."""
    (at,) = struct.unpack_from("<q", data, len(data) - 16)
    found = section(data, at)
    places = fields(found)
    indices = section(data, places[6][0]) if 6 in places else b""
    # Releases look for it at one place or the other; ours is at both.
    transactions = {section(data, places[number][0]) for number in (21, 23) if number in places}
    assert len(transactions) < 2, "two transactions"
    return [found, indices, *transactions]


def pins_in(manifest):
    """The pins, as they are stored, and whether bit 19 is set."""
    found = fields(sections(manifest)[0])
    return found.get(PINS, []), bool(found.get(10, [0])[-1] & FLAG)


def pins_of(at, version):
    return pins_in(bytes_of(manifests(at)[version]))


def branches(at):
    """Their directories, under the table's."""
    return [os.path.dirname(name) for name in sorted(glob.glob(at + "/tree/**/_versions", recursive=True))]


# --- what is the same ---------------------------------------------------------------------------------------------------


def is_time(value):
    now = time.time()
    return any(now - 86400 < value / unit < now + 86400 for unit in (1, 10**3, 10**6, 10**9))


def which_index(entry):
    found = fields(entry)
    return [found.get(number, []) for number in (3, 4, 5)]


def key_of(name):
    return bytes.fromhex(name.replace(b"-", b"").decode()) if len(name) == 36 else name


class Look:
    """One of the two, as it may be compared: {path: what is in it}."""

    def __init__(self, twins, at, records):
        self.twins, self.at, self.records, self.names = twins, at, records, {}
        self.found, self.hints = {}, {}
        for version, name in manifests(at).items():
            self.found["version %d" % version] = self.manifest(name)
        for branch in branches(at):
            branch = os.path.relpath(branch, at)
            for version, name in manifests(at, branch).items():
                self.found["%s, version %d" % (branch, version)] = self.manifest(name)
        files = [
            self.file(os.path.relpath(os.path.join(folder, name), at))
            for folder, _, names in os.walk(at)
            for name in names
            if not name.endswith(".manifest") or name.startswith("d")
        ]
        self.files = list(filter(None, files))

    def token(self, match):
        number = self.names.setdefault(key_of(match[0]), len(self.names) + 1)
        return b"%0*d" % (len(match[0]), number)

    def known(self, match):
        """In files, which come up in any order; some are of attempts that failed."""
        number = self.names.get(key_of(match[0]))
        return b"?" * len(match[0]) if number is None else b"%0*d" % (len(match[0]), number)

    def plain(self, data, name):
        """Names are as long as what they stand for, so that offsets stay as they are; so are the paths of both."""
        for at in (self.twins.ours, self.twins.theirs):
            # Some releases leave out the first slash.
            data = data.replace(at[1:].encode(), b"T" * (len(at) - 1))
        return RANDOM.sub(name, data)

    def manifest(self, path, name=None):
        data = bytes_of(path)
        plain = lambda value: self.plain(value, name or self.token)
        found, indices, *transactions = sections(data)
        # Names are given in this order. That of indices is of a hash in some releases, and of much in transactions it always is.
        found = fields(plain(found))
        indices = sorted(fields(indices).get(1, []), key=which_index)
        indices = [plain(entry) for entry in indices if self.records or fields(entry)[3] != [RECORDS]]
        for number in (PINS, TIMESTAMP, *OFFSETS):
            found.pop(number, None)
        found[10] = [found.get(10, [0])[-1] & ~FLAG]
        return {
            **{"field %d" % number: message(found[number]) for number in sorted(found) if found[number] != [0]},
            "indices": message(indices),
            "transaction": [transaction(plain(one)) for one in transactions],
        }

    def file(self, path):
        at = os.path.join(self.at, path)
        name = NUMBER.sub(r"\1?", RANDOM.sub(self.known, path.encode()).decode())
        if path.startswith("_refs/tags/pinfs-"):
            return None
        if name.endswith(HINT):
            # Lance up to 4 makes none, and leaves it as it was.
            with open(at) as file:
                named = json.load(file)["version"]
            self.hints[name] = named == list(manifests(self.at, os.path.dirname(os.path.dirname(path))))[-1]
            return None
        if path.startswith("_refs/"):
            with open(at) as file:
                said = json.loads(re.sub("[0-9a-f-]{32,}", "?", file.read()))
            for key in ("createAt", "createdAt", "updatedAt", *(["manifestSize"] if "branches" in path else [])):
                said.pop(key, None)
            if path.startswith("_refs/tags/"):
                branch = "tree/" + said["branch"] if said.get("branch") else ""
                tagged = manifests(self.at, branch).get(said["version"])
                said["manifestSize"] = "right" if not tagged or said["manifestSize"] == os.path.getsize(tagged) else "wrong"
            return name, json.dumps(said, sort_keys=True)
        st = os.stat(at)
        if path.endswith(".manifest"):
            said = self.manifest(at, self.known)
        elif "_transactions/" in path:
            said = transaction(self.plain(bytes_of(at), self.known))
        elif "_indices/" in path:
            said = "as Lance likes it this time"
        else:
            data = bytes_of(at)
            # Rows that are deleted are written in the order of a hash.
            said = hashlib.sha256(bytes(sorted(data)) if "_deletions/" in path else data).hexdigest()
        return name, repr(said), oct(st.st_mode), st.st_nlink, st.st_uid, st.st_gid


def message(values):
    """Of a field: its values, opened as far as they can be taken for messages; times and random numbers have no value."""
    found = [one(value) for value in values]
    # What was a map has no order.
    if len(found) > 1 and all(isinstance(value, dict) and set(value) <= {1, 2} for value in found):
        found.sort(key=repr)
    return found


def one(value):
    if isinstance(value, int):
        return "time" if is_time(value) else "random" if value >= 2**40 else value
    return opened(value)


@functools.lru_cache(maxsize=None)
def opened(value):
    """The same parts come up in every version."""
    if not value or value.isdigit():
        return value
    try:
        found = {number: message(some) for number, some in fields(value).items()}
    except (ValueError, IndexError):
        return value
    if 0 in found:
        return value
    # Seconds and nanoseconds.
    return "time" if set(found) <= {1, 2} and found.get(1) == ["time"] else found


def transaction(value):
    found = copy.deepcopy(one(value))
    for update in found.get(UPDATE, []):
        update[FIELDS_MODIFIED] = sorted(value for value in update.get(FIELDS_MODIFIED, []) for value in value)
    return sort(found)


def sort(value):
    if isinstance(value, dict):
        return {number: sort(some) for number, some in value.items()}
    if isinstance(value, list):
        return sorted(map(sort, value), key=repr)
    return value


def same(ours, theirs, what):
    """Say where they differ, not all they are."""
    if isinstance(theirs, dict) and isinstance(ours, dict):
        equal(sorted(ours, key=str), sorted(theirs, key=str), "members of " + what)
        for key in theirs:
            same(ours[key], theirs[key], "%s, %s" % (what, key))
    elif isinstance(theirs, list) and isinstance(ours, list) and len(theirs) == len(ours):
        for i, one in enumerate(theirs):
            same(ours[i], one, "%s [%d]" % (what, i))
    else:
        equal(ours, theirs, what)


def same_tree(twins, records=True):
    """records: those of moved rows as well, which pins need and Lance would not make."""
    ours, theirs = (Look(twins, at, records) for at in (twins.ours, twins.theirs))
    for name in theirs.found:
        assert name in ours.found, "it has no " + name
        same(ours.found[name], theirs.found[name], name)
    equal(list(ours.found), list(theirs.found), "versions")
    missing, more = (collections.Counter(a.files) - collections.Counter(b.files) for a, b in ((theirs, ours), (ours, theirs)))
    assert not missing and not more, "files that are missing: %s; that should not be there: %s" % (list(missing), list(more))
    assert set(theirs.hints) <= set(ours.hints), "hints: %s" % list(ours.hints)
    equal([name for name, right in ours.hints.items() if not right], [], "hints that are behind")
