"""Names are migrated to V2 while pins are committed under V1 names: the table stays whole, whoever is first."""

import os
import random
import subprocess
import threading
import time
import uuid

import lance

from support import LONG, PINCTL, equal, pinctl, rows, scratch, transaction

ROUNDS = 100 if LONG else 20
WRITERS = 3


def cases():
    during, told = [], []
    for number in range(1, ROUNDS + 1):
        yield "round %d: the table opens, and every pin that was acknowledged is held" % number, one_round, number, during, told
    yield "in some rounds pins were committed while names changed", lambda: equal(any(during), True, "a race")
    yield "the migration itself is rarely told of names of both kinds", lambda: equal(len(told) <= ROUNDS // 4, True, told)


class Writer(threading.Thread):
    """Registers pins one after the other until it is told to stop. acked: ids; failed: what pinctl said."""

    def __init__(self, at):
        super().__init__(daemon=True)
        self.at, self.acked, self.failed, self.stop = at, [], [], False

    def run(self):
        while not self.stop:
            pin = str(uuid.uuid4())
            done = subprocess.run(
                [PINCTL, "-d", self.at, "register", "+2h", "--id", pin],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            if done.returncode == 0:
                self.acked.append(pin)
            else:
                self.failed.append((done.returncode, done.stderr))


def one_round(number, during, told):
    chance = random.Random(number)
    with scratch() as folder:
        at = os.path.join(folder, "t.lance")
        lance.write_dataset(rows(0), at, enable_v2_manifest_paths=False)
        for row in range(1, chance.choice([3, 30, 100])):
            lance.write_dataset(rows(row), at, mode="append")
        pinctl(at, "enable", "--apply")
        equal([name for name in os.listdir(at + "/_versions") if name[:1] != "l" and len(name) > 15], [], "V2 names")

        writers = [Writer(at) for _ in range(WRITERS)]
        for writer in writers:
            writer.start()
        handle = lance.dataset(at)
        time.sleep(chance.uniform(0, 0.1))
        before = sum(len(writer.acked) for writer in writers)
        try:
            handle.migrate_manifest_paths_v2()
        except OSError as error:
            # When it is through it looks at the table, where a name that it had not listed may not have followed yet.
            told.append(str(error))
        for writer in writers:
            writer.stop = True
        for writer in writers:
            writer.join(60)
        during.append(sum(len(writer.acked) for writer in writers) > before)
        judge(at, writers)


def judge(at, writers):
    equal([told for writer in writers for told in writer.failed], [], "registrations that failed")
    names = [name for name in os.listdir(at + "/_versions") if name.endswith(".manifest")]
    equal([name for name in names if len(name) != 29], [], "V1 names")

    ds = lance.dataset(at)
    equal([entry["version"] for entry in ds.versions()], list(range(1, ds.version + 1)), "versions")
    for version in range(1, ds.version + 1):
        assert transaction(ds, version), "version %d has no transaction" % version
    held = sorted(pin["id"] for pin in pinctl(at, "ls", "--json"))
    equal(held, sorted(pin for writer in writers for pin in writer.acked), "pins on the head")
    pinctl(at, "check")
