"""
committer.py PINCTL TABLE COPY ROUNDS KIND: commit the same prepared work, in turns, by pinctl to a pinned table and by Lance to its copy, which is made
here. KIND: append, one fragment; rewrite, a compaction of 100 groups, which pinctl records. Prints a line: median and 10th percentile in ms of pinctl,
the same of Lance, and the most memory that pinctl had, in KiB.

committer.py COPY: the side of Lance, in one process with one handle: says what fragments there are, commits the work of each line, and answers with the
time it took.
"""

import glob
import json
import os
import shutil
import statistics
import subprocess
import sys
import time

GROUPS = 100
MOST = 2500  # fragments that are asked for: enough for the rounds

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../interop"))


def peer(copy):
    import lance

    ds = lance.dataset(copy)
    print(json.dumps([fragment.metadata.to_json() for fragment in ds.get_fragments()[:MOST]]), flush=True)

    def fragments(texts):
        return [lance.fragment.FragmentMetadata.from_json(json.dumps(text)) for text in texts]

    for line in sys.stdin:
        work = json.loads(line)
        if "original_fragments" in work[0]:
            groups = [
                lance.LanceOperation.RewriteGroup(fragments(one["original_fragments"]), fragments(one["new_fragments"]))
                for one in work
            ]
            operation = lance.LanceOperation.Rewrite(groups, [])
        else:
            operation = lance.LanceOperation.Append(fragments(work))
        began = time.perf_counter()
        ds = lance.LanceDataset.commit(ds, operation, read_version=ds.version)
        print(time.perf_counter() - began, flush=True)


def run(command):
    """Seconds, and the most memory in KiB, of which a small process like this one is the least that can be told."""
    began = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = status
    if status != 0:
        sys.exit("it failed: " + " ".join(command))
    return time.perf_counter() - began, usage.ru_maxrss


def manifests(at):
    return sorted(name for name in glob.glob(at + "/_versions/*.manifest") if os.path.getsize(name))


def made(at, old, name):
    """A new fragment like an old one, of files that are there."""
    files = [dict(file, path="%s-%d.lance" % (name, i)) for i, file in enumerate(old["files"])]
    for file in files:
        with open(os.path.join(at, "data", file["path"]), "wb") as new:
            new.truncate(file["file_size_bytes"] or 1)
    return dict(old, id=0, files=files)


def work_of(kind, at, there, number, version):
    if kind == "append":
        return [made(at, there[0], "new-%d" % number)]
    parts = {"metrics": {}, "read_version": version, "row_addrs": None}
    return [
        dict(parts, original_fragments=[old], new_fragments=[made(at, old, "new-%d-%d" % (number, i))])
        for i, old in enumerate(there[GROUPS * number : GROUPS * number + GROUPS])
    ]


def main(pinctl, at, copy, rounds, kind):
    os.makedirs(at + "/data", exist_ok=True)
    shutil.copytree(at, copy)
    subprocess.run([sys.executable, "-c", "import sys, manifest\nfor name in sys.argv[1:]: manifest.unflag(name)", *manifests(copy)],
                   env=dict(os.environ, PYTHONPATH=sys.path[0]), check=True)  # fmt: skip
    lance = subprocess.Popen(
        [sys.executable, "-W", "ignore", __file__, copy], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    there = json.loads(lance.stdout.readline())
    status = subprocess.run([pinctl, "-d", at, "status", "--json"], stdout=subprocess.PIPE, check=True).stdout
    version = json.loads(status)["version"]
    ours, theirs, memory = [], [], 0
    for number in range(int(rounds) + 1):
        work = work_of(kind, at, there, number, version + number)
        with open(copy + ".json", "w") as file:
            json.dump(work, file)
        took, kib = run([pinctl, "-d", at, "commit", "--" + kind, copy + ".json"])
        print(json.dumps(work), file=lance.stdin, flush=True)
        answer = float(lance.stdout.readline())
        # The first turn pays for what the others find warm.
        if number:
            ours.append(took)
            theirs.append(answer)
            memory = max(memory, kib)
        # All of them would fill the disk. The last but one is what was read.
        for table in (at, copy):
            for name in manifests(table)[2:-1]:
                os.unlink(name)
    lance.stdin.close()
    lance.wait()
    for times in (ours, theirs):
        times.sort()
        print("%.3f %.3f" % (statistics.median(times) * 1000, times[len(times) // 10] * 1000), end=" ")
    print(memory)


if __name__ == "__main__":
    peer(sys.argv[1]) if len(sys.argv) == 2 else main(*sys.argv[1:])
