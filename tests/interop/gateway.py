"""Released Lance on a pinned table, through the gateway: writers that race, and a daemon that is killed. Each operation: gateway_table."""

import contextlib
import os
import signal
import subprocess
import threading

import lance
import pyarrow as pa

from reader import content
from support import PINFS, RELEASE, Skip, equal, pinctl, scratch, until

MAJOR = int(RELEASE.split(".")[0])


def cases():
    yield "a handle that compacted and then writes drops no record", carried
    yield "of a compaction that records nothing the daemon makes the record", unrecorded
    yield "two writers and pins that come meanwhile", race
    yield "after kill -9 nothing is lost and the next mount works", killed


@contextlib.contextmanager
def gateway(at, *options):
    if not os.path.exists("/dev/fuse"):
        raise Skip("no /dev/fuse")
    daemon = subprocess.Popen([PINFS, "-f", *options, at, at], stderr=subprocess.PIPE, text=True)
    try:
        until(lambda: os.path.ismount(at) or daemon.poll() is not None, "pinfs mounts")
        yield daemon
    finally:
        daemon.send_signal(signal.SIGTERM)
        said = daemon.communicate(timeout=60)[1]
    if daemon.returncode != -signal.SIGKILL:
        assert daemon.returncode == 0, "pinfs ended with status %d: %s" % (daemon.returncode, said)


def rows(first, count):
    return pa.table({"id": pa.array(range(first, first + count), pa.int64()), "v": ["row %d" % i for i in range(count)]})


@contextlib.contextmanager
def pinned():
    """A table with an index, deletions and a pin; its id."""
    with scratch() as folder:
        at = os.path.join(folder, "t.lance")
        for i in range(4):
            lance.write_dataset(rows(i * 100, 100), at, mode="append" if i else "create", max_rows_per_file=50)
        lance.dataset(at).create_scalar_index("id", "BTREE")
        lance.dataset(at).delete("id in (3, 77, 210)")
        pinctl(at, "enable", "--apply")
        yield at, pinctl(at, "register", "+1h").strip()


def check(at, pin):
    """The pin is there, on a head with the flag, and its window is whole."""
    pinctl(at, "confirm", pin)
    status = pinctl(at, "status", "--json")
    assert "ongoing-work-pins" in str(status), status
    pinctl(at, "check")


def unrecorded():
    with pinned() as (at, pin), gateway(at):
        before = content(lance.dataset(at))
        lance.dataset(at).optimize.compact_files(materialize_deletions_threshold=0.0)
        assert records(at), "it has no record"
        equal(content(lance.dataset(at)), before, "rows")
        check(at, pin)


def records(at):
    return [record["groups"] for record in pinctl(at, "fri", "--json")]


def carried():
    if MAJOR < 4:
        raise Skip("it records no moves")
    with pinned() as (at, pin), gateway(at):
        ds = lance.dataset(at)
        ds.optimize.compact_files(defer_index_remap=True)
        before = records(at)
        assert before, "the compaction has a record"
        ds.insert(rows(5000, 5))
        check(at, pin)
        equal(records(at), before, "records after a commit by the handle that compacted")
        equal(lance.dataset(at).to_table(filter="id = 120").num_rows, 1, "rows found by the index")


def race():
    with pinned() as (at, pin), gateway(at):
        errors = []

        def append(first):
            try:
                for i in range(20):
                    lance.write_dataset(rows(first + i, 1), at, mode="append")
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=append, args=(first,)) for first in (10000, 20000)]
        for thread in threads:
            thread.start()
        pins = [pinctl(at, "register", "+1h").strip() for _ in range(10)]
        for thread in threads:
            thread.join()
        equal(errors, [], "errors of writers")
        found = lance.dataset(at).to_table(filter="id >= 10000")["id"].to_pylist()
        equal(sorted(found), list(range(10000, 10020)) + list(range(20000, 20020)), "rows of both writers")
        for one in [pin, *pins]:
            check(at, one)


def killed():
    with pinned() as (at, pin):
        acknowledged = []
        for turn in range(3):
            with gateway(at) as daemon:
                killer = threading.Timer(0.1 + 0.07 * turn, daemon.kill)
                killer.start()
                try:
                    for i in range(1000):
                        lance.write_dataset(rows(10000 * (turn + 1) + i, 1), at, mode="append")
                        acknowledged.append(10000 * (turn + 1) + i)
                except BaseException as error:
                    # In whatever words Lance has for it, a panic of the Rust side among them.
                    if isinstance(error, (KeyboardInterrupt, SystemExit)):
                        raise
                killer.join()
            # Threads of Lance may have something open still.
            unmount = lambda: subprocess.run(["fusermount3", "-u", at], stderr=subprocess.DEVNULL).returncode == 0
            until(unmount, "what was killed is unmounted")
            check(at, pin)
        found = set(lance.dataset(at).to_table(filter="id >= 10000")["id"].to_pylist())
        assert found >= set(acknowledged), "rows that were acknowledged and are gone: %r" % (set(acknowledged) - found)
