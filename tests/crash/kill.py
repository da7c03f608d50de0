"""kill -9 at every call of every operation, and at random times under load; afterwards the table is whole and nothing that was promised is lost."""

import os
import random
import signal
import subprocess
import threading
import time

import table
from operation import CHANGES, KINDS, TERM, Commit, Operation
from world import (
    ENVIRONMENT, LONG, PINCTL, Lance, Mount, Skip, calls_of, equal, must, new_id, new_table, pinctl, scratch, stamp, stepped, time_of_one, until
)  # fmt: skip

LOAD_KILLS = 400 if LONG else 40
DAEMON_LOAD_KILLS = 100 if LONG else 6
# All cases together, at least.
KILLS = 2000 if LONG else 200
KILLED = 128 + signal.SIGKILL

lance = Lance()
# By the stepper, case by case; and at random times.
chosen, at_random = [], []


def cases():
    for operation in KINDS:
        yield "pinctl %s, killed at every call that changes a file" % operation, pinctl_killed, operation
    yield "pinctl commit, killed at every call that changes a file", pinctl_killed, "commit"
    if LONG:
        for operation in (*KINDS, "commit"):
            yield "pinctl %s, killed at every system call" % operation, pinctl_killed_anywhere, operation
    for operation in ("register", "renew", "release"):
        yield "the daemon, killed in %s" % operation, daemon_killed, operation
    yield "pinctl, killed at random times under load", load
    yield "the daemon, killed at random times under load", daemon_load
    yield "that was at least %d kills" % KILLS, enough


# --- one operation at a time ------------------------------------------------------------------------------------------


def check_and_repeat(operation, at, acknowledged):
    """Look at what a kill left, then do the same again, undisturbed. Whether it had happened."""
    landed = operation.look(at, acknowledged)
    lance.opens(at, operation.before.version + landed)
    must(pinctl(at, *operation.words))
    assert operation.look(at, True)
    operation.check_guards(at)
    return landed


def report(killed, landed):
    return "killed %d times, %d of them after it had happened; Lance was asked %d times" % (killed, landed, lance.asked)


def kill_each(operation, folder, numbers, options):
    at = os.path.join(folder, "t.lance")
    killed = landed = 0
    for number in numbers:
        operation.copy(at)
        done = stepped(at, [*options, "-n", number, "-k"], operation.words)
        if done.status == KILLED:
            killed += 1
        else:
            equal(done.status, 0, "status without a kill at call %d (%s)" % (number, done))
        try:
            landed += check_and_repeat(operation, at, done.status == 0 or bool(done.out))
        except AssertionError as error:
            raise AssertionError("killed at call %d: %s" % (number, error))
    assert 0 < landed < killed, report(killed, landed)
    chosen.append(killed)
    return report(killed, landed)


def prepare(kind, folder):
    return Commit(folder) if kind == "commit" else Operation(kind, folder)


def pinctl_killed(kind):
    with scratch() as folder:
        operation = prepare(kind, folder)
        at = operation.copy(os.path.join(folder, "t.lance"))
        names = calls_of(at, operation.words, ["-d", at])
        numbers = [number for number, name in enumerate(names, 1) if LONG or name in CHANGES]
        return kill_each(operation, folder, numbers, ["-d", at])


def pinctl_killed_anywhere(kind):
    with scratch() as folder:
        operation = prepare(kind, folder)
        at = operation.copy(os.path.join(folder, "t.lance"))
        return kill_each(operation, folder, range(1, len(calls_of(at, operation.words)) + 1), [])


def daemon_killed(kind):
    """Each kill takes a daemon of its own, so that the short form goes in strides."""
    with scratch() as folder:
        operation = Operation(kind, folder)
        killed = landed = 0
        number = 1
        while True:
            at = operation.copy(os.path.join(folder, "t.lance"))
            mount = Mount(at, folder, stepper=["-k"])
            try:
                mount.arm(number)
                try:
                    operation.on_mount(mount)
                    acknowledged = True
                except OSError:
                    acknowledged = False
                died = not acknowledged or mount.process.poll() is not None
            finally:
                mount.clear()
            killed += died
            landed += check_and_repeat(operation, at, acknowledged) and died
            if not died:
                break
            number += 1 if LONG else 7
        assert killed > 2, report(killed, landed)
        chosen.append(killed)
        return report(killed, landed)


# --- under load -------------------------------------------------------------------------------------------------------


class Client(threading.Thread):
    """
    Registers, renews and releases pins of its own until `enough`, and knows for each in which states it may be: a set of expiries, None for
    not there. `ask(kind, pin, until)` does it and says True, False (certainly nothing changed) or None (who knows).
    """

    def __init__(self, number, ask, enough):
        super().__init__(daemon=True)
        self.chance = random.Random(number)
        self.ask, self.enough = ask, enough
        self.pins, self.acknowledged, self.error = {}, 0, None

    def run(self):
        try:
            while not self.enough():
                self.step()
        except Exception as error:
            self.error = error

    def step(self):
        chance = self.chance
        pin = chance.choice(list(self.pins)) if self.pins and chance.random() < 0.7 else new_id()
        states = self.pins.setdefault(pin, {None})
        if len(states) > 1:
            held = self.ask("confirm", pin, None)
            if held is not None:
                self.pins[pin] = {state for state in states if (state is not None) == held}
                assert self.pins[pin], "pin %s is %s; it may be %s" % (pin, "held" if held else "not held", states)
            return
        (state,) = states
        kind = "register" if state is None else chance.choice(["renew", "renew", "release"])
        text, at = stamp(TERM + self.chance.randrange(TERM))
        after = None if kind == "release" else at if state is None else max(state, at)
        done = self.ask(kind, pin, text)
        self.acknowledged += done is True
        if done is not False:
            self.pins[pin] = {after} if done else states | {after}


def judge_pins(head, clients):
    for client in clients:
        for pin, states in client.pins.items():
            found = head.pins[pin].expires if pin in head.pins else None
            assert found in states, "pin %s is %s; it may be %s" % (pin, found, states)
    equal(set(head.pins).difference(*(client.pins for client in clients)), set(), "pins of nobody")


def judge(at, clients):
    for client in clients:
        if client.error:
            raise client.error
    t = table.Table(at)
    lance.opens(at, t.head.version)
    judge_pins(t.head, clients)
    assert sum(client.acknowledged for client in clients) > 0
    # The next one does not trip over anything, and every pin can be confirmed by it.
    must(pinctl(at, "register", "+2h", "--id", new_id()))
    equal(table.Table(at).head.version, t.head.version + 1, "head")
    equal(pinctl(at, "check").status, 0, "status of check")
    return t


def words_of(kind, pin, until_text):
    """What to say to pinctl."""
    return {"register": ["register", until_text, "--id", pin], "renew": ["renew", pin, until_text]}.get(kind, [kind, pin])


def ask_mount(pins, kind, pin, until_text):
    """The same of a mount's directory of pins: what Client's `ask` says. Without a daemon the directory is not there, or not connected."""
    path = os.path.join(pins, pin)
    try:
        if kind == "register":
            os.mkdir("%s,expires_at=%s" % (path, until_text))
        elif kind == "renew":
            with open(path, "w") as f:
                f.write(until_text)
        elif kind == "release":
            os.unlink(path)
        else:
            # Relative to what is open, the answer is that of one daemon: once it is gone, there is none.
            opened = os.open(pins, os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.stat(pin, dir_fd=opened)
            except FileNotFoundError:
                return False
            finally:
                os.close(opened)
        return True
    except OSError:
        return None


def load():
    kills = []
    chance = random.Random(1)

    def ask(kind, pin, until_text):
        words = words_of(kind, pin, until_text)
        process = subprocess.Popen([PINCTL, "-d", at, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT)
        if kind != "confirm" and chance.random() < 0.6:
            try:
                # Of times that did not go by this machine a fast one would always be done before, and never killed.
                process.wait(chance.uniform(0.3, 4) * usual)
            except subprocess.TimeoutExpired:
                process.kill()
        out, err = process.communicate()
        assert "Sanitizer" not in err, err
        if process.returncode == -signal.SIGKILL:
            kills.append(kind)
            return True if out else None
        if kind == "confirm":
            assert process.returncode in (0, 1), err
            return process.returncode == 0
        # What is not killed has nobody to blame: 75 after a hundred lost races would be one.
        equal(process.returncode, 0, "%s: %s" % (words, err))
        return True

    with scratch() as folder:
        at = new_table(folder)
        usual = time_of_one(at)
        clients = [Client(number, ask, lambda: len(kills) >= LOAD_KILLS) for number in range(4)]
        for client in clients:
            client.start()
        for client in clients:
            client.join()
        t = judge(at, clients)
        at_random.append(len(kills))
        return "%d kills, %d versions, %d pins" % (len(kills), t.head.version, len(t.head.pins))


def daemon_load():
    state = {"kills": 0, "over": False}
    chance = random.Random(2)

    def ask(*words):
        answer = ask_mount(folder + "/mnt/pins", *words)
        if answer is None and os.path.ismount(folder + "/mnt"):
            time.sleep(0.005)
        return answer

    with scratch() as folder:
        at = new_table(folder)
        mount = Mount(at, folder)
        clients = [Client(number, ask, lambda: state["over"]) for number in range(4)]
        try:
            for client in clients:
                client.start()
            for _ in range(DAEMON_LOAD_KILLS):
                time.sleep(chance.uniform(0.05, 0.4))
                mount.process.kill()
                mount.clear()
                mount = Mount(at, folder)
            # On a slow machine every daemon may have died before it had answered anybody: the last one does.
            until(lambda: any(client.acknowledged or client.error for client in clients), "a client is answered")
            time.sleep(0.1)
            state["over"] = True
            for client in clients:
                client.join()
            t = judge(at, clients)
            mount.stop()
            at_random.append(DAEMON_LOAD_KILLS)
        finally:
            state["over"] = True
            mount.clear()
        return "%d kills, %d versions, %d pins" % (DAEMON_LOAD_KILLS, t.head.version, len(t.head.pins))


def enough():
    if not chosen:
        raise Skip("processes cannot be traced here")
    killed = sum(chosen) + sum(at_random)
    assert killed >= KILLS, killed
    return "%d kills" % killed
