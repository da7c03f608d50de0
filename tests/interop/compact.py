"""Compactions that Lance plans and executes, and pinctl commits: rows, index answers and every pinned row's way to the head stay whole."""

import json
import os
import re
import shlex
import shutil
import subprocess

import lance
import pyarrow as pa
from lance.dataset import LanceOperation as Op
from lance.fragment import FragmentMetadata, write_fragments
from lance.optimize import Compaction, RewriteResult

import fri
import roaring
import wire
from deeds import commit
from manifest import fields, manifest, readable, unflag
from support import PINCTL, Skip, equal, pinctl, pinctl_status, scratch

KINDS = ("plain", "indexed", "tagged", "stable")


def cases():
    for kind in KINDS:
        yield "a compaction on a pinned table that is %s" % kind, pinned, kind
        yield "the same by Lance and by pinctl, without pins, on a table that is %s" % kind, like_lance, kind
    for kind in ("plain", "indexed", "tagged"):
        yield "results that waited while others committed, on a table that is %s" % kind, waited, kind
    yield "a transaction without row addresses is recorded by the deletion files", untold
    yield "one of whole fragments, whose rows stand backwards, is blocked", blocked
    yield "fragments that no pin follows, tagged", unfollowed
    for index in ("BTREE", "BITMAP", "INVERTED"):
        yield "one that remaps a %s at once, over a deferred one" % index, over_a_deferred, index
    yield "the same where its movement cannot be recorded", over_a_deferred_untold
    yield "of an unknown outcome the command that is printed tells", unknown
    yield "bad results: which, and nothing moves", bad
    yield "records are trimmed when nobody needs them", trimmed
    yield "nothing is trimmed that a pin needs", kept


# --- tables -----------------------------------------------------------------------------------------------------------


def new_table(kind, at):
    ds = lance.write_dataset(fri.rows(0, 40), at, max_rows_per_file=10, enable_stable_row_ids=kind == "stable")
    if kind != "plain":
        # Lance 14 keeps addresses in a BTREE even where rows have ids; pinctl does not remap those.
        ds.create_scalar_index("a", "BITMAP" if kind == "stable" else "BTREE")
    lance.dataset(at).delete("a in (3, 17)")
    if kind == "tagged":
        fri.tag(at)
    if kind in ("indexed", "tagged"):
        # Records that are there already.
        fri.compact(at, 20)
        lance.write_dataset(fri.rows(40, 20), at, mode="append", max_rows_per_file=10)


def pin(at):
    pinctl(at, "enable", "--apply")
    return pinctl(at, "register", "+2h").strip()


def append(at, folder, rows):
    """By way of a scratch dataset: Lance writes nothing into a flagged one."""
    more = write_fragments(rows, folder + "/scratch.lance", schema=rows.schema, max_rows_per_file=10)
    with open(folder + "/more.json", "w") as file:
        json.dump([f.to_json() for f in more], file)
    pinctl(at, "commit", "--append", folder + "/more.json", "--from", folder + "/scratch.lance")


def execute(at, target=1000, defer=True):
    """What Lance says that it did, one JSON text a task; the files are there, nothing is committed."""
    ds = lance.dataset(at)
    stable = ds.has_stable_row_ids
    options = dict(target_rows_per_fragment=target, materialize_deletions_threshold=0.0, num_threads=1)
    plan = Compaction.plan(ds, options=dict(options, defer_index_remap=defer and not stable))
    assert plan.num_tasks() > 0, "nothing to compact"
    return [task.execute(ds).json() for task in plan.tasks]


def save(folder, results):
    name = os.path.join(folder, "results.json")
    with open(name, "w") as file:
        file.write("[%s]" % ",".join(results))
    return name


def history(at):
    """The stamps of the records of the head, None for transitions."""
    return [record["stamp"] for record in pinctl(at, "trim", "--json")["records"]]


def compare_index(at):
    ds = lance.dataset(at)
    by_index = fri.indexed(ds)
    scanned = fri.scan(ds)
    equal(by_index, {value: address for value, address in scanned.items() if value in by_index}, "the index")
    for value in scanned:
        equal(ds.to_table(filter="a = %d" % value).num_rows, 1, "row %d" % value)


def check_moves(at, before, kind):
    """Each row of the pinned version is where the history says."""
    scanned = fri.scan(lance.dataset(at))
    if kind == "stable":
        return
    moved = fri.follow(at, list(before.values()))
    for value, address in before.items():
        if value in scanned:
            equal(moved[address], scanned[value], "the place of row %d" % value)
    if kind != "tagged":
        fri.compare_v0(at, list(before.values()))


def pinned(kind):
    with scratch() as folder:
        at = os.path.join(folder, "t.lance")
        new_table(kind, at)
        held = pin(at)
        before = fri.scan(lance.dataset(at))
        table = lance.dataset(at).to_table().sort_by("a")
        file = save(folder, execute(at))
        head = lance.dataset(at).version
        said = pinctl(at, "gate", file, "--json")
        equal((said["version"], said["committed"]), (head + 1, False), "gate")
        said = pinctl(at, "commit", "--rewrite", file, "--json")
        equal((said["version"], said["operation"]), (head + 1, "Rewrite"), "commit")
        ds = lance.dataset(at)
        equal(ds.version, head + 1, "head")
        equal(ds.to_table().sort_by("a"), table, "rows")
        ds.validate()
        if kind != "plain":
            compare_index(at)
        check_moves(at, before, kind)
        if kind in ("plain", "indexed"):
            equal(history(at)[-1], head, "stamp")
        assert [p["id"] for p in pinctl(at, "ls", "--json")] == [held], "the pin is gone"
        equal(pinctl(at, "check"), "", "check")
        again = pinctl(at, "commit", "--rewrite", file, "--json")
        equal((again["version"], again["already"]), (head + 1, True), "once more")


# --- beside Lance -----------------------------------------------------------------------------------------------------


def like_lance(kind):
    """But for the version that Lance reserves ids in, and what follows from that: stamps."""
    with scratch() as folder:
        at, other = os.path.join(folder, "t.lance"), os.path.join(folder, "copy.lance")
        new_table(kind, at)
        pinctl(at, "enable", "--apply")
        results = execute(at)
        shutil.copytree(at, other)
        for name in os.listdir(other + "/_versions"):
            if name.endswith(".manifest"):
                unflag(os.path.join(other, "_versions", name))
        ds = lance.dataset(other)
        options = {"defer_index_remap": kind != "stable"}
        Compaction.commit(ds, [RewriteResult.from_json(result) for result in results], options=options)
        version = int(pinctl(at, "commit", "--rewrite", save(folder, results)))
        ours = readable(manifest(at, version))
        theirs = readable(manifest(other, lance.dataset(other).version))
        # The version, and the name of its transaction. Of the history: new uuid and time, a stamp and a version that are one less; and Lance writes translated bitmaps back.
        for number in (3, 12):
            ours.pop(number), theirs.pop(number)
        for entry in ours["indices"] + theirs["indices"]:
            if entry[3] == [b"__lance_frag_reuse"]:
                entry[6] = [details(entry[6][-1])]
                entry.pop(1), entry.pop(4), entry.pop(8)
            elif kind == "indexed":
                entry.pop(5, None)
        if kind == "plain":
            # Nothing is indexed and nothing pinned, but Lance records what it was told to defer only if something is.
            equal([e for e in ours["indices"] if e[3] == [b"__lance_frag_reuse"]], [], "records")
        for part in theirs:
            equal(ours[part], theirs[part], part)
        equal(lance.dataset(at).to_table(), lance.dataset(other).to_table(), "rows")


def details(data):
    """Of the history: every element, the last one's stamp left out."""
    content = fields(fields(fields(data)[2][-1])[1][-1])
    for version in content.get(1, [])[-1:]:
        last = fields(version)
        last.pop(1)
        content[1][-1] = last
    return content


# --- races ------------------------------------------------------------------------------------------------------------


def waited(kind):
    with scratch() as folder:
        at = os.path.join(folder, "t.lance")
        new_table(kind, at)
        pinctl(at, "enable", "--apply")
        results = execute(at)
        # A pin that is registered after it was planned, and an append.
        pin(at)
        before = fri.scan(lance.dataset(at))
        append(at, folder, fri.rows(100, 5))
        head = lance.dataset(at).version
        version = int(pinctl(at, "commit", "--rewrite", save(folder, results)))
        equal(version, head + 1, "version")
        equal(history(at)[-1], None if kind == "tagged" else head, "stamp")
        check_moves(at, before, kind)
        if kind != "plain":
            compare_index(at)


# --- what is blocked --------------------------------------------------------------------------------------------------


def rewrite_transaction(folder, at, results):
    """As somebody's own committer writes it, who does not tell which rows moved: on a copy without the flag."""
    other = os.path.join(folder, "other.lance")
    shutil.copytree(at, other)
    for name in os.listdir(other + "/_versions"):
        if name.endswith(".manifest"):
            unflag(os.path.join(other, "_versions", name))
    parts = ("original_fragments", "new_fragments")
    groups = [
        Op.RewriteGroup(*[[FragmentMetadata.from_json(json.dumps(f)) for f in result[part]] for part in parts])
        for result in map(json.loads, results)
    ]
    commit(other, Op.Rewrite(groups, []))
    version = lance.dataset(other).version
    return os.path.join(other, "_transactions", manifest(other, version)[12][0].decode())


def untold():
    for kind in ("plain", "indexed"):
        with scratch() as folder:
            at = os.path.join(folder, "t.lance")
            new_table(kind, at)
            pin(at)
            before = fri.scan(lance.dataset(at))
            head = lance.dataset(at).version
            file = rewrite_transaction(folder, at, execute(at, defer=False))
            for name in os.listdir(at + "/_deletions"):
                name = os.path.join(at, "_deletions", name)
                os.rename(name, name + ".away")
            if kind == "plain":
                for words in (("gate", file), ("commit", "--transaction", file)):
                    status, _, said = pinctl_status(at, *words)
                    assert status == 3 and "deletion file _deletions/0-" in said and "is missing" in said, said
                equal(lance.dataset(at).version, head, "head")
            for name in os.listdir(at + "/_deletions"):
                name = os.path.join(at, "_deletions", name)
                os.rename(name, name[: -len(".away")])
            pinctl(at, "commit", "--transaction", file)
            if kind != "plain":
                # Such a transaction remaps no index, the record does.
                compare_index(at)
            check_moves(at, before, kind)


def blocked():
    """A record has rows by ascending address; nobody writes such groups."""
    with scratch() as folder:
        at = os.path.join(folder, "t.lance")
        lance.write_dataset(fri.rows(0, 40), at, max_rows_per_file=10)
        held = pin(at)
        head = lance.dataset(at).version
        (result,) = map(json.loads, execute(at, defer=False))
        result["original_fragments"].reverse()
        file = rewrite_transaction(folder, at, [json.dumps(result)])
        for words in (("gate", file), ("commit", "--transaction", file)):
            status, _, said = pinctl_status(at, *words)
            equal(status, 4, "exit status")
            for part in (held, "fragments 3, 2, 1, 0", "not in ascending order", "replan"):
                assert part in said, "%s is not in: %s" % (part, said)
        equal(lance.dataset(at).version, head, "head")
        pinctl(at, "release", held)
        pinctl(at, "commit", "--transaction", file)


def deferred_and_eager(folder, index, then=lambda at: None):
    """A pinned table whose first compaction was deferred, and what Lance commits of a second one, which was not, on a copy. Returns the pinned rows, too."""
    at, other = os.path.join(folder, "t.lance"), os.path.join(folder, "other.lance")
    ds = lance.write_dataset(fri.rows(0, 40).append_column("text", pa.array(["word%d" % i for i in range(40)])), at, max_rows_per_file=10)
    ds.create_scalar_index("text" if index == "INVERTED" else "a", index)
    pin(at)
    pinned = [fri.scan(lance.dataset(at))]
    pinctl(at, "commit", "--rewrite", save(folder, execute(at, 20)))
    pin(at)
    pinned.append(fri.scan(lance.dataset(at)))
    equal(len(history(at)), 1, "records")
    then(at)
    shutil.copytree(at, other)
    for name in os.listdir(other + "/_versions"):
        if name.endswith(".manifest"):
            unflag(os.path.join(other, "_versions", name))
    lance.dataset(other).optimize.compact_files(target_rows_per_fragment=1000, num_threads=1)
    for part in ("data", "_indices"):
        shutil.copytree(os.path.join(other, part), os.path.join(at, part), dirs_exist_ok=True)
    return at, os.path.join(other, "_transactions", manifest(other, lance.dataset(other).version)[12][0].decode()), pinned


def over_a_deferred(index):
    """Lance's own commit of it loses rows of a BTREE and of an INVERTED index: they say where rows were before the first one."""
    with scratch() as folder:
        at, file, pinned = deferred_and_eager(folder, index)
        pinctl(at, "commit", "--transaction", file)
        ds = lance.dataset(at)
        equal(len(ds.get_fragments()), 1, "fragments")
        equal(len(history(at)), 2, "records")
        assert [i["name"] for i in ds.list_indices() if i["name"] != "__lance_frag_reuse"], "the index is gone"
        for value in range(40):
            words = "word%d" % value if index == "INVERTED" else None
            found = ds.to_table(full_text_query=words) if words else ds.to_table(filter="a = %d" % value)
            equal(found.column("a").to_pylist(), [value], "row %d" % value)
        if index != "INVERTED":
            compare_index(at)
        for before in pinned:
            check_moves(at, before, "indexed")
        # What was remapped is still behind, and keeps both.
        pinctl(at, "trim", "--apply")
        equal(len(history(at)), 2, "records after a trim")
        equal(pinctl(at, "check"), "", "check")


def release_all(at):
    pinctl(at, "release", *[held["id"] for held in pinctl(at, "ls", "--json")])


def turn_groups(file):
    """The old fragments of each group of a Rewrite, in the other order."""
    with open(file, "rb") as text:
        transaction = wire.decode(text.read())
    for part in transaction:
        body = wire.decode(part[1]) if part[0] == 104 else []
        for group in body:
            if group[0] == 3:
                parts = wire.decode(group[1])
                group[1] = wire.encode([p for p in reversed(parts) if p[0] == 1] + [p for p in parts if p[0] != 1])
        if body:
            part[1] = wire.encode(body)
    with open(file, "wb") as text:
        text.write(wire.encode(transaction))


def over_a_deferred_untold():
    """Its rows stand backwards, which no record can say; no pin follows them, but the index does."""
    with scratch() as folder:
        at, file, _ = deferred_and_eager(folder, "BTREE", release_all)
        turn_groups(file)
        head = lance.dataset(at).version
        status, _, said = pinctl_status(at, "commit", "--transaction", file)
        equal(status, 75, "exit status of " + said)
        assert "replan" in said, said
        equal(lance.dataset(at).version, head, "head")


def unfollowed():
    """Rows that were written after the source was: a tagged history does not need them, and without an index nobody does."""
    with scratch() as folder:
        at = os.path.join(folder, "t.lance")
        lance.write_dataset(fri.rows(0, 10), at)
        fri.tag(at)
        pin(at)
        append(at, folder, fri.rows(10, 20))
        results = [json.loads(result) for result in execute(at, target=20)]
        apart = [r for r in results if 0 not in [f["id"] for f in r["original_fragments"]]]
        assert len(results) == 1 and not apart or apart, "planned otherwise"
        pinctl(at, "commit", "--rewrite", save(folder, map(json.dumps, results)))
        equal(history(at), [] if apart == results else [None], "records")


# --- bad input --------------------------------------------------------------------------------------------------------


def unknown():
    """Directories cannot be made durable once the manifest has its name."""
    if subprocess.run(["strace", "-o", "/dev/null", "true"], stderr=subprocess.DEVNULL).returncode != 0:
        raise Skip("strace may not trace here")
    with scratch() as folder:
        at = os.path.join(folder, "t.lance")
        new_table("indexed", at)
        pin(at)
        before = fri.scan(lance.dataset(at))
        file = save(folder, execute(at))
        head = lance.dataset(at).version
        for nth in range(1, 20):
            fault = ["strace", "-f", "-o", "/dev/null", "-e", "inject=fsync:error=EIO:when=%d+" % nth]
            done = subprocess.run([*fault, PINCTL, "-d", at, "commit", "--rewrite", os.path.basename(file)], cwd=folder,
                                  env=dict(os.environ, ASAN_OPTIONS="detect_leaks=0"), stderr=subprocess.PIPE, text=True)
            if done.returncode != 1:
                break
        equal(done.returncode, 76, "status of " + done.stderr)
        command = re.search("to find out: (.*)", done.stderr)[1]
        said = json.loads(subprocess.check_output(shlex.split(command) + ["--json"], env=path_of_pinctl()))
        equal((said["version"], said["already"]), (head + 1, True), "the command")
        check_moves(at, before, "indexed")


def path_of_pinctl():
    return dict(os.environ, PATH="%s:%s" % (os.path.dirname(PINCTL), os.environ["PATH"]))


def bad():
    with scratch() as folder:
        at, other = os.path.join(folder, "t.lance"), os.path.join(folder, "other.lance")
        new_table("plain", at)
        new_table("plain", other)
        pin(at)
        (good,) = map(json.loads, execute(at))
        (foreign,) = execute(other)
        head = lance.dataset(at).version

        def changed(**members):
            return json.dumps(dict(good, **members))

        def edited(part, **members):
            return changed(**{part: [dict(good[part][0], **members)] + good[part][1:]})

        rows = good["row_addrs"]
        # As many of each fragment, but a deleted one (a = 3) in place of a live one.
        live = [f << 32 | row for f in range(4) for row in range(10) if (f, row) not in ((0, 4), (1, 7))]
        other_rows = roaring.treemap(live)
        cut = json.dumps(good)[:-20]
        for text, status, sentence in (
            (cut, 2, "not JSON"),
            ("[]", 2, "no result"),
            ("[7]", 2, "expected an object"),
            (foreign, 2, "another table"),
            (edited("original_fragments", id=77), 2, "fragment 77, which is not there"),
            (edited("new_fragments", files=[dict(good["new_fragments"][0]["files"][0], path="x.lance")]), 2, "x.lance"),
            (edited("new_fragments", physical_rows=37), 2, "38 live rows"),
            (changed(row_addrs=rows[:-1]), 3, "row addresses"),
            (changed(row_addrs=[1, 2, 3]), 3, "row addresses"),
            (changed(row_addrs=rows + [0]), 3, "row addresses"),
            (changed(row_addrs=rows[:8] + [4] + rows[9:]), 2, "fragment"),
            (changed(row_addrs=[300]), 2, "row_addrs"),
            (changed(row_addrs=list(other_rows)), 2, "is row 3 of fragment 0, which is deleted"),
            (changed(read_version=0), 2, "read_version"),
            (changed(read_version=head + 9), 2, "prepared on version"),
            (changed(surprise=1), 2, "surprise"),
            ("%s,%s" % (json.dumps(good), json.dumps(good)), 2, "twice"),
        ):
            file = folder + "/bad.json"
            with open(file, "w") as out:
                out.write(text if text in ("[]", "[7]") else "[%s]" % text)
            for words in (("commit", "--rewrite", file), ("gate", file)):
                found, _, said = pinctl_status(at, *words)
                assert found == status and sentence in said, "%s: %d: %s" % (text[:200], found, said)
            equal(lance.dataset(at).version, head, "head after %s" % sentence)
        pinctl(at, "commit", "--rewrite", save(folder, [json.dumps(good)]))


# --- trim -------------------------------------------------------------------------------------------------------------


def trimmed():
    for kind in ("plain", "tagged"):
        with scratch() as folder:
            at = os.path.join(folder, "t.lance")
            lance.write_dataset(fri.rows(0, 40), at, max_rows_per_file=10)
            if kind == "tagged":
                fri.tag(at)
            held = pin(at)
            pinctl(at, "commit", "--rewrite", save(folder, execute(at)))
            said = pinctl(at, "trim", "--apply", "--json")
            equal((said["committed"], said["dropped"]), (False, 0), "while a pin needs it")
            equal(said["records"][0]["needed_by"], ["pin:" + held], "who needs it")
            pinctl(at, "release", held)
            head = lance.dataset(at).version
            equal(pinctl(at, "trim", "--json")["dropped"], 1, "dry run")
            equal(lance.dataset(at).version, head, "head after a dry run")
            said = pinctl(at, "trim", "--apply", "--json")
            equal((said["version"], said["dropped"]), (head + 1, 1), "trim")
            equal(pinctl(at, "trim", "--apply", "--json")["committed"], False, "again")
            equal(lance.dataset(at).version, head + 1, "head")
            equal(pinctl(at, "check"), "", "check")
            entries = [fields(e) for e in manifest(at, head + 1).get("index", [])]
            equal(len(entries), 1 if kind == "plain" else 0, "entries")
            equal(lance.dataset(at).count_rows(), 40, "rows")


def kept():
    """Of a chain of records: those from the source on, byte for byte."""
    with scratch() as folder:
        at = os.path.join(folder, "t.lance")
        lance.write_dataset(fri.rows(0, 80), at, max_rows_per_file=5)
        pinctl(at, "enable", "--apply")
        first = pinctl(at, "register", "+2h").strip()
        before = None
        for step, target in enumerate((10, 20, 40, 80)):
            if step == 2:
                pin(at)
                before = fri.scan(lance.dataset(at))
            pinctl(at, "commit", "--rewrite", save(folder, execute(at, target=target)))
        elements = versions(at)
        equal(len(elements), 4, "records")
        pinctl(at, "release", first)
        pinctl(at, "trim", "--apply")
        equal(versions(at), elements[2:], "records that are left")
        check_moves(at, before, "plain")


def versions(at):
    entries = [fields(e) for e in manifest(at, lance.dataset(at).version)["index"]]
    (entry,) = [e for e in entries if e[3] == [b"__lance_frag_reuse"]]
    return fields(fields(fields(entry[6][-1])[2][-1])[1][-1]).get(1, [])
