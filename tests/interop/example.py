"""docs/index-build.md and the README's examples with Lance: what they say is run, and comes out as they say."""

import os
import re
import subprocess
import sys
import time

import lance

from support import PINCTL, PINFS, ROOT, Skip, equal, pinctl, scratch, until

PAGE = os.path.join(ROOT, "docs/index-build.md")


def cases():
    yield "the index build of docs/index-build.md", follow
    yield "the README's lines that Lance goes on writing", goes_on
    yield "the README's table without a gateway: commits, what is kept, and what may go", without_gateway


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


def environment():
    path = [os.path.dirname(program) for program in (PINCTL, PINFS, sys.executable)]
    return dict(os.environ, PATH=":".join([*path, os.environ["PATH"]]), LC_ALL="C.UTF-8", LANCE_LOG="error")


def section(title):
    """Its blocks: (language, text)."""
    with open(os.path.join(ROOT, "README.md")) as file:
        (text,) = re.findall(r"^## %s\n(.*?)^## " % re.escape(title), file.read(), re.S | re.M)
    return re.findall(r"^```(\w*)\n(.*?)^```$", text, re.S | re.M)


def form(text):
    """Without what differs from run to run: ids, times, sizes, and widths that come with them."""
    for pattern, put in (
        (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "UUID"),
        (r"\b[0-9a-f]{8} reindex", "ID reindex"),
        (r"\b\d{4}-\d\d-\d\dT[0-9:.]+Z", "TIME"),
        (r"\b[01]{24}[0-9a-f]{26}\b", "NAME"),
        (r"─+", "─"),
        # Counts of one digit are what the story is about.
        (r"\d\d+", "N"),
        # A minute and more is told with its seconds.
        (r"\b\w+ [smh]\b|\b(\d|N)[smh]( (\d|N)[smh])?\b", "SPAN"),
        (r"(bytes|\d|N|  )[ \t]+", r"\1 "),
    ):
        text = re.sub(pattern, put, text)
    # The order of files that go is that of their names.
    return sorted(line.strip() for line in text.strip().split("\n"))


def run(folder, text, shell=None):
    command = shell or ["bash", "-euo", "pipefail", "-c", text]
    done = subprocess.run(command, cwd=folder, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 0, "exit %d of:\n%s\n%s" % (done.returncode, text, done.stdout)
    return done.stdout


def goes_on():
    if not os.path.exists("/dev/fuse"):
        raise Skip("no /dev/fuse")
    (_, text), (_, shown) = section("Lance goes on writing")
    with scratch() as folder:
        at = os.path.join(folder, "t.lance")
        try:
            printed = run(folder, text)
        finally:
            subprocess.run(["fusermount3", "-q", "-u", at])
        # What pinctl says of its own is left out there.
        printed = "".join(line + "\n" for line in printed.split("\n") if line and not line.startswith("pinctl: "))
        equal(form(re.sub(r"_removed: \d+|_deletes: \d+", "", printed)), form(re.sub(r"_removed: \d+|_deletes: \d+", "", shown)), "printed")
        assert re.search(r"old_versions: 1,.*failed_deletes: [1-9].*\n100 rows", printed), printed
        ds = lance.dataset(at)
        equal((ds.count_rows(), len(ds.get_fragments())), (101, 1), "rows and fragments of the head")


def without_gateway():
    """Each command prints what is shown under it; they share one shell."""
    blocks = section("Writing to a table with pins") + section("What is kept, and what may go")
    with scratch() as folder:
        kept = []
        for language, text in blocks:
            if language == "python":
                run(folder, text, [sys.executable, "-W", "ignore", "-c", text])
                continue
            for command, shown in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", text, re.M):
                equal(form(run(folder, "\n".join([*kept, command]))), form(shown), "what is printed by " + command)
                if command.startswith("export "):
                    kept.append(command)
                if command.startswith("pin="):
                    (pin,) = pinctl(os.path.join(folder, "rows.lance"), "ls", "--json")
                    kept.append("pin=" + pin["id"])
                    # Before it is a second old `pinctl usage` tells no rate.
                    second = int(time.time())
                    until(lambda: int(time.time()) > second, "a second passes")
