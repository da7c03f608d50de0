"""
Storage that fails at one call of what pinctl does to a table beside pins: what is reported as done has happened, what is reported as failed has not, and an
unknown outcome is settled by the command that is named (exit 76). The same words again then end it.
"""

import errno
import re
import shlex

from deeds import DEEDS
from operation import WRITES
from version import lance
from world import (
    AGAIN, BLOCKED, DAMAGED, DONE, FAILED, LONG, PINCTL, UNKNOWN, calls_of, equal, pinctl, run, scratch, stepped
)  # fmt: skip

ERRORS = [errno.EIO, errno.ENOSPC, errno.EACCES]
# Where only every nth call is tried, to be done in time: of those that change something, and of the others.
STRIDE, READ_STRIDE = (1, 1) if LONG else (4, 16)


def cases():
    for number, deed in enumerate(DEEDS):
        yield "pinctl %s, a call on storage fails, or is made and reported as failed" % deed.name, fails, deed, number
    yield "Lance was asked", lambda: "%d times" % lance.asked


def settle(deed, done):
    """Run the command that an unknown outcome names."""
    command = re.search(r"to find out: (pinctl .*)|`(pinctl .*?)`", done.err)
    assert command, "no command to find out: %s" % done
    words = shlex.split(command[1] or command[2])[1:]
    return run([PINCTL, *words]) if "-d" in words else pinctl(deed.at, *words)


def judge(deed, done):
    """Whether what was answered is what happened. Whether it happened."""
    landed = deed.look(done.status == DONE)
    if done.status == UNKNOWN:
        settled = settle(deed, done)
        assert settled.status in (DONE, FAILED), settled
        return deed.look(False)
    if done.status != DONE:
        assert done.status in (FAILED, DAMAGED, BLOCKED, AGAIN), done
        assert done.err.strip(), "it failed without a word"
        assert deed.admits(done) or not landed, "it was reported as failed and has happened"
    return landed


def faults(names, number):
    """Of which calls, and how."""
    changes = [at for at, name in enumerate(names, 1) if name in WRITES]
    others = [at for at, name in enumerate(names, 1) if name not in WRITES]
    for at in sorted(changes[number % STRIDE :: STRIDE] + others[number % READ_STRIDE :: READ_STRIDE]):
        for error in ERRORS if LONG else [ERRORS[at % len(ERRORS)]]:
            yield at, ["-e", error]
    for at in changes[(number + STRIDE // 2) % STRIDE :: STRIDE]:
        yield at, ["-e", errno.EIO, "-a"]


def fails(make, number):
    tally = {}
    with scratch() as folder:
        deed = make(folder)
        deed.once()
        deed.start()
        names = calls_of(deed.at, deed.words, ["-d", deed.home])
        for at, how in faults(names, number):
            deed.start()
            done = stepped(deed.at, ["-d", deed.home, "-n", at, *how], deed.words)
            tally[done.status] = tally.get(done.status, 0) + 1
            try:
                deed.finish(judge(deed, done), ask=LONG)
            except AssertionError as error:
                raise AssertionError("call %d, %s, stepper %s: %s (%s)" % (at, names[at - 1], how, error, done))
        equal(deed.ask(), deed.lance_after, "what Lance reads in the end")
    return ", ".join("%d ended with %s" % (n, status) for status, n in sorted(tally.items()))
