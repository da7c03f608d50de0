"""
gateway.py PINFS PINCTL GENTABLE SCRATCH KIND: what one released Lance does through a gateway to a pinned table, and another on its own copy without pins
and without a gateway, in turns. KIND:

    reads          scans and takes of 1 GB, at first after the mount and then warm
    append SIZE    appends on a manifest of that size (1K, 10M, 200M)
    versions N     a list of N versions
    cleanup FILES  one that may remove none of so many files, beside one that removes them; and, on one processor, an unlink that is refused,
                   beside one that is done

Prints lines, tab between: what, medians in milliseconds of the gateway and of the copy, and of both the 10th percentiles.
"""

import glob
import json
import os
import shutil
import statistics
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../interop"))

import manifest  # noqa: E402
from committer import made  # noqa: E402

ROWS, COLUMNS, FRAGMENTS = 8_000_000, 15, 8  # 128 bytes a row, with the id

pinfs, pinctl, gentable, scratch, kind, *more = sys.argv[1:]
table, copy = scratch + "/table", scratch + "/copy"


def run(*command, **options):
    return subprocess.run(command, check=True, **options)


class Client:
    def __init__(self, at):
        self.process = subprocess.Popen(
            [sys.executable, "-W", "ignore", HERE + "/client.py", at], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def ask(self, *words):
        print(json.dumps(words), file=self.process.stdin, flush=True)
        answer = self.process.stdout.readline()
        if not answer:
            sys.exit("the client ended in %s" % words[0])
        return float(answer)

    def end(self):
        self.process.stdin.close()
        self.process.wait()


def fresh():
    for at in (table, copy):
        shutil.rmtree(at, ignore_errors=True)


def pinned():
    """Enable pins and register one on the head, which then is the only version that is needed; the copy stays as it is."""
    shutil.copytree(table, copy)
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    run(pinctl, "-d", table, "enable", "--apply", **quiet)
    run(pinctl, "-d", table, "register", "+1d", "--no-guard", **quiet)
    run("sync", "-f", table)


class Mounted:
    def __enter__(self):
        run(pinfs, table, table)
        self.clients = [Client(table), Client(copy)]
        return self.clients

    def __exit__(self, *_):
        for client in self.clients:
            client.end()
        run("fusermount3", "-u", table)


def row(what, ours, theirs):
    figures = [statistics.median(ours), statistics.median(theirs)]
    figures += [sorted(times)[len(times) // 10] for times in (ours, theirs)]
    print("\t".join([what, *("%.3f" % figure for figure in figures)]), flush=True)


def turns(clients, rounds, words):
    """Each asks in turn, and begins every other round: what words(round) says, for one after the other if it says two things."""
    times = [[], []]
    for number in range(rounds):
        order = (0, 1) if number % 2 else (1, 0)
        for side in order:
            times[side].append(clients[side].ask(*words(number)))
    return times


def reads():
    import lance
    import numpy
    import pyarrow

    chance = numpy.random.default_rng(1)

    def batches():
        step = 100_000
        for start in range(0, ROWS, step):
            columns = {"id": pyarrow.array(range(start, start + step))}
            columns.update(("c%d" % i, pyarrow.array(chance.random(step))) for i in range(COLUMNS))
            yield pyarrow.record_batch(columns)

    schema = pyarrow.schema([("id", pyarrow.int64()), *(("c%d" % i, pyarrow.float64()) for i in range(COLUMNS))])
    lance.write_dataset(
        pyarrow.RecordBatchReader.from_batches(schema, batches()), table, max_rows_per_file=ROWS // FRAGMENTS, data_storage_version="2.1"
    )
    pinned()
    # So that both are in the machine's memory before the first scan of the gateway, which only then is a matter of the gateway.
    for name in glob.glob(scratch + "/*/data/*"):
        with open(name, "rb") as file:
            while file.read(1 << 24):
                pass
    first = [[], []]
    for _ in range(3):
        with Mounted() as clients:
            for times, more in zip(first, turns(clients, 1, lambda _: ["scan"])):
                times += more
    row("scan of 1 GB, the first after the mount", *first)
    first = [[], []]
    for _ in range(5):
        with Mounted() as clients:
            for times, more in zip(first, turns(clients, 1, lambda _: ["take", 100, 1])):
                times += more
    row("take of 100 rows, the first", *first)
    with Mounted() as clients:
        turns(clients, 2, lambda _: ["scan"])
        row("scan of 1 GB", *turns(clients, 9, lambda _: ["scan"]))
        row("take of 100 rows", *turns(clients, 51, lambda number: ["take", 100, number]))
        row("take of 10,000 rows", *turns(clients, 15, lambda number: ["take", 10000, number]))


def append(size):
    rounds = {"1K": 51, "10M": 21, "200M": 5}[size]
    run(gentable, size, "0", "2", table)
    os.makedirs(table + "/data", exist_ok=True)
    pinned()
    for name in glob.glob(copy + "/_versions/*.manifest"):
        if os.path.getsize(name):
            manifest.unflag(name)
    probe = "import json, lance, sys\nprint(json.dumps(lance.dataset(sys.argv[1]).get_fragments()[0].metadata.to_json()))"
    there = json.loads(run(sys.executable, "-W", "ignore", "-c", probe, copy, stdout=subprocess.PIPE).stdout)
    # Lance writes the fragments that were there in its own way, and what is written anew is looked for.
    for at in (table, copy):
        for file in there["files"]:
            with open(os.path.join(at, "data", file["path"]), "wb") as new:
                new.truncate(file["file_size_bytes"] or 1)
    work = {}

    def words(number):
        if number not in work:
            work[number] = made(table, there, "new-%d" % number)
            made(copy, there, "new-%d" % number)
        return ["append", [work[number]]]

    with Mounted() as clients:
        # The first pays for what the others find warm.
        turns(clients, 1, lambda _: words(-1))
        row("append, manifest of %s" % size, *turns(clients, rounds, words))


def versions(number):
    run(gentable, "-d", "-a", "1", "-m", "100", "0", number, table)
    pinned()
    with Mounted() as clients:
        turns(clients, 1, lambda _: ["versions"])
        row("versions() of %s" % number, *turns(clients, 9, lambda _: ["versions"]))


def cleanup(files):
    # Versions of which each has its own files: the oldest has the pins, and so all of them are needed.
    each = str(int(files) // 20)
    run(gentable, "-d", "-a", each, "-m", each, "10", "21", table)
    shutil.copytree(table, copy)
    for name in glob.glob(copy + "/_versions/*.manifest"):
        manifest.unflag(name)
    with Mounted() as clients:
        row("cleanup of %s files, all refused; all removed" % files, [clients[0].ask("cleanup")], [clients[1].ask("cleanup")])
    # On several processors, where the scheduler puts a daemon decides more than what it does.
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    with Mounted() as clients:
        row("unlink that is refused; that is done", [clients[0].ask("unlink", "data/*")], [clients[1].ask("unlink", "data/*")])


fresh()
{"reads": reads, "append": append, "versions": versions, "cleanup": cleanup}[kind](*more)
fresh()
