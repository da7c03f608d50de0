"""What the topics share: tables to break, pinctl and the mount under the stepper, Lance's opinion, and TAP."""

import contextlib
import datetime
import glob
import importlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import uuid


ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("PINFS_BUILD", os.path.join(ROOT, "build-check"))
PINCTL = os.path.join(BUILD, "tools/pinctl/pinctl")
PINFS = os.path.join(BUILD, "fs/pinfs")
STEPPER = os.path.join(BUILD, "tests/crash/stepper")
FIXTURE = os.path.join(ROOT, "tests/fixtures/tables/14.0.2/plain.lance")
LONG = "PINFS_LONG" in os.environ

# Exit statuses of pinctl.
DONE, FAILED, USAGE, DAMAGED, BLOCKED, AGAIN, UNKNOWN = 0, 1, 2, 3, 4, 75, 76
CANNOT = 77  # of the stepper: not on this machine

# Where a process is traced or killed nobody waits for a report of leaks.
ENVIRONMENT = dict(os.environ, ASAN_OPTIONS=os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0", TZ="UTC")


class Skip(Exception):
    pass


def equal(found, expected, what):
    assert found == expected, "%s: %r, expected %r" % (what, found, expected)


def until(condition, what, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "not within %d s: %s" % (seconds, what)
        time.sleep(0.001)


def new_id():
    return str(uuid.uuid4())


def stamp(seconds_from_now):
    """A time as text, on a whole second, and in nanoseconds."""
    at = int(time.time()) + seconds_from_now
    return datetime.datetime.fromtimestamp(at, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"), at * 10**9


# --- programs ---------------------------------------------------------------------------------------------------------


class Done:
    def __init__(self, status, out="", err=""):
        self.status, self.out, self.err = status, out, err

    def __repr__(self):
        return "status %d: %s" % (self.status, self.err.strip() or self.out.strip())


def run(command, environment=None):
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=dict(ENVIRONMENT, **(environment or {})),
    )
    if "Sanitizer" in done.stderr or "runtime error:" in done.stderr:
        raise AssertionError(done.stderr)
    return Done(done.returncode, done.stdout, done.stderr)


def pinctl(at, *words):
    return run([PINCTL, "-d", at, *words])


def must(done):
    assert done.status == 0, done
    return done.out


def faketime():
    """Its library. Not by way of faketime(1): it fails where a killed process of the same id left its semaphore."""
    libraries = glob.glob("/usr/lib/*/faketime/libfaketime.so.1")
    if not libraries:
        raise Skip("no libfaketime")
    return libraries[0]


def host(clock=None, zone="UTC", file=None):
    """
    The environment of a program on a host with this clock: "+2h" is that much ahead, "@SECONDS" starts there, "SECONDS" stands still there.
    With `file` the clock is what that says at the moment.
    """
    library = faketime()
    environment = {
        "TZ": zone,
        "LD_PRELOAD": library,
        # The sanitizer wants to be the first library.
        "ASAN_OPTIONS": ENVIRONMENT["ASAN_OPTIONS"] + ":verify_asan_link_order=0",
        "FAKETIME_FMT": "%s",
        "DONT_FAKE_MONOTONIC": "1",
        "NO_FAKE_STAT": "1",
    }
    if file:
        return dict(environment, FAKETIME_TIMESTAMP_FILE=file, FAKETIME_NO_CACHE="1")
    return dict(environment, FAKETIME=clock) if clock else environment


def overdue(at, pin):
    """Register a pin that is past its time at once: on a host whose clock is an hour late."""
    must(run([PINCTL, "-d", at, "register", "+10m", "--id", pin], host("-1h")))


def time_of_one(at):
    """How long a commit takes on this machine when nothing holds it up: the shortest of some."""
    pin, took = new_id(), []
    for _ in range(3):
        for words in (["register", "+2h", "--id", pin], ["release", pin]):
            began = time.monotonic()
            must(pinctl(at, *words))
            took.append(time.monotonic() - began)
    return min(took)


def stepped(at, options, words):
    """pinctl under the stepper."""
    done = run([STEPPER, *map(str, options), PINCTL, "-d", at, *words])
    if done.status == CANNOT:
        raise Skip("processes cannot be traced here")
    return done


def calls_of(at, words, options=()):
    """The calls that pinctl makes, by name, in order; with options ["-d", at] those on the table's storage."""
    report = at + ".calls"
    must(stepped(at, [*options, "-o", report], words))
    with open(report) as f:
        return f.read().split()


class Mount:
    """
    A daemon over a table, in the foreground, as a gateway over the table's own path; `stepper`: options to run it under the stepper with, which then is
    `process`.
    """

    def __init__(self, at, folder, stepper=None, environment=None, program=PINFS, gateway=False):
        if not os.path.exists("/dev/fuse"):
            raise Skip("no /dev/fuse")
        self.at = at if gateway else os.path.join(folder, "mnt")
        self.pins = self.at + ("/.pinfs/pins" if gateway else "/pins")
        self.said = os.path.join(folder, "said")
        os.makedirs(self.at, exist_ok=True)
        self.arm_file = os.path.join(folder, "arm")
        under = [STEPPER, "-d", at, "-r", self.arm_file, *map(str, stepper)] if stepper is not None else []
        with open(self.said, "w") as said:
            self.process = subprocess.Popen(
                [*under, program, "-f", at, self.at],
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                env=dict(ENVIRONMENT, **(environment or {})),
            )
        until(lambda: self.ready() or self.process.poll() is not None, "pinfs mounts")
        if self.process.poll() == CANNOT and under:
            raise Skip("processes cannot be traced here")
        assert self.process.poll() is None, self.words()

    def arm(self, number):
        """Let the stepper count from here to the call to act on. How many there were since the last time."""
        arm = self.arm_file
        with open(arm, "w") as f:
            f.write("%d\n" % number)
        self.process.send_signal(signal.SIGUSR1)
        counted = lambda: open(arm).read().partition(" counted\n")
        until(lambda: counted()[1], "the stepper counts")
        return int(counted()[0])

    def ready(self):
        return "pinfs: ready" in self.words()

    def words(self):
        with open(self.said, errors="replace") as f:
            return f.read()

    def status(self):
        with open(self.at + "/.pinfs/last_status") as f:
            return f.read()

    def stop(self):
        """Ask it to end; it must say that all went well, and leave no mount."""
        self.process.send_signal(signal.SIGTERM)
        status = self.process.wait(60)
        assert status == 0 and not os.path.ismount(self.at), "pinfs ended with %d: %s" % (status, self.words())

    def clear(self):
        """What is left of it after a kill, or after a test that failed."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        # What is not mounted there umount takes for a source: another mount of the table would go.
        with open("/proc/self/mountinfo", errors="replace") as f:
            if not any(line.split()[4] == self.at for line in f):
                return
        unmount = ["umount", "-l"] if os.geteuid() == 0 else ["fusermount3", "-u", "-z"]
        subprocess.run([*unmount, self.at], stderr=subprocess.DEVNULL)


@contextlib.contextmanager
def mounted(at, folder, **options):
    mount = Mount(at, folder, **options)
    try:
        yield mount
        mount.stop()
    finally:
        mount.clear()


# --- tables -----------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def scratch():
    with tempfile.TemporaryDirectory(prefix="crash-") as folder:
        # The stepper knows paths without links only.
        yield os.path.realpath(folder)


def new_table(folder, name="t.lance", fixture=FIXTURE, change=None):
    """A small table of Lance's that takes pins. `change`: what is done to it before."""
    at = os.path.join(folder, name)
    shutil.copytree(fixture, at)
    subprocess.run(["chmod", "-R", "u+w", at], check=True)
    if change:
        change(at)
    must(pinctl(at, "enable", "--apply"))
    return at


class Lance:
    """Released Lance in a process of its own that is asked for one table after the other. Without one it has no opinion."""

    def __init__(self, release="14.0.2", program="opinion.py"):
        home = os.environ.get("PINFS_VENVS", os.path.join(os.environ.get("XDG_CACHE_HOME", os.path.expanduser("~/.cache")), "pinfs/venvs"))
        python = os.path.join(home, "pylance-%s/bin/python" % release)
        self.process = None
        self.asked = 0
        if os.access(python, os.X_OK):
            self.process = subprocess.Popen(
                [python, "-W", "ignore", os.path.join(ROOT, "tests/crash", program)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env=dict(os.environ, RUST_LOG="error", LANCE_LOG="error"),
            )

    def ask(self, *words):
        """What it answers to a request of opinion.py; None without a Lance."""
        if not self.process:
            return None
        self.asked += 1
        print(*words, file=self.process.stdin, flush=True)
        return self.process.stdout.readline().strip()

    def opens(self, at, head):
        answer = self.ask(at)
        if answer is not None:
            equal(answer, "%d versions, newest %d" % (head, head), "what Lance says of the table")

    def close(self):
        if self.process:
            self.process.stdin.close()
            self.process.wait(60)


# --- TAP --------------------------------------------------------------------------------------------------------------


def main(topic):
    for program in (PINCTL, PINFS, STEPPER):
        if not os.access(program, os.X_OK):
            sys.exit("crash: %s is not built; PINFS_BUILD names the build" % program)
    cases = list(importlib.import_module(topic).cases())
    print("1..%d" % len(cases), flush=True)
    failed = 0
    for number, (name, function, *args) in enumerate(cases, 1):
        name = "%d - %s" % (number, name)
        try:
            note = function(*args)
            print("ok", name, flush=True)
            if note:
                print("#", note, flush=True)
        except Skip as why:
            print("ok %s # skip %s" % (name, why), flush=True)
        except Exception:
            failed += 1
            print("not ok", name)
            for line in traceback.format_exc().splitlines():
                print("#", line)
            sys.stdout.flush()
    return failed > 0


if __name__ == "__main__":
    # The topics import this module by name; without this they would get a second copy, with a Skip of its own.
    sys.modules["world"] = sys.modules["__main__"]
    sys.exit(main(sys.argv[1]))
