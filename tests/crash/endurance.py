"""
One daemon that is asked many thousand things: memory, descriptors and threads are at the end what they were when all was full that has a limit. Of
memory a build without sanitizers tells: their own books grow for long. What nobody holds any more they tell at exit, however little it is.
"""

import contextlib
import errno
import os
import random
import threading
import time

import table
from world import ENVIRONMENT, LONG, Lance, equal, mounted, new_id, new_table, scratch, stamp, until

OPERATIONS = 100000 if LONG else 8000
LOG_LINES = 1000  # that the daemon keeps
CLIENTS = 4
CROWD = 32
PINS = 20
# Threads that the daemon has at most when nobody asks: ten that wait (fs/main.c), the loop's and the watcher's.
WAITING = 12
DAY = 86400
# Whatever is kept of each operation takes the smallest piece of memory there is, at least. In the short form those would be fewer pages than
# threads come and go with; what keeps an answer, with its sentence, of each operation takes so much.
KEPT = 32 if LONG else 1024
# Threads share one heap: each of its own would have pages that depend on who happened to do what.
ENVIRONMENT_OF_DAEMON = {"MALLOC_ARENA_MAX": "1", "ASAN_OPTIONS": ENVIRONMENT["ASAN_OPTIONS"] + ":detect_leaks=1"}

lance = Lance()


def cases():
    yield "one daemon, %d operations" % OPERATIONS, endures
    yield "threads of a crowd go when it does", crowd


def resident(mount):
    with open("/proc/%d/statm" % mount.process.pid) as f:
        return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def sanitized(mount):
    with open("/proc/%d/maps" % mount.process.pid) as f:
        return "san.so" in f.read()


def descriptors(pid):
    return len(os.listdir("/proc/%d/fd" % pid))


def threads(pid):
    return len(os.listdir("/proc/%d/task" % pid))


def child_of(pid):
    for name in filter(str.isdigit, os.listdir("/proc")):
        # Others end meanwhile.
        with contextlib.suppress(OSError), open("/proc/%s/stat" % name, errors="replace") as f:
            if int(f.read().rpartition(")")[2].split()[1]) == pid:
                return int(name)
    raise AssertionError("process %d has no child" % pid)


def read(path):
    with open(path) as f:
        return f.read()


def write(path, text):
    with open(path, "w") as f:
        f.write(text)


def fails(expected, function, *arguments):
    try:
        function(*arguments)
    except OSError as error:
        equal(errno.errorcode[error.errno], errno.errorcode[expected], "%s%r" % (function.__name__, arguments))
    else:
        raise AssertionError("%s%r did not fail" % (function.__name__, arguments))


# --- what is asked ----------------------------------------------------------------------------------------------------


class Asker:
    """Asks for all that the mount can do. Most of it commits nothing: a table of 100,000 versions is another test."""

    def __init__(self, mount, number):
        self.chance = random.Random(number)
        self.mount = mount
        self.pins = [new_id() for _ in range(PINS // CLIENTS)]
        for pin in self.pins:
            os.mkdir("%s,expires_at=%s" % (self.path(pin), stamp(DAY)[0]))
        self.term = DAY
        asked = [(self.cat, 25), (self.ls, 15), (self.stat, 25), (self.renew_not, 12), (self.others, 8), (self.bad, 14), (self.come_and_go, 1)]
        self.asked, self.weights = zip(*asked)

    def path(self, pin):
        return "%s/%s" % (self.mount.pins, pin)

    def some(self):
        return self.chance.choice(self.pins)

    def ask(self):
        (function,) = self.chance.choices(self.asked, self.weights)
        function()

    def cat(self):
        pin = self.some()
        assert pin in read(self.path(pin))

    def ls(self):
        names = os.listdir(self.mount.pins)
        assert set(self.pins) <= set(names), names

    def stat(self):
        assert os.stat(self.path(self.some())).st_mtime > time.time()
        assert not os.path.exists(self.path(new_id()))

    def renew_not(self):
        """It is already long enough."""
        if self.chance.random() < 0.5:
            write(self.path(self.some()), "+%dh" % self.chance.randrange(1, 23))
        else:
            os.utime(self.path(self.some()), (0, time.time() + self.chance.randrange(DAY // 2)))

    def others(self):
        name = self.chance.choice(["head", ".pinfs/last_status", ".pinfs/log", ".pinfs/metrics", "branches/main/head", "xattr"])
        if name == "xattr":
            path = self.path(self.some())
            assert [os.getxattr(path, key) for key in os.listxattr(path)]
        else:
            assert read("%s/%s" % (self.mount.at, name))

    def bad(self):
        path, other = self.path(self.some()), self.path(new_id())
        requests = [
            (errno.EINVAL, write, path, "tomorrow"),
            (errno.EINVAL, write, path, "x" * 5000),
            (errno.EINVAL, os.mkdir, other),
            (errno.EINVAL, os.mkdir, other + ",expires_at=@1"),
            (errno.EEXIST, os.mkdir, path + ",expires_at=+999d"),
            (errno.EAGAIN, os.mkdir, "%s,expires_at=+1h,source=1:%s" % (other, new_id())),
            (errno.ENOENT, os.unlink, other),
            (errno.ENOENT, write, other, "+1h"),
            (errno.EPERM, os.rename, path, other),
            (errno.EPERM, os.symlink, path, other),
        ]
        fails(*self.chance.choice(requests))

    def come_and_go(self):
        pin = self.path(new_id())
        os.mkdir("%s,expires_at=+1h" % pin)
        write(pin, "+2h")
        os.unlink(pin)


def at_once(number, function):
    """Run function(0) to function(number - 1) at once, and fail if one does."""
    errors = []

    def call(n):
        try:
            function(n)
        except Exception as error:
            errors.append(error)

    started = [threading.Thread(target=call, args=[n], daemon=True) for n in range(number)]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()
    if errors:
        raise errors[0]


# --- cases ------------------------------------------------------------------------------------------------------------


def endures():
    with scratch() as folder:
        at = new_table(folder)
        with mounted(at, folder, environment=ENVIRONMENT_OF_DAEMON) as mount:
            askers = [Asker(mount, number) for number in range(CLIENTS)]

            def ask(operations):
                def one(number):
                    for _ in range(operations // CLIENTS):
                        askers[number].ask()

                at_once(CLIENTS, one)

            while len(read(mount.at + "/.pinfs/log").splitlines()) < LOG_LINES:
                ask(200)
            ask(OPERATIONS // 10)
            pid = mount.process.pid
            memory, files, workers = resident(mount), descriptors(pid), threads(pid)
            ask(OPERATIONS)
            # An answer comes before the last of the work for it is done.
            until(lambda: descriptors(pid) <= files, "no more descriptors than before")
            # How many there were is luck: as many as ever met.
            assert threads(pid) <= max(workers, WAITING) + CLIENTS, "threads: %d, were %d" % (threads(pid), workers)
            growth = resident(mount) - memory
            note = "%d KiB resident, %+d KiB; %d descriptors; %d threads" % (memory >> 10, growth >> 10, files, threads(pid))
            if sanitized(mount):
                note = "memory not judged under a sanitizer: " + note
            else:
                assert growth < KEPT * OPERATIONS, note
        t = table.Table(at)
        equal(set(t.head.pins), {pin for asker in askers for pin in asker.pins}, "pins")
        lance.opens(at, t.head.version)
        return "%s; %d versions" % (note, t.head.version)


def crowd():
    """That they meet is no luck: one is held in its commit, and the others wait for it, each in a thread."""
    with scratch() as folder:
        at, held = new_table(folder), os.path.join(folder, "held")
        with mounted(at, folder, stepper=["-c", "linkat", "-p", held]) as mount:
            pid = child_of(mount.process.pid)
            pins = ["%s/%s" % (mount.pins, new_id()) for _ in range(CROWD)]
            for pin in pins:
                os.mkdir(pin + ",expires_at=+1h")
            few, files = threads(pid), descriptors(pid)
            most = []

            def act(number):
                if number < CROWD:
                    for hours in range(2, 12):
                        write(pins[number], "+%dh" % hours)
                    return
                try:
                    until(lambda: os.path.exists(held) and threads(pid) > few + CROWD // 2, "a crowd")
                    most.append(threads(pid))
                finally:
                    os.unlink(held)

            mount.arm(1)
            at_once(CROWD + 1, act)

            def gone():
                # A thread ends when it has answered and finds that enough others wait.
                os.listdir(mount.pins)
                return threads(pid) <= few + CROWD // 2

            until(gone, "fewer threads than %d" % max(most))
            until(lambda: descriptors(pid) <= files, "no more descriptors than before")
            return "%d threads, then %d, then %d" % (few, max(most), threads(pid))
