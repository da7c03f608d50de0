"""docs/index-build.md, block by block: what it says is run, and comes out as it says."""

import os
import re
import subprocess
import sys

from support import PINCTL, ROOT, equal, pinctl, scratch

PAGE = os.path.join(ROOT, "docs/index-build.md")


def cases():
    yield "the index build of docs/index-build.md", follow


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
