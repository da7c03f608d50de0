"""Clients of a gateway that are there longer than a pin, or come in numbers, and files that are read in other ways than by Lance."""

import datetime
import mmap
import os
import subprocess
import threading

import lance
import pyarrow as pa

import deeds
from gateway import check, gateway
from gateway_table import ask_latest
from reader import by_index, content
from support import LONG, PINFS, RELEASE, equal, pinctl, scratch
from twins import bytes_of, manifests, new_pin, pins_of

MAJOR = int(RELEASE.split(".")[0])
NOW = datetime.timedelta(0)
BRANCHES = ("a", "b/c", "d_e")
APPENDS = 100 if LONG else 8
COMMITS = 5000


def cases():
    yield "handles that were open before pins were enabled, and before each pin", before
    if MAJOR in (14, 8, 1) or LONG:
        yield "blobs, in the data", blobs, {"data_storage_version": "2.1"}
    if MAJOR == 14 or MAJOR >= 12 and LONG:
        yield "blobs, beside the data", blobs, {"data_storage_version": "2.2"}
    yield "branches by other spellings of the path, and a cleaner", spelled
    if MAJOR == 14:
        yield "names of both kinds, of a migration that was broken off", migrating
        yield "files that are mapped", mapped
        yield "branches, each with pins and writers, and a cleaner", load
    if MAJOR == 14 and LONG:
        yield "%d commits by one daemon" % COMMITS, endures


def whole(at, source, pins, branch=""):
    """Every version from the source on has the pins that were acknowledged before it, and Lance reads it directly."""
    side = os.path.join(at, "tree", branch) if branch else at
    there = [version for version in manifests(side) if version >= source]
    equal(there, list(range(source, there[-1] + 1)), "versions")
    last = set()
    for version in there[1:]:
        found, flag = pins_of(side, version)
        assert flag and last <= set(found), "version %d: %d pins, the one before %d" % (version, len(found), len(last))
        last = set(found)
    equal(sorted(pin["id"] for pin in pinctl(at, "ls", "--json", branch=branch or None)), sorted(pins), "pins")
    pinctl(at, "check")
    return ask_latest("read", side, there, there[-1:])


# --- handles ------------------------------------------------------------------------------------------------------------

WRITES = {
    "insert": lambda ds: ds.insert(deeds.rows(100, 5)),
    "delete": lambda ds: ds.delete("id = 7"),
    "update": lambda ds: ds.update({"n": "n + 1"}, where="id = 8"),
    "merge insert": lambda ds: ds.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(deeds.rows(38, 5)),
    "index": lambda ds: ds.create_scalar_index("n", "BTREE"),
    "insert again": lambda ds: ds.insert(deeds.rows(110, 5)),
    "optimize indices": lambda ds: ds.optimize.optimize_indices(),
    "deferred compaction": lambda ds: ds.optimize.compact_files(target_rows_per_fragment=20, defer_index_remap=True),
    "one more insert": lambda ds: ds.insert(deeds.rows(120, 5)),
    "compaction": lambda ds: ds.optimize.compact_files(target_rows_per_fragment=50),
    "column": lambda ds: ds.add_columns({"m": "n * 2"}),
    "config": lambda ds: ds.update_config({"b": "2"}),
    "tag": lambda ds: ds.tags.create("of a handle".replace(" ", "-"), ds.version),
    "column dropped": lambda ds: ds.drop_columns(["m"]),
}


def before():
    with scratch() as folder:
        at, pins, source, wanted = os.path.join(folder, "t.lance"), [], 0, set(range(40)) - {3, 17, 7}
        lance.write_dataset(deeds.rows(0, 40), at, max_rows_per_file=10)
        lance.dataset(at).create_scalar_index("id", "BTREE")
        lance.dataset(at).delete("id in (3, 17)")
        with gateway(at):
            ds = lance.dataset(at)
            pinctl(at, "enable", "--apply")
            ds.insert(deeds.rows(40, 3))
            for name, write in WRITES.items():
                if MAJOR < 4 and "deferred" in name:
                    continue
                ds = lance.dataset(at)
                before = ds.version
                pins.append(pinctl(at, "register", "+1h").strip())
                source = source or before
                write(ds)
                assert name == "tag" or lance.dataset(at).version > before + 1, name
            rows = {str(v): content(lance.dataset(at, version=v)) for v in manifests(at) if v >= source}
            found = by_index(lance.dataset(at))
        read, answered = whole(at, source, pins)
        equal(read, rows, "rows that are read directly")
        equal(answered[str(max(map(int, rows)))], found, "what indices answer directly")
        wanted |= {*range(38, 43), *range(100, 105), *range(110, 115), *range(120, 125)}
        equal(sorted(lance.dataset(at).to_table(columns=["id"])["id"].to_pylist()), sorted(wanted), "rows")
        ask_latest("follow", at, source, False, [8, *range(38, 43)])


# --- what a table may have ------------------------------------------------------------------------------------------------


def blob_table(first, count, options):
    values = [bytes([i % 256]) * (20 if i % 2 else 200_000) for i in range(first, first + count)]
    field = pa.field("blob", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    if options["data_storage_version"] == "2.2":
        from lance.blob import blob_array, blob_field

        field, values = blob_field("blob"), blob_array(values)
    schema = pa.schema([pa.field("id", pa.int64()), field])
    return pa.table({"id": pa.array(range(first, first + count), pa.int64()), "blob": values}, schema=schema)


def blobs_of(at, version):
    """By id: how long, and of what."""
    ds = lance.dataset(at, version=version)
    ids = ds.to_table(columns=["id"])["id"].to_pylist()
    found = [blob.readall() for blob in ds.take_blobs("blob", indices=list(range(len(ids))))]
    return {one: (len(blob), set(blob)) for one, blob in zip(ids, found)}


def blobs(options):
    with scratch() as folder:
        at = os.path.join(folder, "t.lance")
        for i in range(2):
            lance.write_dataset(blob_table(i * 4, 4, options), at, mode="append" if i else "create", **options)
        pin = new_pin(at)
        with gateway(at):
            source = lance.dataset(at).version - 1
            lance.write_dataset(blob_table(8, 4, options), at, mode="append")
            lance.dataset(at).delete("id in (1, 6)")
            lance.dataset(at).optimize.compact_files()
            lance.write_dataset(blob_table(12, 2, options), at, mode="overwrite")
            head = lance.dataset(at).version
            through = {version: blobs_of(at, version) for version in range(source, head + 1)}
            try:
                lance.dataset(at).cleanup_old_versions(older_than=NOW, delete_unverified=True, error_if_tagged_old_versions=False)
            except OSError as error:
                assert MAJOR < 13 and "resource busy" in str(error), error
            after = {version: blobs_of(at, version) for version in range(source, head + 1)}
        expected = {i: (20 if i % 2 else 200_000, {i}) for i in range(14)}
        without = lambda ids, gone: {i: expected[i] for i in ids if i not in gone}
        equal(through[source], without(range(8), ()), "blobs of the pinned version")
        equal(sorted(through[head - 1].items()), sorted(without(range(12), (1, 6)).items()), "blobs that were compacted")
        equal(through[head], without((12, 13), ()), "blobs of the head")
        equal(after, through, "blobs after a cleanup")
        equal({version: blobs_of(at, version) for version in through}, through, "blobs that are read directly")
        check(at, pin)


def migrating():
    """A migration that was broken off: Lance writes no more to such a table, and there is no gateway to it until that is finished."""
    with scratch() as folder:
        at = os.path.join(folder, "t.lance")
        for i in range(8):
            options = {"enable_v2_manifest_paths": False, "mode": "append" if i else "create"}
            lance.write_dataset(deeds.rows(i * 10, 10), at, **options)
        pin = new_pin(at)
        source = max(manifests(at)) - 1

        def rename(which):
            """As Lance does it, which now opens the table no more."""
            for version, path in manifests(at).items():
                if which(version):
                    os.rename(path, os.path.join(at, "_versions/%020d.manifest" % (2**64 - 1 - version)))

        rename(lambda version: version < 5)
        done = subprocess.run([PINFS, "-f", at, at], stderr=subprocess.PIPE, text=True)
        equal(done.returncode, 3, done.stderr)
        assert "found both" in done.stderr and "finish its migrate_manifest_paths_v2" in done.stderr, done.stderr
        rename(lambda version: version >= 5)
        with gateway(at):
            lance.write_dataset(deeds.rows(100, 10), at, mode="append")
        rows, _ = whole(at, source, [pin])
        equal([len(found) for found in rows.values()], [80, 80, 90], "rows")


def spelled():
    """What is stored as the path of main is as it was spelled, and Lance alone takes that for another table. The files stay all the same."""
    with scratch() as folder:
        at = os.path.join(folder, "a", "t.lance")
        lance.write_dataset(deeds.rows(0, 40), at, max_rows_per_file=10)
        pinctl(at, "enable", "--apply")
        os.symlink(os.path.join(folder, "a"), os.path.join(folder, "link"))
        before = os.getcwd()
        os.chdir(os.path.dirname(at))
        try:
            with gateway(at):
                rows = {}
                for name, path in {"link": folder + "/link/t.lance", "uri": "file://" + at, "relative": "t.lance"}.items():
                    lance.dataset(path).create_branch(name)
                    lance.write_dataset(deeds.rows(100, 5), path + "/tree/" + name, mode="append")
                    rows[name] = content(lance.dataset(at + "/tree/" + name))
                    equal(len(rows[name]), 45, "rows of a branch")
                lance.write_dataset(deeds.rows(0, 5), at, mode="overwrite")
                try:
                    lance.dataset(at).cleanup_old_versions(older_than=NOW, delete_unverified=True)
                except OSError as error:
                    assert MAJOR < 13 and "resource busy" in str(error), error
                equal({name: content(lance.dataset(at + "/tree/" + name)) for name in rows}, rows, "rows of branches")
            equal({name: content(lance.dataset(at + "/tree/" + name)) for name in rows}, rows, "rows that are read directly")
        finally:
            os.chdir(before)


# --- readers --------------------------------------------------------------------------------------------------------------


def mapped():
    """Also of files that are gone; of what is appended and compacted meanwhile nothing is seen."""
    with scratch() as folder:
        at = os.path.join(folder, "t.lance")
        for i in range(3):
            lance.write_dataset(deeds.rows(i * 100_000, 100_000), at, mode="append" if i else "create")
        pinctl(at, "enable", "--apply")
        plain = {name: bytes_of(os.path.join(at, "data", name)) for name in os.listdir(at + "/data")}
        with gateway(at):
            maps = {}
            for name in plain:
                with open(os.path.join(at, "data", name), "rb") as file:
                    maps[name] = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            assert maps[next(iter(plain))][:] == plain[next(iter(plain))]
            lance.dataset(at).optimize.compact_files()
            lance.dataset(at).cleanup_old_versions(older_than=NOW, delete_unverified=True)
            equal(set(plain) & set(os.listdir(at + "/data")), set(), "files that are left")
            for name, data in plain.items():
                assert maps[name][:] == data, name
                with open("/proc/self/maps") as file:
                    assert name in file.read()
                maps[name].close()
            path = os.path.join(at, "data", os.listdir(at + "/data")[0])
            with pa.memory_map(path) as file:
                assert file.read() == bytes_of(path)
            with open(path, "rb") as file:
                try:
                    mmap.mmap(os.open(path, os.O_RDWR), 0, mmap.MAP_SHARED, mmap.PROT_WRITE)
                except OSError as error:
                    equal(error.strerror, "Device or resource busy", "writing to what is mapped")
                else:
                    raise AssertionError("the head's data can be written to")


# --- many -----------------------------------------------------------------------------------------------------------------


def load():
    """On main and branches at once: appends, a compaction, pins; and all the while somebody removes whatever goes."""
    with scratch() as folder:
        at = os.path.join(folder, "t.lance")
        lance.write_dataset(deeds.rows(0, 40), at, max_rows_per_file=10)
        new_pin(at)
        lines = {"": at, **{name: at + "/tree/" + name for name in BRANCHES}}
        pins, errors, busy = {name: [] for name in lines}, [], threading.Event()
        with gateway(at):
            for name in BRANCHES:
                lance.dataset(at).create_branch(name)
            # Of an index that a branch has of main, Lance does not find what a compaction of the branch makes.
            lance.dataset(at).create_scalar_index("id", "BTREE")
            for name, side in lines.items():
                pins[name] = [one["id"] for one in pinctl(at, "ls", "--json", branch=name or None)]
                pins[name].append(pinctl(at, "register", "+1h", branch=name or None).strip())
            sources = {name: lance.dataset(side).version - 1 for name, side in lines.items()}

            def write(name, side):
                for i in range(APPENDS):
                    lance.write_dataset(deeds.rows(1000 + i, 1), side, mode="append")
                    if i % 4 == 2:
                        lance.dataset(side).optimize.compact_files(target_rows_per_fragment=20)

            def pin(name, _):
                for i in range(APPENDS // 2):
                    pins[name].append(pinctl(at, "register", "+1h", branch=name or None).strip())

            def clean(_, side):
                while not busy.is_set():
                    lance.dataset(side).cleanup_old_versions(older_than=NOW, error_if_tagged_old_versions=False)

            def start(function, *arguments):
                def run():
                    try:
                        function(*arguments)
                    except BaseException as error:
                        errors.append((function.__name__, arguments, error))

                thread = threading.Thread(target=run)
                thread.start()
                return thread

            writers = [start(function, *line) for function in (write, pin) for line in lines.items()]
            cleaners = [start(clean, *line) for line in lines.items()]
            for thread in writers:
                thread.join()
            busy.set()
            for thread in cleaners:
                thread.join()
            equal(errors, [], "errors")
            wanted = [*range(40), *range(1000, 1000 + APPENDS)]
            for name, side in lines.items():
                equal(sorted(lance.dataset(side).to_table(columns=["id"])["id"].to_pylist()), wanted, "rows of %s" % side)
            by_index(lance.dataset(at))
        for name, side in lines.items():
            rows, _ = whole(at, sources[name], pins[name], name)
            equal(len(rows[str(sources[name])]), 40, "rows of the pinned version of %s" % side)


def resident(pid):
    with open("/proc/%d/statm" % pid) as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def endures():
    """Memory and descriptors do not grow with what was done."""
    with scratch() as folder:
        at = os.path.join(folder, "t.lance")
        lance.write_dataset(deeds.rows(0, 40), at, max_rows_per_file=10)
        lance.dataset(at).create_scalar_index("id", "BTREE")
        pin = new_pin(at)
        with gateway(at) as daemon:
            seen = []
            for i in range(1, COMMITS + 1):
                lance.write_dataset(deeds.rows(1000 + i, 1), at, mode="append")
                if i % 10 == 5:
                    lance.dataset(at).optimize.compact_files()
                if i % 10 == 9:
                    # What is known of moved rows goes with them, or the table itself grows.
                    lance.write_dataset(deeds.rows(0, 40), at, mode="overwrite")
                if i % 10 == 0:
                    # The window goes on, and what was before it is removed.
                    later = pinctl(at, "register", "+1h").strip()
                    pinctl(at, "release", pin)
                    pin = later
                    lance.dataset(at).cleanup_old_versions(older_than=NOW, delete_unverified=True, error_if_tagged_old_versions=False)
                if i % (COMMITS // 10) == 0:
                    seen.append((resident(daemon.pid) >> 10, len(os.listdir("/proc/%d/fd" % daemon.pid))))
            print("# KiB resident, descriptors, every %d commits: %s" % (COMMITS // 10, seen), flush=True)
            with open("/proc/%d/maps" % daemon.pid) as file:
                sanitized = "san.so" in file.read()
            # Sanitizers keep memory themselves.
            assert sanitized or seen[-1][0] - seen[0][0] < 4096, "memory: %s" % seen
            assert seen[-1][1] <= seen[0][1] + 4, "descriptors: %s" % seen
        check(at, pin)
        equal(lance.dataset(at).count_rows(), 41, "rows")
