"""
Clocks that disagree, step back, or show the time of another zone. The rules (design.md, section 2): +N is counted once, from the clock of whoever
receives it; a pin is due by the clock of whoever expires it; a renewal never shortens; a version is never older than the one it was made on.
"""

import contextlib
import datetime
import os
import subprocess
import time

import table
from world import DONE, FAILED, PINCTL, USAGE, Lance, equal, host, mounted, must, new_id, new_table, run, scratch, stamp

SECOND = 10**9
HOUR = 3600 * SECOND
# The last are a zone that is not there, one that counts leap seconds, and none.
ZONES = ["UTC", "Asia/Kolkata", "America/St_Johns", "Pacific/Kiritimati", "<+14>-14", "no/such zone", "right/UTC", ""]
# A day on which the clock can stand still: what is printed is then the same to the byte.
NOON, NOON_TEXT, HALF_PAST_TEXT = 1906545600, "2030-06-01T12:00:00Z", "2030-06-01T12:30:00Z"
# Years in which a clock without a battery, or set by hand, may be.
YEAR_1970, YEAR_2100 = 86400, 4102444800

lance = Lance()


def cases():
    for shift in (2, -2):
        yield "pinctl counts +2h from its own clock, %+d h" % shift, pinctl_counts, shift
        yield "the mount counts +2h from the daemon's clock, %+d h" % shift, mount_counts, shift
    yield "a pin is due by the clock of whoever expires it", due
    yield "a pin is due at its expiry, not a nanosecond sooner", due_exactly
    yield "a renewal by another clock never shortens", never_shorter
    yield "hosts with different clocks take turns: versions never go back in time", turns
    yield "the daemon's clock steps: versions never go back in time", steps
    yield "a version of the year 2100 and a clock in 1970", far_away
    yield "pinctl in every zone says the same", zones_pinctl
    yield "a daemon in every zone says the same", zones_mount


# --- hosts ------------------------------------------------------------------------------------------------------------


def hours(shift):
    return "%+dh" % shift


def on(where, at, *words):
    return run([PINCTL, "-d", at, *words], where)


def ns(text):
    """Nanoseconds of a time that was printed."""
    whole, _, fraction = text.strip().rstrip("Z").partition(".")
    at = datetime.datetime.strptime(whole, "%Y-%m-%dT%H:%M:%S").replace(tzinfo=datetime.timezone.utc)
    return int(at.timestamp()) * SECOND + int(fraction.ljust(9, "0"))


class Window:
    """From here to end(), as a clock that is `shift` hours ahead tells it."""

    def __init__(self, shift=0):
        self.shift = shift * HOUR
        self.start = time.time_ns() + self.shift

    def end(self):
        self.stop = time.time_ns() + self.shift
        return self

    def has(self, value, what, later=0):
        first, last = self.start + later, self.stop + later
        assert first <= value <= last, "%s: %d is not from %d to %d" % (what, value, first, last)


def look(at, pin):
    t = table.Table(at)
    assert pin in t.head.pins, "pin %s is not there" % pin
    return t.head, t.head.pins[pin]


def unchanged(at, head, done):
    """Nothing was committed by what was just asked."""
    equal(table.head(at), head, "head after %r" % done)
    return done


# --- counted from whose clock -----------------------------------------------------------------------------------------


def pinctl_counts(shift):
    with scratch() as folder:
        at, pin, other, there = new_table(folder), new_id(), new_id(), host(hours(shift))
        window = Window(shift)
        must(on(there, at, "register", "+2h", "--id", pin))
        window.end()
        head, found = look(at, pin)
        window.has(found.expires, "expires_at", 2 * HOUR)
        window.has(found.created, "created_at")
        window = Window(shift)
        must(on(there, at, "renew", pin, "+3h"))
        window.end()
        window.has(look(at, pin)[1].expires, "expires_at renewed", 3 * HOUR)
        # A request holds the time that its maker's clock came to, whoever sends it.
        window = Window(shift)
        line = must(on(there, at, "request", "+4h", "--id", other)).strip()
        window.end()
        must(on(host(), at, "register", "--request", line))
        window.has(look(at, other)[1].expires, "expires_at of the request", 4 * HOUR)
        # What has passed there is refused there, and only there.
        text, expires = stamp(3600 if shift > 0 else -3600)
        late, fine = (there, host()) if shift > 0 else (host(), there)
        refused = on(late, at, "register", text, "--id", new_id())
        equal(refused.status, USAGE, "status of a registration that is due (%s)" % refused)
        assert "has passed" in refused.err, refused
        equal(table.head(at), head.version + 2, "head")
        pin = must(on(fine, at, "register", text)).strip()
        equal(look(at, pin)[1].expires, expires, "expires_at")
        lance.opens(at, head.version + 3)


def mount_counts(shift):
    with scratch() as folder:
        at, pin = new_table(folder), new_id()
        with mounted(at, folder, environment=host(hours(shift))) as mount:
            window = Window(shift)
            os.mkdir("%s/%s,expires_at=+2h" % (mount.pins, pin))
            window.end()
            head, found = look(at, pin)
            window.has(found.expires, "expires_at", 2 * HOUR)
            window.has(found.created, "created_at")
            equal(os.stat("%s/%s" % (mount.pins, pin)).st_mtime_ns, found.expires, "mtime")
            window = Window(shift)
            with open("%s/%s" % (mount.pins, pin), "w") as f:
                f.write("+3h\n")
            window.end()
            window.has(look(at, pin)[1].expires, "expires_at renewed", 3 * HOUR)
            # touch -d gives a time, not a term: no clock has a say.
            text, expires = stamp(8 * 3600)
            subprocess.run(["touch", "-d", text, "%s/%s" % (mount.pins, pin)], check=True)
            equal(look(at, pin)[1].expires, expires, "expires_at touched")
            text, expires = stamp(3600 if shift > 0 else -3600)
            try:
                os.mkdir("%s/%s,expires_at=%s" % (mount.pins, new_id(), text))
                landed = True
            except OSError:
                assert "has passed" in mount.status(), mount.status()
                landed = False
            equal(landed, shift < 0, "whether a pin is registered until %s" % text)
            equal(table.head(at), head.version + 2 + landed, "head")
            with open(mount.at + "/.pinfs/metrics") as f:
                overdue = [line for line in f.read().splitlines() if line.startswith("pinfs_pins_overdue{")]
            # Neither is overdue by the daemon's clock.
            equal([line.split()[-1] for line in overdue], ["0"], "overdue pins")


# --- due --------------------------------------------------------------------------------------------------------------


def due():
    with scratch() as folder:
        at = new_table(folder)
        here, ahead, behind = host(), host("+2h"), host("-2h")
        a, b, c = new_id(), new_id(), new_id()

        def due_on(where, *pins):
            head = table.head(at)
            for words in (["expire"], ["ls", "--expired"]):
                out = must(unchanged(at, head, on(where, at, *words)))
                equal([line.split()[0] for line in out.splitlines()], list(pins), "pins that are due (%s)" % words[0])

        must(on(here, at, "register", "+1h", "--id", a))
        due_on(ahead, a)
        for where in (here, behind):
            due_on(where)
            must(unchanged(at, table.head(at), on(where, at, "expire", "--apply")))
        # Overdue or not, it is held until somebody expires it, and can be renewed by those for whom it is late.
        equal(on(ahead, at, "confirm", a).status, DONE, "status of confirm")
        must(on(ahead, at, "renew", a, "+1h"))
        due_on(ahead)

        must(on(behind, at, "register", "+1h", "--id", b))
        must(on(here, at, "register", "+1h", "--id", c))
        due_on(behind)
        must(unchanged(at, table.head(at), on(behind, at, "expire", "--apply")))
        due_on(here, b)
        must(on(here, at, "expire", "--apply"))
        equal(set(table.Table(at).head.pins), {a, c}, "pins after expire here")
        due_on(ahead, c)
        must(on(ahead, at, "expire", "--apply"))
        equal(set(table.Table(at).head.pins), {a}, "pins after expire ahead")
        # Gone is gone, also where its time has not come.
        for where in (here, behind):
            equal(on(where, at, "confirm", c).status, FAILED, "status of confirm")
            equal(on(where, at, "renew", c, "+9h").status, FAILED, "status of renew")
        lance.opens(at, table.head(at))


def due_exactly():
    with scratch() as folder:
        at, pin = new_table(folder), new_id()
        must(on(host(str(NOON)), at, "register", HALF_PAST_TEXT, "--id", pin))
        head = table.head(at)
        # A clock that stands still does so on whole seconds: the nanosecond is in the expiry.
        must(unchanged(at, head, on(host(str(NOON + 1799)), at, "expire", "--apply")))
        must(on(host(str(NOON)), at, "renew", pin, HALF_PAST_TEXT.replace("Z", ".000000001Z")))
        must(unchanged(at, head + 1, on(host(str(NOON + 1800)), at, "expire", "--apply")))
        must(on(host(str(NOON)), at, "renew", pin, "2030-06-01T12:30:01Z"))
        must(on(host(str(NOON + 1801)), at, "expire", "--apply"))
        equal(table.Table(at).head.pins, {}, "pins")


def never_shorter():
    with scratch() as folder:
        at, pin = new_table(folder), new_id()
        must(on(host("+2h"), at, "register", "+1h", "--id", pin))
        head, found = look(at, pin)
        for where, term in ((host(), "+2h"), (host("-2h"), "+4h"), (host("+2h"), "+30m"), (host("-2h"), "@1")):
            said = must(unchanged(at, head.version, on(where, at, "renew", pin, term)))
            equal(ns(said), found.expires, "expiry that renew prints")
        path = "%s/mnt/pins/%s" % (folder, pin)
        with mounted(at, folder, environment=host("-2h")):
            for text in ("+4h", stamp(3600)[0], "@1"):
                with open(path, "w") as f:
                    f.write(text)
            os.utime(path, ns=(0, found.expires - 1))
            equal(os.stat(path).st_mtime_ns, found.expires, "mtime")
            equal(table.head(at), head.version, "head")
            with open(path, "w") as f:
                f.write("+6h")
        after = look(at, pin)
        equal(after[0].version, head.version + 1, "head")
        assert after[1].expires > found.expires, after
        equal(after[1]._replace(expires=0), found._replace(expires=0), "the rest of the pin")


# --- versions in order ------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def one_version(at, shift):
    """One version is made in this block, by a host so many hours ahead: the later of its clock and the version before."""
    before, window = table.Table(at).head, Window(shift)
    yield
    window.end()
    after = table.Table(at).head
    equal(after.version, before.version + 1, "head")
    for pin in set(after.pins) - set(before.pins):
        window.has(after.pins[pin].created, "created_at of pin %s" % pin)
    if before.timestamp >= window.stop:
        equal(after.timestamp, before.timestamp, "timestamp of version %d, made by a clock that is behind" % after.version)
    else:
        window.start = max(window.start, before.timestamp)
        window.has(after.timestamp, "timestamp of version %d" % after.version)


def check_order(at):
    """The log tells what happened in order of versions, with the times that these have."""
    t = table.Table(at)
    lines = [line.split("\t") for line in must(on(host(), at, "log")).splitlines()]
    ours = [v.version for v in t.versions[1:] if v.transaction.kind not in (None, "enable")]
    equal([int(line[0]) for line in lines], ours, "versions of the log")
    for line in lines:
        equal(ns(line[1]), t.versions[int(line[0])].timestamp, "time of version %s in the log" % line[0])
    equal(on(host(), at, "check").status, DONE, "status of check")
    lance.opens(at, t.head.version)


def turns():
    with scratch() as folder:
        at = new_table(folder)
        pins, term = [], 5
        for shift in (0, 2, -2, 0, 2, 0, -2, -2, 0):
            there, pin = host(hours(shift)), new_id()
            with one_version(at, shift):
                must(on(there, at, "register", stamp(4 * 3600)[0], "--id", pin))
            pins.append(pin)
            term += 1
            with one_version(at, -shift):
                must(on(host(hours(-shift)), at, "renew", pins[0], stamp(term * 3600)[0]))
            if len(pins) > 3:
                with one_version(at, shift):
                    must(on(there, at, "release", pins.pop()))
        check_order(at)


def steps():
    with scratch() as folder:
        at, clock, pins = new_table(folder), os.path.join(folder, "clock"), []

        def step(shift):
            with open(clock + ".new", "w") as f:
                f.write(hours(shift) + "\n")
            os.replace(clock + ".new", clock)

        step(0)
        with mounted(at, folder, environment=host(file=clock)) as mount:
            for number, shift in enumerate((0, 2, 1, -2, 0, 3, -3, 4)):
                step(shift)
                pins.append(new_id())
                with one_version(at, shift):
                    os.mkdir("%s/%s,expires_at=%s" % (mount.pins, pins[-1], stamp(6 * 3600)[0]))
                path = "%s/%s" % (mount.pins, pins[0])
                with one_version(at, shift):
                    with open(path, "w") as f:
                        f.write(stamp((7 + number) * 3600)[0])
                # The host's own clock is where it was.
                with one_version(at, 0):
                    must(on(host(), at, "register", "+9h"))
                if number % 2:
                    with one_version(at, shift):
                        os.unlink("%s/%s" % (mount.pins, pins.pop()))
                equal(os.stat(path).st_ctime_ns, table.Table(at).head.timestamp, "ctime")
            equal(set(os.listdir(mount.pins)), set(table.Table(at).head.pins), "pins that ls says")
        check_order(at)


def far_away():
    with scratch() as folder:
        at = new_table(folder)
        a, b = new_id(), new_id()
        must(on(host(), at, "register", "+2h", "--id", a))
        must(on(host("@%d" % YEAR_2100), at, "register", "+1h", "--id", b))
        future = table.Table(at).head.timestamp
        assert YEAR_2100 * SECOND <= future < (YEAR_2100 + 600) * SECOND, future
        # It makes nothing old or due: the next version is as late as this one, and pins are due by the clock.
        for where in (host(), host("@%d" % YEAR_1970)):
            must(unchanged(at, table.head(at), on(where, at, "expire", "--apply")))
            pin = must(on(where, at, "register", "+1h")).strip()
            must(on(where, at, "renew", pin, "+2h"))
            must(on(where, at, "release", pin))
            equal({v.timestamp for v in table.Table(at).versions[-3:]}, {future}, "timestamps")
        with mounted(at, folder, environment=host("@%d" % YEAR_1970)) as mount:
            os.mkdir("%s/%s,expires_at=+1h" % (mount.pins, new_id()))
            equal(os.stat("%s/%s" % (mount.pins, a)).st_ctime_ns, future, "ctime")
        equal(on(host(), at, "status").status, DONE, "status of status")
        assert {a, b} <= set(table.Table(at).head.pins), "a pin is gone"
        check_order(at)


# --- zones ------------------------------------------------------------------------------------------------------------


def pinned_at_noon(folder):
    """At noon one pin has half an hour left, and the other an hour less than nothing."""
    at, near, past = new_table(folder), new_id(), new_id()
    must(on(host(str(NOON - 7200)), at, "register", "+1h", "--id", past, "--label", "past"))
    must(on(host(str(NOON)), at, "register", "+30m", "--id", near, "--label", "near"))
    return at, near, past


def zones_pinctl():
    with scratch() as folder:
        at, near, past = pinned_at_noon(folder)
        head = table.Table(at).head
        equal(head.pins[near].expires, (NOON + 1800) * SECOND, "expires_at")
        source = head.pins[near].source_version
        other = new_id()
        answers = {}
        for zone in ZONES:
            there = host(str(NOON), zone)

            def says(*words):
                return must(unchanged(at, head.version, on(there, at, *words)))

            lines = sorted(line.split() for line in says("ls").splitlines())
            equal(
                lines,
                sorted(
                    [
                        [near, str(source), HALF_PAST_TEXT, "30m", "near"],
                        [past, str(source - 1), "2030-06-01T11:00:00Z", "overdue", "1h", "past"],
                    ]
                ),
                "what ls says in %r" % zone,
            )
            equal([line.split()[0] for line in says("expire").splitlines()], [past], "what is due in %r" % zone)
            for text in ("+30m", HALF_PAST_TEXT, "2030-06-01T18:00:00+05:30", "@%d" % (NOON + 1800)):
                line = says("request", text, "--id", other)
                assert ",expires_at=%s," % HALF_PAST_TEXT in line, "%s is in %r: %s" % (text, zone, line)
            # To the byte the same as in the first.
            for words in (["--json", "ls"], ["status"], ["--json", "status"], ["show", near], ["log"]):
                equal(says(*words), answers.setdefault(tuple(words), says(*words)), "what %s says in %r" % (words, zone))
        # Each commits, too: a time is what it says, and the pin that has half an hour left stays.
        for number, zone in enumerate(ZONES):
            there = host(str(NOON), zone)
            text = "2031-01-01T00:00:%02dZ" % number
            pin = must(on(there, at, "register", text)).strip()
            found = look(at, pin)[1]
            equal((found.created, found.expires), (NOON * SECOND, ns(text)), "pin made in %r" % zone)
            equal(must(on(there, at, "renew", pin, text.replace("2031", "2032"))).strip(), text.replace("2031", "2032"), "renewed in %r" % zone)
            must(on(there, at, "expire", "--apply"))
            equal((past in table.Table(at).head.pins, look(at, near)[1].id), (False, near), "pins after expire in %r" % zone)
        lance.opens(at, table.head(at))


def zones_mount():
    with scratch() as folder:
        at, near, past = pinned_at_noon(folder)
        for number, zone in enumerate(ZONES):
            with mounted(at, folder, environment=host(str(NOON), zone)) as mount:
                path = "%s/%s" % (mount.pins, near)
                equal(set(os.listdir(mount.pins)), {near, past}, "what ls says in %r" % zone)
                year = 2031 + number
                for text, want in (
                    ("%d-01-01T00:00:00Z" % year, "%d-01-01T00:00:00Z" % year),
                    ("%d-07-01T05:30:00+05:30" % year, "%d-07-01T00:00:00Z" % year),
                ):
                    with open(path, "w") as f:
                        f.write(text + "\n")
                    with open(path) as f:
                        assert '"expires_at": "%s"' % want in f.read(), "%s is another time in %r" % (text, zone)
                    equal(os.stat(path).st_mtime_ns, ns(want), "mtime in %r" % zone)
                    equal(os.getxattr(path, "user.pins.expires_at").decode(), want, "expires_at in %r" % zone)
                pin = new_id()
                os.mkdir("%s/%s,expires_at=+30m" % (mount.pins, pin))
                equal(look(at, pin)[1].expires, (NOON + 1800) * SECOND, "expires_at of +30m in %r" % zone)
                os.unlink("%s/%s" % (mount.pins, pin))
        lance.opens(at, table.head(at))
