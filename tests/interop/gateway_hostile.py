"""What is staged through a gateway and is not what Lance would write; and pinctl, which commits past it."""

import contextlib
import errno
import glob
import json
import multiprocessing
import os
import random
import shutil
import struct

import lance
from lance.fragment import write_fragments

from gateway import gateway, pinned, rows
from manifest import fields, manifest_name, section, varint
from support import LONG, equal, pinctl, pinctl_status, scratch

LINKS = 4000 if LONG else 80
# Of the fields that are put where they do not belong, each so many-th.
NTH = 1 if LONG else 7
# Messages of a manifest, by the numbers of the fields that lead to them; and of its index section.
MESSAGES = [
    (), (1,), (1, 8), (1, 10), (2,), (2, 2), (2, 3), (2, 11), (2, 11, 1), (2, 11, 4), (2, 12), (2, 13), (2, 14), (2, 16),
    (5,), (7,), (13,), (15,), (16,), (18,), (19,), (22,), (25,),
]  # fmt: skip
INDEX_MESSAGES = [(1,), (1, 1), (1, 6), (1, 10), (1, 13)]
NUMBERS = range(1, 28)
# Fields that Lance decodes and that are refused all the same, of these messages and what is in them, None: all: they name files that are not there or not
# looked at, say how long one is, or are not what stands there; or they are of tables that pinfs does not know.
REFUSED = {
    False: {(): {3}, (2,): {6, 8, 10}, (2, 2): {6}, (2, 3): None, (2, 11, 1): None, (22,): None},
    True: {(1,): {5}, (1, 1): {1}},
}  # fmt: skip
# A value of each wire type. What has a length is neither a message, nor text, nor numbers.
WIRES = {0: b"\1", 1: bytes(8), 2: b"\xff", 5: bytes(4)}


def cases():
    yield "of a damaged manifest nothing is published that Lance cannot decode, or whose files are not there", damaged
    yield "nothing is published of which Lance cannot decode a field, whatever message that is in", misshapen
    yield "one of twenty gets the version", crowd
    yield "prepared work is brought in past the gateway", brought


def name(version):
    return "%020d.manifest" % (2**64 - 1 - version)


@contextlib.contextmanager
def staged():
    """A pinned table behind a gateway, the pin, and the next version's manifest as Lance staged it, whose files are there."""
    with pinned() as (at, pin), scratch() as folder:
        copy = os.path.join(folder, "t.lance")
        shutil.copytree(at, copy)
        with gateway(copy):
            lance.write_dataset(rows(900, 10), copy, mode="append")
            version = lance.dataset(copy).version
            with open(os.path.join(copy, "_versions", name(version)), "rb") as f:
                manifest = f.read()
        for path in glob.glob(copy + "/data/*") + glob.glob(copy + "/_transactions/*"):
            to = os.path.join(at, os.path.relpath(path, copy))
            if not os.path.exists(to):
                shutil.copy(path, to)
        with gateway(at) as daemon:
            yield at, pin, manifest, version, daemon


def publish(at, manifest, version, number=0):
    """Stage it and link it: what the answer is, 0 if it is the version now."""
    to = os.path.join(at, "_versions", name(version))
    at = "%s#%d" % (to, number)
    with open(at, "wb") as f:
        f.write(manifest)
    try:
        os.link(at, to)
        return 0
    except OSError as error:
        return error.errno
    finally:
        os.unlink(at)


def spoilt(manifest):
    found = bytearray(manifest)
    way = random.random()
    at = random.randrange(len(found))
    if way < 0.7:
        for _ in range(random.choice([1, 1, 2, 8])):
            found[random.randrange(len(found))] ^= random.randrange(1, 256)
    elif way < 0.8:
        found[at:] = manifest[-16:]
    elif way < 0.9:
        found[at:at] = random.randbytes(random.randrange(1, 9))
    else:
        found[at : at + 8] = random.randbytes(8)
    return bytes(found)


def damaged():
    random.seed(1)
    with staged() as (at, pin, manifest, version, daemon):
        real = os.readlink(at + "/.pinfs/table")
        before = {v: lance.dataset(real, version=v).to_table() for v in range(1, version)}
        for number in range(LINKS):
            answer = publish(at, spoilt(manifest), version, number)
            assert daemon.poll() is None, "the daemon is gone"
            assert answer in (0, errno.EPERM, errno.EUCLEAN), errno.errorcode[answer]
            head = os.path.join(real, "_versions", name(version))
            equal(os.path.exists(head), answer == 0, "whether there is a version")
            if answer:
                continue
            try:
                lance.dataset(real)
            except Exception as error:
                # What values mean is not judged: a column of a type that there is not, say,
                assert "decode Protobuf" not in str(error), error
            pinctl(at, "confirm", pin)
            # or more deleted rows than there are rows.
            status, found, said = pinctl_status(at, "check")
            assert status == 0 or found and all("deleted rows, found" in line for line in found.splitlines()), said + found
            os.unlink(head)
        equal(publish(at, manifest, version), 0, "the answer to the one that is whole")
        for old, was in before.items():
            equal(lance.dataset(real, version=old).to_table(), was, "rows of version %d" % old)
        pinctl(at, "confirm", pin)


def put(number, payload, wire=2):
    """A field, or its length and bytes."""
    return varint_of(number << 3 | wire) + (varint_of(len(payload)) if wire == 2 else b"") + payload


def varint_of(value):
    low = value & 0x7F
    return bytes([low]) if value < 0x80 else bytes([low | 0x80]) + varint_of(value >> 7)


def graft(message, path, field):
    """The message with this field at the end of the last message that the path leads to, or of one that is new."""
    if not path:
        return message + field
    at, last = 0, (len(message), len(message), len(message))
    while at < len(message):
        began = at
        tag, at = varint(message, at)
        value, then = varint(message, at)
        end = then + value if tag & 7 == 2 else then
        if tag == path[0] << 3 | 2:
            last = began, then, end
        at = end
    began, inside, end = last
    return message[:began] + put(path[0], graft(message[inside:end], path[1:], field)) + message[end:]


def grafted(manifest, path, field, in_index):
    (body_at,) = struct.unpack_from("<q", manifest, len(manifest) - 16)
    head, body = manifest[:body_at], section(manifest, body_at)
    if in_index:
        # Behind the old one, and named by a second field 6: the last counts.
        indices = graft(section(manifest, fields(body)[6][0]), path, field)
        body += put(6, varint_of(len(head)), 0)
        head += struct.pack("<I", len(indices)) + indices
    else:
        body = graft(body, path, field)
    return head + struct.pack("<I", len(body)) + body + struct.pack("<q", len(head)) + manifest[-8:]


def opens(at, version):
    """Does Lance decode it? What it makes of the values is another question."""
    try:
        lance.dataset(at, version=version).list_indices()
    except BaseException as error:  # it panics at offsets that lead nowhere
        return "decode Protobuf" not in str(error) and "out of range" not in str(error)
    return True


def misshapen():
    tries = [(path, in_index) for in_index, paths in ((False, MESSAGES), (True, INDEX_MESSAGES)) for path in paths]
    tries = [(*one, number, wire) for one in tries for number in NUMBERS for wire in WIRES]
    with staged() as (at, pin, manifest, version, daemon):
        real = os.readlink(at + "/.pinfs/table")
        with scratch() as folder:
            plain = os.path.join(folder, "t.lance")
            shutil.copytree(real, plain)
            published = 0
            for path, in_index, number, wire in tries[::NTH]:
                other = grafted(manifest, path, put(number, WIRES[wire], wire), in_index)
                with open(manifest_name(plain, version), "wb") as f:
                    f.write(other)
                answer = publish(at, other, version)
                assert daemon.poll() is None, "the daemon is gone"
                if not answer:
                    os.unlink(manifest_name(real, version))
                where = "field %d of wire type %d in %s of %s" % (number, wire, path, "indices" if in_index else "manifest")
                assert not answer or answer in (errno.EPERM, errno.EUCLEAN), where + ": " + errno.errorcode[answer]
                numbers = REFUSED[in_index].get(path, ())
                decoded = opens(plain, version)
                assert not answer or not decoded or numbers is None or number in numbers, where + " is refused"
                assert answer or decoded, where + " is published"
                published += not answer
        assert 0 < published < len(tries[::NTH]), published
        equal(publish(at, manifest, version), 0, "the answer to the one that is whole")


def crowd():
    with staged() as (at, pin, manifest, version, _):
        with multiprocessing.get_context("fork").Pool(20) as pool:
            answers = pool.starmap(publish, [(at, manifest, version, number) for number in range(20)])
        equal(sorted(answers), [0] + 19 * [errno.EEXIST], "answers")
        equal(lance.dataset(at).count_rows(), 407, "rows")
        pinctl(at, "confirm", pin)


def fragments(at, to, first):
    """Ten rows, written there and committed nowhere, as JSON beside the table."""
    made = [fragment.to_json() for fragment in write_fragments(rows(first, 10), to)]
    with open(at + ".json", "w") as f:
        json.dump([json.loads(one) if isinstance(one, str) else one for one in made], f)
    return at + ".json"


def brought():
    with pinned() as (at, pin), gateway(at):
        count = lance.dataset(at).count_rows()
        for first, place in ((7000, at + ".scratch"), (7100, at), (7200, at + "/scratch")):
            text = fragments(at, place, first)
            pinctl(at, "commit", "--append", text, "--from", place)
            if place != at:
                equal(os.listdir(place + "/data"), [], "what is left")
            count += 10
            equal(lance.dataset(at).count_rows(), count, "rows")
        copy = at + ".copy"
        pinctl(at, "copy", copy)
        lance.write_dataset(rows(8000, 10), copy, mode="append")
        lance.dataset(copy).delete("id = 8001")
        pinctl(at, "commit", "--from-copy", copy)
        equal(lance.dataset(at).count_rows(), count + 9, "rows")
        pinctl(at, "confirm", pin)
        equal(pinctl_status(at, "check")[0], 0, "check")
