"""
kill -9 at every call of what pinctl does to a table beside pins: it is done whole or not at all, files that it brings are whole in one place, Lance reads
the same rows, and the same command again ends it.
"""

from deeds import DEEDS
from operation import WRITES
from version import lance
from world import LONG, calls_of, equal, scratch, stepped

KILLED = 128 + 9


def cases():
    for deed in DEEDS:
        yield "pinctl %s, killed at calls that change a file" % deed.name, killed, deed, True
        if LONG:
            yield "pinctl %s, killed at every system call" % deed.name, killed, deed, False
    yield "Lance was asked", lambda: "%d times" % lance.asked


def killed(make, on_storage):
    with scratch() as folder:
        deed = make(folder)
        deed.once()
        deed.start()
        options = ["-d", deed.home] if on_storage else []
        names = calls_of(deed.at, deed.words, options)
        kills = happened = 0
        numbers = [number for number, name in enumerate(names, 1) if name in WRITES or not on_storage]
        # The last one, too: what makes it happen may be last.
        for number in numbers if LONG else numbers[-1 :: -deed.stride]:
            deed.start()
            done = stepped(deed.at, [*options, "-n", number, "-k"], deed.words)
            if done.status == KILLED:
                kills += 1
            else:
                equal(done.status, 0, "status without a kill at call %d (%s)" % (number, done))
            try:
                landed = deed.look(deed.told(done))
                # Between two changes Lance sees nothing new.
                deed.finish(landed, ask=names[number - 1] in WRITES if LONG else kills % 4 == 0)
            except AssertionError as error:
                raise AssertionError("killed at call %d, %s: %s" % (number, names[number - 1], error))
            happened += landed
        report = "killed %d times, %d of them after it had happened" % (kills, happened)
        # What happens with the last change can be found done only by kills after it, when it says so.
        assert (happened > 0) != (deed.at_last and on_storage) and happened < kills, report
        return report
