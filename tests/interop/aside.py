"""While a cleanup is at work, or was killed, what it put aside is in nobody's way: Lance opens the table, writes to it, and migrates its names."""

import os
import subprocess

import lance

from support import PINCTL, equal, pinctl, rows, scratch, until


def cases():
    for v2 in (False, True):
        yield "a table with names of scheme V%d" % (v2 + 1), half_cleaned, v2


def aside(at):
    return [name for name in os.listdir(at + "/_versions") if name.startswith(".tmp-removed-")]


def half_cleaned(v2):
    with scratch() as folder:
        at = os.path.join(folder, "t.lance")
        for row in range(6):
            mode = "overwrite" if row else "create"
            lance.write_dataset(rows(row), at, mode=mode, enable_v2_manifest_paths=v2)
        # One file a second: it has much to do when it is killed.
        cleaner = subprocess.Popen([PINCTL, "-d", at, "cleanup", "--retain", "1", "--apply", "--rate", "1"], stdout=subprocess.DEVNULL)
        until(lambda: len(aside(at)) == 5 or cleaner.poll() is not None, "pinctl puts manifests aside")
        cleaner.kill()
        cleaner.wait()
        equal(len(aside(at)), 5, "manifests aside")

        ds = lance.dataset(at)
        equal([entry["version"] for entry in ds.versions()], [6], "versions")
        equal(ds.to_table().column("id").to_pylist(), [5], "rows")
        ds.migrate_manifest_paths_v2()
        equal(lance.write_dataset(rows(6), at, mode="append").version, 7, "the next version")
        equal(len(aside(at)), 5, "manifests aside")

        pinctl(at, "cleanup", "--before-version", "1", "--apply")
        equal(aside(at), [], "manifests aside")
        equal(len(os.listdir(at + "/data")), 2, "data files")
        equal(sorted(lance.dataset(at).to_table().column("id").to_pylist()), [5, 6], "rows")
