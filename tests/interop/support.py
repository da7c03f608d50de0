"""What the topics share: tables to work on, pinctl and the mount, what a release says about a version, and TAP.

Runs inside the environment of one release: python support.py TOPIC.
"""

import contextlib
import glob
import hashlib
import importlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback

import lance
import pyarrow as pa

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("PINFS_BUILD", os.path.join(ROOT, "build-check"))
PINCTL = os.path.join(BUILD, "tools/pinctl/pinctl")
PINFS = os.path.join(BUILD, "fs/pinfs")
FIXTURES = os.path.join(ROOT, "tests/fixtures")
RELEASE = lance.__version__
LONG = "PINFS_LONG" in os.environ
FLAG = 1 << 19
# Topics that make what Lance does not.
sys.path.insert(0, os.path.join(ROOT, "tests", "fri"))


class Skip(Exception):
    pass


# --- tables -----------------------------------------------------------------------------------------------------------


def fixtures():
    """Relative paths of all tables carried in git: RELEASE/KIND.lance."""
    found = glob.glob(os.path.join(FIXTURES, "tables/*/*.lance"))
    return sorted(os.path.relpath(path, os.path.join(FIXTURES, "tables")) for path in found)


@contextlib.contextmanager
def scratch():
    with tempfile.TemporaryDirectory(prefix="interop-") as folder:
        yield folder


@contextlib.contextmanager
def copy(fixture):
    """A copy of a fixture table to work on."""
    with scratch() as folder:
        at = os.path.join(folder, "t.lance")
        shutil.copytree(os.path.join(FIXTURES, "tables", fixture), at)
        yield at


def make(kind, at):
    """A table that names absolute paths, and so is not carried but made where it is used, by this very release."""
    command = [os.path.join(FIXTURES, "make"), "--only", kind, "--release", RELEASE, "--out", at]
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)


def rows(first, count=1):
    ids = list(range(first, first + count))
    return pa.table({"id": pa.array(ids, pa.int64()), "v": pa.array(["row %d" % i for i in ids])})


def bring(source, to):
    """Give what Lance wrote in one table, but for manifests and transactions, names in another."""
    for folder, _, names in os.walk(source):
        relative = os.path.relpath(folder, source)
        if relative.split("/")[0] in ("data", "_deletions", "_indices"):
            os.makedirs(os.path.join(to, relative), exist_ok=True)
            for name in names:
                # Not what another writer has not finished.
                if not name.startswith(".") and not os.path.exists(os.path.join(to, relative, name)):
                    os.link(os.path.join(folder, name), os.path.join(to, relative, name))


# --- our programs -----------------------------------------------------------------------------------------------------


def pinctl_status(at, *words, branch=None):
    """Exit status, what it printed, what it said on stderr."""
    command = [PINCTL, "-d", at, *(["-b", branch] if branch else []), *words]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    return done.returncode, done.stdout, done.stderr


def pinctl(at, *words, branch=None):
    """What it printed, as JSON if --json is among the words; it must succeed."""
    status, out, err = pinctl_status(at, *words, branch=branch)
    assert status == 0, "pinctl %s: exit %d: %s" % (" ".join(words), status, err or out)
    return json.loads(out) if "--json" in words else out


@contextlib.contextmanager
def mounted(at):
    """The mount point of a daemon over the table; it must end with status 0."""
    if not os.path.exists("/dev/fuse"):
        raise Skip("no /dev/fuse")
    with scratch() as mount:
        daemon = subprocess.Popen([PINFS, "-f", at, mount], stderr=subprocess.PIPE, text=True)
        try:
            until(lambda: os.path.ismount(mount) or daemon.poll() is not None, "pinfs mounts")
            yield mount
        finally:
            daemon.send_signal(signal.SIGTERM)
            said = daemon.communicate(timeout=60)[1]
        assert daemon.returncode == 0, "pinfs ended with status %d: %s" % (daemon.returncode, said)


def until(condition, what, seconds=60):
    """Wait for something another process does."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "not within %d s: %s" % (seconds, what)
        time.sleep(0.002)


# --- what Lance says --------------------------------------------------------------------------------------------------


def transaction(ds, version):
    """uuid, kind of operation and message as this release reports them; None where it has no words for the operation."""
    try:
        found = ds.read_transaction(version)
    except BaseException as error:
        # Old releases panic at operations their Python has no class for.
        if type(error).__name__ != "PanicException":
            raise
        return None
    if found is None:
        return None
    properties = getattr(found, "transaction_properties", None) or {}
    return found.uuid, type(found.operation).__name__, properties.get("__lance_commit_message")


def answers(ds):
    """All that this release says about one version: rows in order with their ids, a filter, schema, fragments, indices, transaction."""
    table = ds.to_table(with_row_id=True)
    return {
        "rows": hashlib.sha256(repr(table.to_pylist()).encode()).hexdigest(),
        "count": ds.count_rows(),
        "filter": ds.to_table(columns=["id"], filter="id = 3").to_pylist(),
        "schema": ds.schema.to_string(show_schema_metadata=True),
        "fragments": [fragment.metadata.to_json() for fragment in ds.get_fragments()],
        "indices": sorted((index["name"], index["uuid"], str(index["fragment_ids"])) for index in ds.list_indices()),
    }


def assert_refusal(error):
    """It must be Lance's own refusal to write where a flag is set that it does not know, and ours must be the flag."""
    flags = re.search(r"cannot be written by this version of Lance.*Flags: (\d+)", str(error), re.S)
    assert flags and int(flags[1]) & FLAG, "not the refusal of an unknown flag: %r" % error


def refused(function, *arguments, **options):
    try:
        function(*arguments, **options)
    except Exception as error:
        assert_refusal(error)
    else:
        raise AssertionError("it was not refused")


def equal(found, expected, what):
    if isinstance(found, dict) and isinstance(expected, dict):
        # Large answers: say only where they differ.
        equal(list(found), list(expected), "members of " + what)
        for key in found:
            equal(found[key], expected[key], "%s, %s" % (what, key))
    assert found == expected, "%s: %r, expected %r" % (what, found, expected)


# --- TAP --------------------------------------------------------------------------------------------------------------


def main(topic):
    if not os.access(PINCTL, os.X_OK):
        sys.exit("interop: %s is not built; PINFS_BUILD names the build" % PINCTL)
    cases = list(importlib.import_module(topic).cases())
    print("1..%d" % len(cases), flush=True)
    failed = 0
    for number, (name, function, *args) in enumerate(cases, 1):
        name = "%d - %s (Lance %s)" % (number, name, RELEASE)
        try:
            function(*args)
            print("ok", name, flush=True)
        except Skip as why:
            print("ok %s # skip %s" % (name, why), flush=True)
        except BaseException as error:
            # PanicException of the Rust side is none of Exception.
            if isinstance(error, (KeyboardInterrupt, SystemExit)):
                raise
            failed += 1
            print("not ok", name)
            for line in traceback.format_exc().splitlines():
                print("#", line)
            sys.stdout.flush()
    return failed > 0


if __name__ == "__main__":
    # The topics import this module by name; without this they would get a second copy, with a Skip of its own.
    sys.modules["support"] = sys.modules["__main__"]
    sys.exit(main(sys.argv[1]))
