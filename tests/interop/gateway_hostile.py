"""What is staged through a gateway and is not what Lance would write; and pinctl, which commits past it."""

import contextlib
import errno
import glob
import json
import multiprocessing
import os
import random
import shutil

import lance
from lance.fragment import write_fragments

from gateway import gateway, pinned, rows
from support import LONG, equal, pinctl, pinctl_status, scratch

LINKS = 4000 if LONG else 80


def cases():
    yield "of a damaged manifest nothing is published that Lance cannot decode, or whose files are not there", damaged
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
