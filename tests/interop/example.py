"""docs/index-build.md and the README's table that Lance goes on writing: what they say is run, and comes out as they say."""

import os
import re
import subprocess
import sys

import lance
import pyarrow as pa

from support import PINCTL, PINFS, ROOT, Skip, equal, pinctl, scratch

PAGE = os.path.join(ROOT, "docs/index-build.md")


def cases():
    yield "the index build of docs/index-build.md", follow
    yield "the README's lines that Lance goes on writing", goes_on


def follow():
    with open(PAGE) as file:
        blocks = re.findall(r"^```(sh|python)\n(.*?)^```$", file.read(), re.S | re.M)
    assert len(blocks) > 10, "%d blocks" % len(blocks)
    with scratch() as folder:
        environment = dict(os.environ, PATH=os.path.dirname(PINCTL) + ":" + os.environ["PATH"])
        at = os.path.join(folder, "t.lance")
        for language, text in blocks:
            command = ["bash", "-euo", "pipefail", "-c", text] if language == "sh" else [sys.executable, "-W", "ignore", "-c", text]
            done = subprocess.run(command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            assert done.returncode == 0, "exit %d of:\n%s\n%s%s" % (done.returncode, text, done.stdout, done.stderr)
            if "commit --rewrite" in text:
                judge(at, open(os.path.join(folder, "pin")).read().strip(), "pins")
        judge(at, None, "indices")


def judge(at, pin, needed_by):
    """The one record is there, and who needs it."""
    (record,) = pinctl(at, "fri", "--json")
    assert record["needed_by"][needed_by], record
    equal([one["id"] for one in pinctl(at, "ls", "--json")], [pin] if pin else [], "pins")


def goes_on():
    if not os.path.exists("/dev/fuse"):
        raise Skip("no /dev/fuse")
    with open(os.path.join(ROOT, "README.md")) as file:
        (text,) = re.findall(r"^## Lance goes on writing\n.*?^```console\n(.*?)^```$", file.read(), re.S | re.M)
    path = [os.path.dirname(program) for program in (PINCTL, PINFS, sys.executable)]
    environment = dict(os.environ, PATH=":".join([*path, os.environ["PATH"]]))
    with scratch() as folder:
        at = os.path.join(folder, "t.lance")
        lance.write_dataset(pa.table({"id": range(100)}), at, max_rows_per_file=10)
        lance.dataset(at).delete("id in (3, 77)")
        command = ["bash", "-euo", "pipefail", "-c", re.sub(r"^\$ ", "", text, flags=re.M)]
        try:
            done = subprocess.run(command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        finally:
            subprocess.run(["fusermount3", "-q", "-u", at])
        assert done.returncode == 0, "exit %d: %s%s" % (done.returncode, done.stdout, done.stderr)
        assert re.search(r"failed_deletes: [1-9]", done.stdout) and "98 rows are still there" in done.stdout, done.stdout
        assert re.search(r"\tunlink\t.*\tEBUSY\t.*pin:", done.stdout), done.stdout
        ds = lance.dataset(at)
        equal((ds.count_rows(), len(ds.get_fragments())), (99, 1), "rows and fragments of the head")
