"""Pins are enabled and registered while a writer appends as fast as it can through one open handle."""

import json
import os
import subprocess
import threading
import uuid

import lance

from support import LONG, PINCTL, assert_refusal, equal, pinctl, refused, rows, scratch, transaction, until

ROUNDS = 1000 if LONG else 100


def cases():
    during = []
    for number in range(1, ROUNDS + 1):
        yield "round %d: nothing is lost on either side" % number, one_round, number, during
    yield "in some rounds the writer committed while pins were being enabled", lambda: equal(any(during), True, "a race")


class Writer(threading.Thread):
    """Appends rows 1, 2, ... until it is refused. acked: (version, row) of each append that Lance said is committed."""

    def __init__(self, at):
        super().__init__(daemon=True)
        self.handle = lance.dataset(at)
        self.acked = []
        self.error = None

    def run(self):
        row = 1
        try:
            while True:
                self.handle.insert(rows(row))
                self.acked.append((self.handle.version, row))
                row += 1
        except BaseException as error:
            self.error = error


def start(at, *words):
    return subprocess.Popen(
        [PINCTL, "-d", at, *words, "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def finish(process):
    """Exit status, and the answer or what it said on stderr."""
    out, err = process.communicate(timeout=120)
    return process.returncode, json.loads(out) if process.returncode == 0 else err


def done(process):
    status, answer = finish(process)
    equal(status, 0, "exit status (%s)" % answer)
    return answer


def one_round(number, during):
    with scratch() as folder:
        at = os.path.join(folder, "t.lance")
        lance.write_dataset(rows(0), at)
        writer = Writer(at)
        writer.start()
        # The commits land at another moment of the writer's life in each round.
        until(lambda: len(writer.acked) >= number % 7 or writer.error, "the writer appends")

        eager, second, third = (str(uuid.uuid4()) for _ in range(3))
        before = len(writer.acked)
        enabling = start(at, "enable", "--apply")
        # Too early for some rounds: refused then, and asked again.
        registering = start(at, "register", "+2h", "--id", eager)
        enabled = done(enabling)["version"]
        answers = {}
        status, answer = finish(registering)
        if status == 0:
            answers[eager] = answer
        else:
            equal(status, 1, "exit status of a register before enable (%s)" % answer)
            answers[eager] = pinctl(at, "register", "+2h", "--id", eager, "--json")
        rivals = [(pin, start(at, "register", "+3h", "--id", pin)) for pin in (second, third)]
        answers.update((pin, done(process)) for pin, process in rivals)

        writer.join(60)
        during.append(len(writer.acked) > before)
        judge(at, writer, enabled, answers)


def judge(at, writer, enabled, answers):
    assert_refusal(writer.error)
    for handle in (writer.handle, lance.dataset(at)):
        refused(handle.insert, rows(10**6))

    ds = lance.dataset(at)
    appends = dict(writer.acked)
    commits = [enabled, *(answer["version"] for answer in answers.values())]
    # Nobody else wrote: each version is the first, an append its writer knows of, or a pin commit somebody was told of.
    equal([entry["version"] for entry in ds.versions()], sorted([1, *appends, *commits]), "versions")
    equal(ds.latest_version, max(commits), "latest_version")
    present = {0}
    for version in range(1, ds.version + 1):
        operation = transaction(ds, version)[1]
        if version in appends:
            present.add(appends[version])
            equal(operation, "Append", "operation of version %d" % version)
        elif version > 1:
            equal(operation, "UpdateConfig", "operation of version %d" % version)
        found = lance.dataset(at, version=version).to_table(columns=["id"]).column("id").to_pylist()
        equal(sorted(found), sorted(present), "rows of version %d" % version)

    equal(sorted(pin["id"] for pin in pinctl(at, "ls", "--json")), sorted(answers), "pins on the head")
    for pin, answer in answers.items():
        confirmed = pinctl(at, "confirm", pin, "--json")
        equal((confirmed["held"], confirmed["version"]), (True, ds.version), "confirmation of " + pin)
        equal(confirmed["pin"], answer["pin"], "record of " + pin)
        # A pin's source is the head that its commit replaced.
        source = answer["pin"]["source_version"]
        equal(source, answer["version"] - 1, "source version of " + pin)
        equal(answer["pin"]["source_transaction_uuid"], transaction(ds, source)[0], "source transaction of " + pin)
