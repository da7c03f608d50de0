"""Guard tags against cleaners that know nothing of pins, and what the same cleaners do without them."""

import glob
import json
import os
import struct
import subprocess

import lance

from support import FLAG, RELEASE, ROOT, equal, pinctl, pinctl_status, rows, scratch

MAJOR = int(RELEASE.split(".")[0])
# It embeds Lance 13.
LANCEDB = "lancedb==0.40.0"
FIELD_TIMESTAMP, FIELD_WRITER_FLAGS, FIELD_PINS = 7, 10, 10395


def cases():
    yield "tags.list() shows the guard tag of a pin, and its source opens by it", listed
    if MAJOR >= 12:
        yield "a branch with a pin cannot be deleted", branch_delete
    if MAJOR < 14:
        yield "cleanup_old_versions refuses and names the tag, and the window is whole", guarded, cleanup
        yield "without the tag it deletes the window", unguarded, cleanup
        yield "after the release it cleans again", released, cleanup
    if MAJOR == 13:
        yield "optimize() of %s refuses and names the tag, and the window is whole" % LANCEDB, guarded, optimize
        yield "without the tag it deletes the window", unguarded, optimize
    if MAJOR < 12:
        yield "a commit that drops the pins is told with its version and writer", lost


# --- tables as they are weeks later -----------------------------------------------------------------------------------


def varint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 127) << shift
        shift += 7
        at += 1
        if data[at - 1] < 128:
            return value, at


def put_varint(value):
    out = b""
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def fields(data, at, end):
    """number, start, start of the payload, end of each field of a message that has only varints and lengths."""
    while at < end:
        start = at
        tag, at = varint(data, at)
        if tag & 7 == 2:
            length, value = varint(data, at)
            at = value + length
        else:
            value = at
            _, at = varint(data, at)
        yield tag >> 3, start, value, at


def manifests(at):
    """From the oldest to the head."""
    return sorted(glob.glob(os.path.join(at, "_versions", "*.manifest")), reverse=True)


def message(data):
    """Where a file's Manifest message is: start and end."""
    (prefix,) = struct.unpack_from("<q", data, len(data) - 16)
    return prefix + 4, len(data) - 16


def append_fields(path, more):
    """Fields at the end of the Manifest message count like any others, and of numbers that are there already the later one counts."""
    with open(path, "rb") as f:
        data = f.read()
    start, end = message(data)
    with open(path, "wb") as f:
        f.write(data[: start - 4] + struct.pack("<I", end - start + len(more)) + data[start:end] + more + data[end:])
    return data


def writer_flags(data):
    return [varint(data, value)[0] for number, _, value, _ in fields(data, *message(data)) if number == FIELD_WRITER_FLAGS][-1]


def set_writer_flags(flags):
    return put_varint(FIELD_WRITER_FLAGS << 3) + put_varint(flags)


def as_aware_writer(at, change):
    """Let released Lance commit to a pinned table what a writer would that knows pins: flag and pins are carried on."""
    head = manifests(at)[-1]
    with open(head, "rb") as f:
        data = f.read()
    flags = writer_flags(data)
    append_fields(head, set_writer_flags(flags & ~FLAG))
    try:
        change()
    finally:
        with open(head, "wb") as f:
            f.write(data)
    pins = b"".join(data[start:end] for number, start, _, end in fields(data, *message(data)) if number == FIELD_PINS)
    append_fields(manifests(at)[-1], set_writer_flags(flags) + pins)


def age(at, days):
    """Every version was committed that much earlier."""
    for path in manifests(at):
        with open(path, "rb") as f:
            data = bytearray(f.read())
        for number, _, value, end in list(fields(data, *message(data))):
            if number == FIELD_TIMESTAMP:
                _, _, seconds, behind = next(fields(data, value, end))
                earlier = put_varint(varint(data, seconds)[0] - days * 86400)
                assert len(earlier) == behind - seconds
                data[seconds:behind] = earlier
        with open(path, "wb") as f:
            f.write(data)


class Pinned:
    """A month-old table with a pin; every commit after its source, version 3, replaced all rows."""

    def __enter__(self):
        self.folder = scratch()
        self.at = os.path.join(self.folder.__enter__(), "t.lance")
        lance.write_dataset(rows(1, 3), self.at)
        lance.write_dataset(rows(4, 3), self.at, mode="overwrite")
        self.stale = lance.dataset(self.at)
        pinctl(self.at, "enable", "--apply")
        self.pin = pinctl(self.at, "register", "+100d", "--json")["pin"]["id"]
        self.tag = "pinfs-" + self.pin
        return self

    def __exit__(self, *what):
        self.folder.__exit__(*what)

    def grow_old(self):
        for first in (7, 10):
            as_aware_writer(self.at, lambda: lance.write_dataset(rows(first, 3), self.at, mode="overwrite"))
        age(self.at, 30)
        self.before = self.readable()
        equal(list(self.before), [1, 2, 3, 4, 5, 6], "versions")
        equal([pin["id"] for pin in pinctl(self.at, "ls", "--json")], [self.pin], "pins")
        return self

    def readable(self):
        """version -> its rows, of all versions that can be read to the last row."""
        found = {}
        for entry in lance.dataset(self.at).versions():
            found[entry["version"]] = lance.dataset(self.at, version=entry["version"]).to_table().to_pylist()
        return found


# --- cleaners: each returns what it refused with, or None ---------------------------------------------------------------


def cleanup(at):
    try:
        lance.dataset(at).cleanup_old_versions()
    except Exception as error:
        return str(error)
    return None


def optimize(at):
    """Of another package, so in its own environment."""
    venv = subprocess.run([os.path.join(ROOT, "tools/venv"), LANCEDB], stdout=subprocess.PIPE, text=True, check=True)
    code = "import lancedb, sys; lancedb.connect(sys.argv[1]).open_table('t').optimize()"
    command = [venv.stdout.strip(), "-W", "ignore", "-c", code, os.path.dirname(at)]
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True)
    return done.stderr if done.returncode else None


def guarded(clean):
    with Pinned() as table:
        table.grow_old()
        error = clean(table.at)
        assert error and table.tag in error, "not a refusal that names %s: %s" % (table.tag, error)
        equal(table.readable(), table.before, "versions after the refusal")


def unguarded(clean):
    with Pinned() as table:
        table.grow_old()
        lance.dataset(table.at).tags.delete(table.tag)
        equal(clean(table.at), None, "the refusal")
        # The pin is still there. What it is for is not.
        equal([pin["id"] for pin in pinctl(table.at, "ls", "--json")], [table.pin], "pins")
        equal(table.readable(), {6: table.before[6]}, "versions")


def released(clean):
    with Pinned() as table:
        table.grow_old()
        pinctl(table.at, "release", table.pin)
        equal(clean(table.at), None, "the refusal")
        equal(table.readable(), {7: table.before[6]}, "versions")


# --- the tag itself, and the pin without it -----------------------------------------------------------------------------


def listed():
    with Pinned() as table:
        ds = lance.dataset(table.at)
        (record,) = pinctl(table.at, "ls", "--json")
        ((name, tag),) = ds.tags.list().items()
        equal(name, table.tag, "name")
        source = manifests(table.at)[2]
        equal((tag["version"], tag["manifest_size"]), (3, os.path.getsize(source)), "version and manifest size")
        equal(tag.get("branch"), None, "branch")
        with open(os.path.join(table.at, "_refs/tags", name + ".json")) as f:
            stored = json.load(f)["metadata"]
        source = "%d:%s" % (record["source_version"], record["source_transaction_uuid"])
        equal(stored, {"pinfs.pin": table.pin, "pinfs.source": source, "pinfs.branch_id": ""}, "metadata")
        if "metadata" in tag:
            equal(sorted(tag["metadata"].items()), sorted(stored.items()), "metadata as Lance reads it")
        equal(lance.dataset(table.at, version=name).to_table(), rows(4, 3), "rows of the source by its tag")
        pinctl(table.at, "release", table.pin)
        equal(dict(ds.tags.list()), {}, "tags after the release")


def branch_delete():
    with scratch() as folder:
        at = os.path.join(folder, "t.lance")
        ds = lance.write_dataset(rows(1, 3), at)
        ds.create_branch("dev")
        pinctl(at, "enable", "--apply", branch="dev")
        pin = pinctl(at, "register", "+2h", "--json", branch="dev")["pin"]["id"]
        try:
            lance.dataset(at).branches.delete("dev")
        except Exception as error:
            assert "pinfs-" + pin in str(error), "refused, but not for the tag: %s" % error
        else:
            raise AssertionError("it was deleted")
        equal([found["id"] for found in pinctl(at, "ls", "--json", branch="dev")], [pin], "pins of the branch")
        pinctl(at, "release", pin, branch="dev")
        lance.dataset(at).branches.delete("dev")


def lost():
    with Pinned() as table:
        table.stale.insert(rows(20))
        status, _, said = pinctl_status(table.at, "renew", table.pin, "+200d")
        equal(status, 1, "exit status of renew")
        for word in ("version 5", "lance " + RELEASE):
            assert word in said, "renew does not say %r: %s" % (word, said)
        # The tag still guards, and knows the pin when the versions that had it are gone.
        lance.dataset(table.at).tags.list()[table.tag]
        (found,) = pinctl(table.at, "status", "--json")["lost"]
        equal((found["id"], found["version"], found["writer"]), (table.pin, 5, "lance " + RELEASE), "what status says")
        pinctl(table.at, "release", "--waive", table.pin)
        equal(pinctl(table.at, "status", "--json")["lost"], [], "lost pins after the waiver")
        told = [change["change"] for change in pinctl(table.at, "log", table.pin, "--json")["changes"]]
        equal(told, ["registered", "lost", "waived"], "its life")
        equal(dict(lance.dataset(table.at).tags.list()), {}, "tags after the waiver")
