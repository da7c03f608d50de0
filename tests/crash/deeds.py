"""
What pinctl does to a table beside what it does to pins: on which table, by which words, what the table must be before and after, and how the same words
end what was killed. Tables are fixtures, and what is prepared for them is made here of their own files.
"""

import json
import os
import shlex
import shutil

import table
from operation import put
from version import SCHEMA, Manifest, as_json, lance, lengthen_history, of_file, result_json
from world import BLOCKED, DONE, FAILED, FIXTURE, Skip, equal, must, new_id, new_table, pinctl

FRI = os.path.join(os.path.dirname(FIXTURE), "fri.lance")
# Operations.
DELETE, OVERWRITE, CREATE_INDEX, UPDATE, CONFIGURE = 101, 102, 103, 108, 110


class Deed:
    """
    Done in `home`, of which start() makes a new copy each time: t.lance, pinned, and what else there is. Of main, `before` and `after` are what a
    version says that is not this deed's and one that is.
    """

    fixture = FIXTURE
    # The last change is what makes it happen.
    at_last = False
    # In the short form, of how many changes one is killed: where they are those of another deed, or many of one kind.
    stride = 1

    def __init__(self, folder):
        self.folder, self.home, self.kept = folder, os.path.join(folder, "w"), os.path.join(folder, "kept")
        self.at = self.home + "/t.lance"
        os.mkdir(self.home)
        self.make_table()
        self.prepare()
        self.head = table.Table(self.at).head
        self.before = self.after = Manifest(self.at).says()
        self.expect()
        shutil.copytree(self.home, self.kept)
        self.lance_before = self.ask()

    def make_table(self):
        new_table(self.home, fixture=self.fixture)
        self.pin()

    def pin(self):
        must(pinctl(self.at, "register", "+2h"))

    def prepare(self):
        pass

    def expect(self):
        """Of self.before make self.after."""

    def start(self):
        shutil.rmtree(self.home)
        shutil.copytree(self.kept, self.home)

    def once(self):
        """Do it undisturbed; what Lance says then is what it must say ever after."""
        self.start()
        must(pinctl(self.at, *self.words))
        assert self.look(True)
        self.check_end()
        self.lance_after = self.ask()

    def ask(self):
        return lance.ask("content", self.at)

    def main(self):
        """Whether main has it; nothing but its own version was added, and pins are what they were."""
        head = table.Table(self.at).head
        landed = head.version != self.head.version
        equal(head.version, self.head.version + landed, "head")
        equal(head.pins, self.head.pins, "pins")
        equal(Manifest(self.at).says(), self.after if landed else self.before, "the head")
        return landed

    def landed(self):
        return self.main()

    def look(self, acknowledged):
        """Whether it has happened; once at most, whole, and if that was acknowledged, certainly."""
        landed = self.landed()
        assert landed or not acknowledged, "it was acknowledged and has not happened"
        return landed

    def told(self, done):
        """Whether pinctl has acknowledged it."""
        return done.status == DONE or bool(done.out)

    def admits(self, done):
        """Whether what failed says that it has happened all the same."""
        return False

    def again(self, landed):
        """The same words again end it."""
        must(pinctl(self.at, *self.words))

    def check_end(self):
        """What else must hold once it was ended."""

    def finish(self, landed, ask=True):
        if ask:
            equal(self.ask(), self.lance_after if landed else self.lance_before, "what Lance reads")
        self.again(landed)
        assert self.look(True)
        self.check_end()
        if ask:
            equal(self.ask(), self.lance_after, "what Lance reads in the end")


class Commit(Deed):
    """
    Prepared work, whose new files lie in a scratch dataset beside the table: `new` of them. `source`: the first of the head's fragments without
    deletions, of which they are copies.
    """

    option, new = "--transaction", 0

    def prepare(self):
        self.base = Manifest(self.at)
        self.source = self.base.whole[0]
        self.uuid = new_id()
        self.files = ["new%d.lance" % i for i in range(self.new)]
        os.makedirs(self.home + "/scratch/data")
        for name, fragment in zip(self.files, self.base.whole):
            shutil.copy(os.path.join(self.at, "data", fragment.path), self.home + "/scratch/data/" + name)
        with open(self.home + "/input", "wb") as f:
            f.write(self.input())
        self.words = ["commit", self.option, self.home + "/input"]
        self.words += ["--from", self.home + "/scratch"] if self.new else []

    def input(self):
        number, body = self.operation()
        return put(1, table.head(self.at)) + put(2, self.uuid.encode()) + put(number, body)

    def expect(self):
        kept = [path for path in self.before["files"] if path not in self.removed()]
        self.after = dict(self.before, files=kept + self.added())

    def removed(self):
        return []

    def added(self):
        return self.files

    def landed(self):
        landed = self.main()
        if landed and self.option == "--transaction":
            equal(table.Table(self.at).head.transaction.uuid, self.uuid, "transaction")
        for name, fragment in zip(self.files, self.base.whole):
            here, there = (os.path.join(self.home, place, "data", name) for place in ("t.lance", "scratch"))
            size = os.path.getsize(os.path.join(self.kept if os.path.exists(self.kept) else self.home, "t.lance/data", fragment.path))
            equal({os.path.getsize(at) for at in (here, there) if os.path.exists(at)}, {size}, "sizes of " + name)
            assert os.path.exists(here if landed else there), name + " is not where it must be"
        return landed

    def again(self, landed):
        again = json.loads(must(pinctl(self.at, *self.words, "--json")))
        equal((again["already"], again["version"]), (landed, self.head.version + 1), "already, version")

    def check_end(self):
        for name in self.files:
            found = [os.path.exists(os.path.join(self.home, place, "data", name)) for place in ("t.lance", "scratch")]
            equal(found, [True, False], "in the table, in the scratch dataset: " + name)


class Append(Commit):
    name, option, new = "commit --append", "--append", 2

    def input(self):
        return json.dumps([as_json(fragment, name) for name, fragment in zip(self.files, self.base.whole)]).encode()


class Delete(Commit):
    name = "commit of a delete"
    stride = 4

    def operation(self):
        return DELETE, put(2, bytes([self.source.id]))

    def removed(self):
        return [self.source.path]


class Update(Commit):
    name, new = "commit of an update", 1

    def operation(self):
        return UPDATE, put(1, bytes([self.source.id])) + put(3, of_file(self.source, self.files[0]))

    def removed(self):
        return [self.source.path]


class Overwrite(Commit):
    name, new = "commit of an overwrite", 1
    stride = 4

    def operation(self):
        schema = b"".join(put(2, one) for one in table.all_of(self.base.body, SCHEMA))
        return OVERWRITE, put(1, of_file(self.source, self.files[0])) + schema

    def removed(self):
        return self.before["files"]


class Configure(Commit):
    name = "commit of a change of config"
    stride = 4

    def operation(self):
        return CONFIGURE, put(6, put(1, put(1, b"crash.key") + put(2, b"value")))

    def expect(self):
        self.after = dict(self.before, config=sorted([*self.before["config"], (b"crash.key", b"value")]))


class DropIndex(Commit):
    name, fixture = "commit that drops an index", FRI
    stride = 4

    def operation(self):
        return CREATE_INDEX, put(2, self.base.indices[b"id_idx"])

    def expect(self):
        self.after = dict(self.before, indices=[])


class Rewrite(Commit):
    """Of a fragment of a table with records of moved rows: what the pin needs is recorded behind them, stamped with the version before."""

    name, option, fixture = "commit --rewrite", "--rewrite", FRI

    def input(self):
        # Lance compacts into the table.
        shutil.copy(os.path.join(self.at, "data", self.source.path), self.at + "/data/moved.lance")
        return result_json(self.at, self.source, "moved.lance")

    def removed(self):
        return [self.source.path]

    def added(self):
        return ["moved.lance"]

    def expect(self):
        super().expect()
        self.after["records"] = [*self.before["records"], self.head.version]


class LongRewrite(Rewrite):
    """The same, where the history is kept in a file of its own."""

    name = "commit --rewrite with a long history"
    stride = 4

    def make_table(self):
        new_table(self.home, fixture=self.fixture, change=lengthen_history)
        self.pin()


class Trim(Deed):
    """Two records of before the pin, that no index needs any more, and one of after it."""

    name, fixture = "trim", FRI

    def pin(self):
        m = Manifest(self.at)
        self.commit("--transaction", put(1, table.head(self.at)) + put(2, new_id().encode()) + put(103, put(2, m.indices[b"id_idx"])))
        super().pin()
        source = m.whole[0]
        shutil.copy(os.path.join(self.at, "data", source.path), self.at + "/data/moved.lance")
        self.commit("--rewrite", result_json(self.at, source, "moved.lance"))

    def commit(self, option, data):
        with open(self.folder + "/input", "wb") as f:
            f.write(data)
        must(pinctl(self.at, "commit", option, self.folder + "/input"))

    def prepare(self):
        self.words = ["trim", "--apply"]

    def expect(self):
        equal(len(self.before["records"]), 3, "records")
        self.after = dict(self.before, records=self.before["records"][2:])

    def again(self, landed):
        again = json.loads(must(pinctl(self.at, *self.words, "--json")))
        equal((again["committed"], len(again["records"])), (not landed, 1 if landed else 3), "committed, records that were there")


class Restore(Deed):
    """Of a version with fewer records. Done twice, the second restores the same again."""

    name, fixture, version = "restore", FRI, 9

    def prepare(self):
        self.words = ["restore", str(self.version), "--apply"]
        self.twice = False

    def start(self):
        super().start()
        self.twice = False

    def expect(self):
        self.after = Manifest(self.at, self.version).says()
        assert len(self.after["records"]) < len(self.before["records"])

    def main(self):
        if not self.twice:
            return super().main()
        head = table.Table(self.at).head
        equal((head.version, head.pins), (self.head.version + 2, self.head.pins), "head, pins")
        equal(Manifest(self.at).says(), self.after, "the head")
        return True

    def ask(self):
        answer = super().ask()
        # Not how many versions there are.
        return answer and answer.partition(", ")[2]

    def again(self, landed):
        super().again(landed)
        self.twice = landed


def refused(done, sentence):
    assert done.status == FAILED and sentence in done.err, done


class Branch(Deed):
    """Main stays as it is."""

    def has_ref(self):
        return os.path.exists(self.at + "/_refs/branches/dev.json")

    def versions(self):
        at = self.at + "/tree/dev/_versions"
        return [name for name in os.listdir(at) if table.version_of(name)] if os.path.isdir(at) else []

    def main(self):
        assert not super().main()

    def make_branch(self):
        must(pinctl(self.at, "branch", "create", "dev", "--from", "3"))

    def check_whole(self):
        """As Lance reads it, and as it is listed."""
        says = [entry for entry in json.loads(must(pinctl(self.at, "branch", "ls", "--json"))) if entry["name"] == "dev"]
        equal([entry["head"] for entry in says], [3], "heads of branches of this name")


class BranchCreate(Branch):
    name = "branch create"

    def prepare(self):
        self.words = ["branch", "create", "dev", "--from", "3"]

    def landed(self):
        self.main()
        if self.has_ref():
            self.check_whole()
        return self.has_ref()

    def again(self, landed):
        done = pinctl(self.at, *self.words)
        if landed:
            return refused(done, "there is a branch dev already")
        if self.versions() and not self.has_ref():
            # What is left is not touched but when that is asked for.
            assert done.status == BLOCKED, done
            advice = done.err.partition("with `pinctl ")[2].partition("`")[0]
            must(pinctl(self.at, *shlex.split(advice)))
            done = pinctl(self.at, *self.words)
        equal(done.status, DONE, "status (%s)" % done)


class BranchDelete(Branch):
    name = "branch delete"

    def prepare(self):
        self.make_branch()
        self.words = ["branch", "delete", "dev"]

    def landed(self):
        self.main()
        if self.has_ref():
            self.check_whole()
        return not self.has_ref()

    def again(self, landed):
        done = pinctl(self.at, *self.words)
        if not landed:
            return equal(done.status, DONE, "status (%s)" % done)
        refused(done, "no branch")
        if self.versions():
            assert "--force" in done.err, done
        done = pinctl(self.at, *self.words, "--force")
        assert done.status == DONE or "no branch" in done.err, done

    def admits(self, done):
        return "is deleted, but" in done.err

    def check_end(self):
        assert not os.path.exists(self.at + "/tree/dev"), "something is left of the branch"


class BranchForce(BranchDelete):
    """Of what a creation left."""

    name, at_last = "branch delete --force", True

    def prepare(self):
        self.make_branch()
        os.unlink(self.at + "/_refs/branches/dev.json")
        self.words = ["branch", "delete", "dev", "--force"]

    def landed(self):
        self.main()
        return not os.path.exists(self.at + "/tree/dev")

    def again(self, landed):
        done = pinctl(self.at, *self.words)
        return refused(done, "no branch") if landed else equal(done.status, DONE, "status (%s)" % done)


class TagCreate(Branch):
    name = "tag create"

    def prepare(self):
        self.words = ["tag", "create", "kept", "2"]

    def landed(self):
        self.main()
        tags = {entry["name"]: entry["version"] for entry in json.loads(must(pinctl(self.at, "tag", "ls", "--json")))}
        assert tags.get("kept") in (None, 2), tags
        return "kept" in tags

    def again(self, landed):
        done = pinctl(self.at, *self.words)
        return refused(done, "there is a tag kept already") if landed else equal(done.status, DONE, "status (%s)" % done)


class TagDelete(TagCreate):
    name = "tag delete"

    def prepare(self):
        must(pinctl(self.at, "tag", "create", "kept", "2"))
        self.words = ["tag", "delete", "kept"]

    def landed(self):
        return not super().landed()

    def again(self, landed):
        done = pinctl(self.at, *self.words)
        return refused(done, "no tag kept") if landed else equal(done.status, DONE, "status (%s)" % done)


class Clone(Branch):
    name, refusal = "clone", "is a table already"

    def prepare(self):
        self.to = self.home + "/other.lance"
        self.words = ["clone", self.to, "--from", "3"]

    def landed(self):
        self.main()
        at = self.to + "/_versions"
        return os.path.isdir(at) and any(map(table.version_of, os.listdir(at)))

    def ask(self):
        other = lance.ask("content", self.to) if self.landed() else ""
        return super().ask(), other

    def again(self, landed):
        done = pinctl(self.at, *self.words)
        return refused(done, self.refusal) if landed else equal(done.status, DONE, "status (%s)" % done)


class Copy(Clone):
    name, refusal = "copy", "is there already"
    stride = 10

    def prepare(self):
        super().prepare()
        self.words = ["copy", self.to]


class FromCopy(Deed):
    """Two appends of Lance's on a copy, each of which is committed by itself."""

    name, stride = "commit --from-copy", 3

    def prepare(self):
        if not lance.process:
            raise Skip("there is no Lance to write to a copy")
        copy = self.home + "/other.lance"
        must(pinctl(self.at, "copy", copy))
        for _ in range(2):
            lance.ask("append", copy)
        self.made = [fragment.path for fragment in Manifest(copy).fragments]
        self.words = ["commit", "--from-copy", copy]

    def expect(self):
        self.after = dict(self.before, files=self.made)
        equal((self.made[:-2], len(set(self.made))), (self.before["files"], len(self.made)), "files of the copy")

    def done(self):
        return table.head(self.at) - self.head.version

    def main(self):
        head, done = table.Table(self.at).head, self.done()
        assert 0 <= done <= 2, done
        equal(head.pins, self.head.pins, "pins")
        equal(Manifest(self.at).says(), dict(self.after, files=self.made[: len(self.made) - 2 + done]), "the head")
        return done == 2

    def told(self, done):
        return done.status == DONE or done.out.count("committed") == 2

    def admits(self, done):
        return "of the copy are in: its versions up to %d," % (self.head.version + 2) in done.err

    def finish(self, landed, ask=True):
        super().finish(landed, ask and self.done() != 1)


COMMITS = (Append, Delete, Update, Overwrite, Configure, DropIndex, Rewrite, LongRewrite)
DEEDS = (*COMMITS, Trim, Restore, BranchCreate, BranchDelete, BranchForce, TagCreate, TagDelete, Clone, Copy, FromCopy)
