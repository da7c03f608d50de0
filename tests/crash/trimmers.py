"""
Two trims that race with each other, with compactions and appends, and with pins that are registered and released. Of each version, by its bytes: what its
pins need of the records of moved rows was not dropped, and Lance follows the rows of each pin by what is left.
"""

import json
import os
import random
import shutil
import threading

import table
from deeds import Trim
from version import Manifest, as_json, followed, lance, result_json, stamp
from world import AGAIN, DONE, LONG, equal, must, new_id, pinctl, scratch

# Of each who has a part.
TURNS = 200 if LONG else 10
# Versions of which Lance is asked.
ASKED = 25 if LONG else 5


def cases():
    yield "%d turns of each" % TURNS, race


class Actor(threading.Thread):
    """Takes its turns; what they came to."""

    def __init__(self, name, race):
        super().__init__(daemon=True)
        self.name, self.race, self.at = name, race, race.at
        self.chance, self.error, self.results = random.Random(name), None, {}

    def run(self):
        try:
            for self.turn in range(TURNS):
                done = getattr(self, self.name.rstrip("12"))()
                assert done.status in (DONE, AGAIN), done
                self.results[done.status] = self.results.get(done.status, 0) + 1
        except Exception as error:
            self.error = error

    def new_file(self, fragment):
        name = "%s-%d.lance" % (self.name, self.turn)
        shutil.copy(os.path.join(self.at, "data", fragment.path), os.path.join(self.at, "data", name))
        return name

    def commit(self, option, data):
        path = os.path.join(self.race.folder, self.name)
        with open(path, "wb") as f:
            f.write(data)
        return pinctl(self.at, "commit", option, path)

    def trim(self):
        return pinctl(self.at, "trim", "--apply")

    def compact(self):
        fragment = self.chance.choice(Manifest(self.at).whole)
        return self.commit("--rewrite", result_json(self.at, fragment, self.new_file(fragment)))

    def append(self):
        fragment = self.chance.choice(Manifest(self.at).whole)
        return self.commit("--append", json.dumps(as_json(fragment, self.new_file(fragment))).encode())

    def pin(self):
        """There is always one at least: the first, until another has taken its place."""
        with self.race.lock:
            pins = self.race.pins
            pin = pins.pop(0 if self.chance.random() < 0.7 else -1) if len(pins) > 1 and self.chance.random() < 0.6 else None
        if pin:
            return pinctl(self.at, "release", pin)
        pin = new_id()
        done = pinctl(self.at, "register", "+2h", "--id", pin, "--no-guard")
        if done.status == DONE:
            self.race.pins.append(pin)
        return done


class Race(Trim):
    def __init__(self, folder):
        super().__init__(folder)
        self.pins, self.lock = list(self.head.pins), threading.Lock()


def race():
    with scratch() as folder:
        race = Race(folder)
        actors = [Actor(name, race) for name in ("trim1", "trim2", "compact", "append", "pin1", "pin2")]
        for actor in actors:
            actor.start()
        for actor in actors:
            actor.join()
        for actor in actors:
            if actor.error:
                raise actor.error
        dropped = judge(race.at, race.head.version)
        must(pinctl(race.at, "trim", "--apply"))
        oldest = min(pin.source_version for pin in table.Table(race.at).head.pins.values())
        assert all(number >= oldest for number in Manifest(race.at).stamps()), "something is left that nobody needs"
        equal(pinctl(race.at, "check").status, DONE, "status of check")
        assert dropped, "nothing was ever dropped"
        landed = ", ".join("%s %s" % (actor.name, actor.results) for actor in actors)
        return "%d versions, %d records dropped; %s; Lance was asked %d times" % (table.head(race.at), dropped, landed, lance.asked)


def judge(at, first):
    """Of each version after `first`. How many records went in all."""
    t, dropped = table.Table(at), 0
    before = Manifest(at, first).records()
    for version in range(first + 1, t.head.version + 1):
        now, pins = Manifest(at, version).records(), t.versions[version].pins.values()
        oldest = min(pin.source_version for pin in pins)
        kept = [record for record in before if record in now]
        equal(now[: len(kept)], kept, "version %d: records that stay, in their order" % version)
        equal([stamp(new) for new in now[len(kept) :]], [version - 1][: len(now) - len(kept)], "version %d: stamps of new records" % version)
        lost = [stamp(record) for record in before if record not in now]
        assert not lost or max(lost) < oldest, "version %d: records of %s are gone, and a pin holds %d" % (version, lost, oldest)
        if version % ASKED == 0 or version == t.head.version:
            for pin in pins:
                followed(at, pin.source_version, version)
        dropped += len(lost)
        before = now
    return dropped
