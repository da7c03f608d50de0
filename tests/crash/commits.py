"""
kill -9 at every call of a commit of prepared work: it is committed whole or not at all, the files it brings are whole in one place, and the same command
again ends it.
"""

import json
import os
import shutil

import table
from operation import CHANGES
from world import LONG, Lance, calls_of, equal, must, new_id, new_table, pinctl, scratch, stepped

KILLED = 128 + 9
KINDS = ("append", "delete", "update", "compaction")

lance = Lance()


def cases():
    for kind in KINDS:
        yield "pinctl commit, %s, killed at every call that changes a file" % kind, killed, kind, True
        if LONG:
            yield "pinctl commit, %s, killed at every system call" % kind, killed, kind, False
    yield "Lance was asked", lambda: "%d times" % lance.asked


# --- messages ---------------------------------------------------------------------------------------------------------


def varint(value):
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes(out + bytes([value]))


def field(number, value):
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def numbers(packed):
    found, at = [], 0
    while at < len(packed):
        value, at = table.varint(packed, at)
        found.append(value)
    return found


# --- the work ---------------------------------------------------------------------------------------------------------


class Fragment:
    """One of the head's: its message, and of its one file."""

    def __init__(self, data):
        self.data, parts = data, table.message(data)
        self.id, self.rows, self.file = parts.get(1, 0), parts.get(4, 0), parts[2]
        self.has_deletions = 3 in parts
        self.path = str(table.message(self.file)[1], "utf-8")


def fragments(at):
    names = [name for name in os.listdir(at + "/_versions") if table.version_of(name)]
    name = max(names, key=lambda name: table.version_of(name)[0])
    with open(os.path.join(at, "_versions", name), "rb") as f:
        data = f.read()
    body = table.section(data, int.from_bytes(data[-16:-8], "little"))
    return [Fragment(one) for one in table.all_of(body, 2)]


def as_json(fragment, path):
    """As Lance's Python writes it, and of this file."""
    parts = table.message(fragment.file)
    file = {
        "path": path,
        "fields": numbers(parts[2]),
        "column_indices": numbers(parts[3]),
        "file_major_version": parts.get(4, 0),
        "file_minor_version": parts.get(5, 0),
        "file_size_bytes": parts.get(6),
        "base_id": None,
    }
    return {
        "id": fragment.id if path == fragment.path else 0,
        "files": [file],
        "deletion_file": None,
        "row_id_meta": None,
        "physical_rows": fragment.rows,
    }


class Work:
    """
    A pinned table and, beside it, work for it: an append of two files of a scratch dataset, given as JSON; a transaction that deletes a fragment; one
    that replaces a fragment by a file of the scratch dataset; the result of a compaction of one, as JSON, whose file is in the table.
    """

    def __init__(self, kind, folder):
        self.home = os.path.join(folder, "base")
        os.mkdir(self.home)
        at = new_table(self.home)
        must(pinctl(at, "register", "+2h"))
        self.before = table.Table(at).head
        self.old = fragments(at)
        whole = [fragment for fragment in self.old if not fragment.has_deletions]
        self.files = ["new%d.lance" % i for i in range({"append": 2, "update": 1}.get(kind, 0))]
        os.makedirs(self.home + "/scratch/data")
        for name, fragment in zip(self.files, whole):
            shutil.copy(os.path.join(at, "data", fragment.path), os.path.join(self.home, "scratch/data", name))
        self.made = list(self.files)
        self.gone, self.uuid, self.option = [whole[0].id], None, "--transaction"
        if kind == "append":
            self.gone, self.option = [], "--append"
            text = json.dumps([as_json(fragment, name) for name, fragment in zip(self.files, whole)]).encode()
        elif kind == "compaction":
            self.made, self.option = ["compacted.lance"], "--rewrite"
            shutil.copy(os.path.join(at, "data", whole[0].path), os.path.join(at, "data", self.made[0]))
            text = self.result(whole[0])
        else:
            self.uuid = new_id()
            text = self.transaction(kind, whole[0])
        self.input = os.path.join(folder, "input")
        with open(self.input, "wb") as f:
            f.write(text)

    def result(self, old):
        parts = {"metrics": {}, "read_version": self.before.version, "row_addrs": None}
        parts.update(original_fragments=[as_json(old, old.path)], new_fragments=[as_json(old, self.made[0])])
        return json.dumps(parts).encode()

    def transaction(self, kind, fragment):
        if kind == "delete":
            operation = field(101, field(2, varint(fragment.id)))
        else:
            file = field(1, self.files[0].encode()) + b"".join(field(n, v) for n, v in table.fields(fragment.file) if n != 1)
            operation = field(108, field(1, varint(fragment.id)) + field(3, field(2, file) + field(4, fragment.rows)))
        return field(1, self.before.version) + field(2, self.uuid.encode()) + operation

    def copy(self, home):
        """A copy of table and scratch dataset; the words that commit."""
        shutil.rmtree(home, ignore_errors=True)
        shutil.copytree(self.home, home)
        return ["commit", self.option, self.input, "--from", home + "/scratch"]

    def look(self, home, acknowledged):
        """Whether it has happened; once at most, whole, and if that was acknowledged, certainly."""
        at = home + "/t.lance"
        t = table.Table(at)
        landed = t.head.version != self.before.version
        equal(t.head.version, self.before.version + landed, "head")
        equal(t.head.pins, self.before.pins, "pins")
        assert landed or not acknowledged, "it was acknowledged and has not happened"
        if landed and self.uuid:
            equal(t.head.transaction.uuid, self.uuid, "transaction")
        want = [fragment.path for fragment in self.old if not landed or fragment.id not in self.gone]
        equal([fragment.path for fragment in fragments(at)], want + (self.made if landed else []), "files of the head")
        for name in self.files:
            places = [os.path.join(place, "data", name) for place in (at, home + "/scratch")]
            sizes = [os.path.getsize(place) for place in places if os.path.exists(place)]
            expected = [fragment for fragment in self.old if not fragment.has_deletions][self.files.index(name)]
            equal(set(sizes), {os.path.getsize(os.path.join(at, "data", expected.path))}, "sizes of " + name)
            assert os.path.exists(places[0 if landed else 1]), name + " is not where it must be"
        return landed

    def check_moved(self, home):
        for name in self.files:
            found = [os.path.exists(os.path.join(home, place, "data", name)) for place in ("t.lance", "scratch")]
            equal(found, [True, False], "in the table, in the scratch dataset: " + name)


def killed(kind, on_storage):
    with scratch() as folder:
        work = Work(kind, folder)
        home = os.path.join(folder, "w")
        at = home + "/t.lance"
        options = ["-d", home] if on_storage else []
        names = calls_of(at, work.copy(home), options)
        work.look(home, True)
        work.check_moved(home)
        kills = happened = 0
        for number, name in enumerate(names, 1):
            if on_storage and name not in CHANGES:
                continue
            words = work.copy(home)
            done = stepped(at, [*options, "-n", number, "-k"], words)
            if done.status == KILLED:
                kills += 1
            else:
                equal(done.status, 0, "status without a kill at call %d (%s)" % (number, done))
            try:
                landed = work.look(home, done.status == 0 or bool(done.out))
                again = json.loads(must(pinctl(at, *words, "--json")))
                equal((again["already"], again["version"]), (landed, work.before.version + 1), "already, version")
                assert work.look(home, True)
                work.check_moved(home)
                if not on_storage or number % 4 == 0:
                    lance.opens(at, work.before.version + 1)
            except AssertionError as error:
                raise AssertionError("killed at call %d, %s: %s" % (number, name, error))
            happened += landed
        report = "killed %d times, %d of them after it had happened" % (kills, happened)
        assert 0 < happened < kills, report
        return report
