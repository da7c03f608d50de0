"""Random histories of real tables: what happens, and which releases of Lance do it, is decided by a seed.

  histories.py SEED FOLDER [STEPS]    make the table of a seed again, FOLDER/t.lance, and say each step

To be run in the environment of the newest release (tools/venv); others are asked in environments of their own. Names of
files and uuids differ each time; everything else is the same.

    history = History(folder, seed)
    history.run(12)
    ... history.at ...              the table; what it clones and its bases lie beside it
    history.said                    a line a step, for the reader of a failure

A step that Lance refuses is a step too: `refused` counts them. `weights` changes how often a step of STEPS comes (0:
never); `extra` adds steps of the caller's own, {name: (function of the History, weight)}, which may do anything to the
folder. With `environment`, which is for clocks, all of Lance runs in other processes that have it.
"""

import atexit
import inspect
import json
import os
import random
import subprocess
import sys
import tempfile

import lance
import pyarrow as pa
from lance.optimize import Compaction

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
NEWEST = "14.0.2"
OTHERS = ["13.0.0", "12.0.0", "8.0.1", "4.0.1", "1.0.4"]

STEPS = {}


def number(release):
    return tuple(int(part) for part in release.split("."))


def step(weight, since="0"):
    def register(function):
        STEPS[function.__name__] = (function, weight, number(since))
        return function

    return register


class Unfit(Exception):
    """This step has nothing to do here."""


class Scene:
    """One step, in the process that does it. `state` is what the history remembers: JSON. crew: the releases that have a
    part; next: the first value of column a that was not used; names: how many were given; bases: those of base paths;
    stable: whether row ids are; deferred: the share of compactions that leave indices as they are, unless half of them do."""

    def __init__(self, at, state, dice):
        self.at, self.state, self.dice = at, state, dice
        self.branch, self.of = None, ""

    def line(self):
        """Main, or any of its branches."""
        ds = lance.dataset(self.at)
        # 1.0.4 opens a branch only by the number of a version.
        branches = sorted(ds.branches.list()) if number(lance.__version__) >= (4,) else []
        if self.dice.random() < 0.4:
            return ds
        self.branch = self.dice.choice([None, *branches])
        return self.checkout(ds, None) if self.branch else ds

    def checkout(self, ds, version):
        self.of = "" if self.branch is None else " of " + self.branch
        if self.branch is None:
            return lance.dataset(self.at, version=version)
        return ds.checkout_version((self.branch, version))

    def any_version(self, ds):
        return self.dice.choice(sorted(entry["version"] for entry in ds.versions()))

    def name(self, prefix):
        self.state["names"] += 1
        return "%s%d" % (prefix, self.state["names"])

    def rows(self, schema, count=None, first=None):
        """New rows of a schema, or rows that are there already from `first` on."""
        count = count or self.dice.randint(1, 30)
        if first is None:
            first = self.state["next"]
        self.state["next"] = max(self.state["next"], first + count)
        return pa.table([column(field, first, count) for field in schema], names=schema.names)

    def options(self):
        return {"max_rows_per_file": self.dice.choice([5, 7, 7, 100])}

    def columns(self, ds):
        """Those that were added."""
        return [name for name in ds.schema.names if name[0] == "c"]


def column(field, first, count):
    values = range(first, first + count)
    if field.name == "b":
        return pa.array(["text %d of row" % value for value in values])
    if field.name == "l":
        return pa.array([["x%d" % (value % 3), "y"] for value in values], field.type)
    if field.name == "v":
        return pa.array([[value % 7, value % 5, 1.0, value] for value in values], field.type)
    if field.name == "k":
        return blobs(field, values)
    return pa.array(list(values), pa.int64()).cast(field.type)


def blobs(field, values):
    content = [b"%d" % value * (300 if value % 2 else 3) for value in values]
    if pa.types.is_large_binary(field.type):
        return pa.array(content, field.type)
    from lance.blob import blob_array

    return blob_array(content)


# --- beginnings -------------------------------------------------------------------------------------------------------


def begin(scene):
    """The first version: all that is decided once. A shallow clone has a source with a history of its own."""
    dice, state = scene.dice, scene.state
    oldest = min(number(release) for release in state["crew"])
    options = {"enable_v2_manifest_paths": dice.random() < 0.7}
    said = ["inverted names" if options["enable_v2_manifest_paths"] else "plain names"]
    state["stable"] = dice.random() < 0.25
    if state["stable"]:
        options["enable_stable_row_ids"] = True
        said.append("stable row ids")
    # What all can read.
    storage = dice.choice([None, None, "legacy", "2.0", "2.1", "2.2"] if oldest >= (12,) else ["legacy", "2.0", "2.0"])
    if storage:
        options["data_storage_version"] = storage
        said.append("storage " + storage)
    fields = [pa.field("a", pa.int64()), pa.field("b", pa.string())]
    if dice.random() < 0.3:
        fields += [pa.field("l", pa.list_(pa.string())), pa.field("v", pa.list_(pa.float32(), 4))]
    if dice.random() < 0.25 and storage != "legacy" and oldest >= (14,):
        fields.append(blob_field(storage in (None, "2.2")))
        said.append("blobs")
    schema = pa.schema(fields)
    if dice.random() < 0.2 and number(lance.__version__) >= (4,):
        options["initial_bases"] = [base(scene, "base0", dice.random() < 0.5)]
        said.append("a base")
    if dice.random() < 0.15:
        said.append("a clone of %s" % clone(scene, schema, options))
    else:
        lance.write_dataset(scene.rows(schema), scene.at, **options, **scene.options())
    return ", ".join(said)


def blob_field(new):
    if not new:
        return pa.field("k", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    from lance.blob import blob_field as field

    return field("k", inline_size_threshold=16, dedicated_size_threshold=800)


def base(scene, name, is_root):
    from lance import DatasetBasePath

    path = os.path.join(os.path.dirname(scene.at), name)
    os.makedirs(path)
    scene.state["bases"].append(name)
    return DatasetBasePath(path, name=name, is_dataset_root=is_root)


def clone(scene, schema, options):
    """Make the table as a clone of another, which lies beside it."""
    source = Scene(os.path.join(os.path.dirname(scene.at), "source.lance"), scene.state, scene.dice)
    lance.write_dataset(source.rows(schema), source.at, **options, **source.options())
    done = []
    for function in source.dice.sample([append, append, delete, index, compact, branch, update], 4):
        try:
            function(source)
            done.append(function.__name__)
        except Exception as error:
            if not refusal(error):
                raise
    source.branch = None
    ds = source.line()
    version = source.any_version(ds)
    if source.branch is None:
        ds.shallow_clone(scene.at, version)
    else:
        ds.shallow_clone(scene.at, (source.branch, version))
    return "%d%s after %s" % (version, source.of, ", ".join(done))


# --- steps ------------------------------------------------------------------------------------------------------------
#
# Each leaves a table that can be read, or raises what Lance has against it. What it returns is said beside its name.


@step(6)
def append(scene):
    ds = scene.line()
    lance.write_dataset(scene.rows(ds.schema), ds, mode="append", **scene.options())


@step(2, since="4.0.1")
def append_elsewhere(scene):
    if not scene.state["bases"]:
        raise Unfit
    name = scene.dice.choice(scene.state["bases"])
    ds = scene.line()
    lance.write_dataset(scene.rows(ds.schema), ds, mode="append", target_bases=[name], **scene.options())
    return name


@step(1, since="14")
def add_base(scene):
    if len(scene.state["bases"]) > 1:
        raise Unfit
    name = scene.name("base")
    scene.line().add_bases([base(scene, name, scene.dice.random() < 0.5)])
    return name


@step(4)
def delete(scene):
    scene.line().delete("a %% %d = %d" % (scene.dice.randint(2, 6), scene.dice.randint(0, 5)))


@step(1)
def delete_fragments(scene):
    """Most of them whole."""
    first = scene.dice.randint(0, scene.state["next"])
    scene.line().delete("a >= %d and a < %d" % (first, first + 25))


@step(3)
def update(scene):
    scene.line().update({"b": "'changed'"}, where="a %% %d = 0" % scene.dice.randint(2, 9))


@step(3)
def merge(scene):
    ds = scene.line()
    first = scene.dice.choice([None, scene.dice.randint(0, scene.state["next"])])
    rows = scene.rows(ds.schema, first=first)
    ds.merge_insert("a").when_matched_update_all().when_not_matched_insert_all().execute(rows)


@step(2)
def merge_column(scene):
    """Rewrites a column of some rows, and leaves the others where they are."""
    ds = scene.line()
    if len(ds.schema.names) < 3:
        raise Unfit
    schema = pa.schema([ds.schema.field("a"), ds.schema.field(scene.dice.choice(scene.columns(ds) or ["b"]))])
    rows = scene.rows(schema, first=scene.dice.randint(0, scene.state["next"]))
    ds.merge_insert("a").when_matched_update_all().execute(rows)


@step(2)
def add_column(scene):
    scene.line().add_columns({scene.name("c"): "a * 2"})


@step(2)
def drop_column(scene):
    ds = scene.line()
    columns = scene.columns(ds)
    if not columns:
        raise Unfit
    ds.drop_columns([scene.dice.choice(columns)])


@step(1)
def alter_column(scene):
    ds = scene.line()
    columns = scene.columns(ds)
    if not columns:
        raise Unfit
    change = {"path": scene.dice.choice(columns)}
    if scene.dice.random() < 0.5:
        change["name"] = scene.name("c")
    else:
        change["data_type"] = pa.int32()
    ds.alter_columns(change)


@step(4)
def index(scene):
    ds = scene.line()
    kinds = [("a", kind) for kind in ("BTREE", "BTREE", "BITMAP", "ZONEMAP", "BLOOMFILTER")]
    kinds += [("b", kind) for kind in ("BTREE", "INVERTED", "NGRAM")] + [("c", "BTREE")]
    kinds += [("l", "LABEL_LIST"), ("v", "IVF_FLAT")] if "l" in ds.schema.names else []
    name, kind = scene.dice.choice(kinds)
    if name == "c":
        if not scene.columns(ds):
            raise Unfit
        name = scene.dice.choice(scene.columns(ds))
    if kind == "IVF_FLAT":
        ds.create_index(name, kind, num_partitions=1, replace=True)
    else:
        ds.create_scalar_index(name, kind, replace=scene.dice.random() < 0.8)
    return "%s %s" % (name, kind)


@step(1)
def drop_index(scene):
    ds = scene.line()
    names = sorted({entry["name"] for entry in ds.list_indices() if not entry["name"].startswith("__")})
    if not names:
        raise Unfit
    ds.drop_index(scene.dice.choice(names))


@step(2)
def optimize(scene):
    ds = scene.line()
    options = scene.dice.choice([{}, {"num_indices_to_merge": 0}, {"num_indices_to_merge": 5}, {"retrain": True}])
    if "retrain" in options and number(lance.__version__) < (8,):
        options = {}
    ds.optimize.optimize_indices(**options)


@step(4)
def compact(scene):
    ds = scene.line()
    deferred = scene.dice.random() < scene.state.get("deferred", 0.5) and not scene.state["stable"] and number(lance.__version__) >= (4,)
    options = {"target_rows_per_fragment": scene.dice.choice([20, 40, 100])}
    if deferred:
        options["defer_index_remap"] = True
    plan = Compaction.plan(ds, options=options)
    results = [task.execute(ds) for task in plan.tasks]
    if results and "options" in inspect.signature(Compaction.commit).parameters:
        Compaction.commit(ds, results, options=options)
    elif results:
        Compaction.commit(ds, results)
    return "deferred" if deferred else "eager"


@step(1)
def restore(scene):
    ds = scene.line()
    version = scene.any_version(ds)
    scene.checkout(ds, version).restore()
    return "of %d" % version


@step(1)
def overwrite(scene):
    ds = scene.line()
    lance.write_dataset(scene.rows(ds.schema), ds, mode="overwrite", **scene.options())


@step(2)
def tag(scene):
    """Of main, or of a branch where this release can."""
    ds = lance.dataset(scene.at)
    if number(lance.__version__) >= (4,):
        ds = scene.line()
    name, version = scene.name("t"), scene.any_version(ds)
    ds.tags.create(name, version if scene.branch is None else (scene.branch, version))
    return "%s %d" % (name, version)


@step(1)
def untag(scene):
    ds = lance.dataset(scene.at)
    names = sorted(ds.tags.list())
    if not names:
        raise Unfit
    ds.tags.delete(scene.dice.choice(names))


@step(2)
def branch(scene):
    """Of a version of main or of a branch: of any depth."""
    ds = scene.line()
    name, version = scene.dice.choice(["%s", "x/%s"]) % scene.name("b"), scene.any_version(ds)
    ds.create_branch(name, version if scene.branch is None else (scene.branch, version))
    return "%s of %d" % (name, version)


@step(0.3)
def branch_within(scene):
    """In a folder of another's files."""
    ds = lance.dataset(scene.at)
    tops = [name for name in sorted(ds.branches.list()) if "/" not in name]
    if not tops:
        raise Unfit
    name = "%s/%s" % (scene.dice.choice(tops), scene.dice.choice(["data", "_indices", "_deletions"]))
    ds.create_branch(name, scene.any_version(ds))
    return name


@step(0.5)
def drop_branch(scene):
    ds = lance.dataset(scene.at)
    names = sorted(ds.branches.list())
    if not names:
        raise Unfit
    name = scene.dice.choice(names)
    ds.branches.delete(name)
    return name


@step(1)
def config(scene):
    scene.line().update_config({"k": "%d" % scene.dice.randint(0, 99)})


@step(1)
def detached(scene):
    ds = scene.line()
    if plain_names(scene.at):
        raise Unfit
    fragments = lance.fragment.write_fragments(scene.rows(ds.schema), ds, mode="append")
    lance.LanceDataset.commit(ds, lance.LanceOperation.Append(fragments), read_version=ds.version, detached=True)


@step(0.3)
def migrate(scene):
    """To inverted names."""
    scene.line().migrate_manifest_paths_v2()


@step(0.5, since="14")
def tagged(scene):
    """From here on Lance writes transitions: no call of its own makes the first."""
    sys.path.insert(0, os.path.join(ROOT, "tests", "fri"))
    import history
    from table import Head

    if scene.state["stable"] or plain_names(scene.at):
        raise Unfit
    head = Head(scene.at)
    head.flag(history.TAGGED)
    head.publish()


def plain_names(at):
    return any(len(name) < len("%020d.manifest" % 1) for name in os.listdir(os.path.join(at, "_versions")))


@step(0, since="4.0.1")
def clean(scene):
    """Lance's own, of main."""
    ds = lance.dataset(scene.at)
    keep = scene.dice.randint(1, 4)
    ds.cleanup_old_versions(retain_versions=keep, error_if_tagged_old_versions=False)
    return "but %d" % keep


# --- whoever does them ------------------------------------------------------------------------------------------------


def refusal(error):
    """Lance's own, and no mistake in a step. PanicException of the Rust side is none of Exception."""
    return not isinstance(error, (KeyboardInterrupt, SystemExit, AttributeError, NameError, TypeError, AssertionError))


def perform(at, name, state, seed):
    """One step in this process. The state afterwards, what to say, and whether it was refused."""
    scene = Scene(at, state, random.Random(seed))
    try:
        said = begin(scene) if name == "begin" else STEPS[name][0](scene)
    except Unfit:
        return state, None, False
    except BaseException as error:
        if not refusal(error) or name == "begin":
            raise
        return state, "%s, refused: %s: %s" % (scene.of, type(error).__name__, str(error)[:300].splitlines()[0]), True
    return state, scene.of + (", " + said if said else ""), False


class Worker:
    """Another release, or this one in another environment."""

    def __init__(self, release, environment):
        venv = os.path.join(ROOT, "tools", "venv")
        python = subprocess.run([venv, release], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
        self.complaints = tempfile.TemporaryFile("w+", errors="replace")
        self.process = subprocess.Popen(
            [python, "-W", "ignore", os.path.abspath(__file__), "--worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.complaints,
            text=True,
            env=dict(os.environ, RUST_LOG="error", LANCE_LOG="error", **(environment or {})),
        )
        self.release = release
        atexit.register(self.process.stdin.close)

    def perform(self, *arguments):
        self.process.stdin.write(json.dumps(arguments) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            self.complaints.seek(0)
            words = self.release, self.process.wait(), self.complaints.read()[-2000:]
            raise RuntimeError("Lance %s died with status %d: %s" % words)
        answer = json.loads(answer)
        if isinstance(answer, str):
            raise RuntimeError("Lance %s: %s" % (self.release, answer))
        return answer


def work():
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        try:
            answer = perform(*json.loads(line))
        except BaseException as error:
            answer = repr(error)
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


WORKERS = {}


def worker(release, environment):
    key = (release, json.dumps(environment, sort_keys=True))
    if key not in WORKERS:
        WORKERS[key] = Worker(release, environment)
    return WORKERS[key]


class History:
    def __init__(self, folder, seed, others=0.3, weights=None, extra=None, environment=None):
        """others: the share of histories in which older releases have a part."""
        self.folder, self.seed, self.environment = folder, seed, environment
        self.at = os.path.join(folder, "t.lance")
        self.dice = random.Random("history %s" % seed)
        self.said, self.refused, self.done = [], 0, 0
        self.extra = extra or {}
        self.weights = {name: weight for name, (_, weight, _) in STEPS.items()}
        self.weights.update({name: weight for name, (_, weight) in self.extra.items()})
        self.weights.update(weights or {})
        self.crew = [NEWEST]
        if self.dice.random() < others:
            self.crew += self.dice.sample(OTHERS, self.dice.randint(1, 2))
        self.state = {"next": 0, "names": 0, "bases": [], "crew": self.crew}
        self._perform("begin", self.dice.choice(self.crew))

    def run(self, steps):
        while self.done < steps:
            self.step()

    def step(self, name=None):
        """One more, of any kind or of this one."""
        release = self.dice.choice(self.crew)
        if name is None:
            able = [name for name in self.weights if name in self.extra or STEPS[name][2] <= number(release)]
            name = self.dice.choices(able, [self.weights[name] for name in able])[0]
        if name in self.extra:
            said = self.extra[name][0](self)
            self.said.append(name + (" " + said if said else ""))
            self.done += 1
        else:
            self._perform(name, release)

    def branches(self):
        """Names of all branches, as files say."""
        folder = os.path.join(self.at, "_refs", "branches")
        names = os.listdir(folder) if os.path.isdir(folder) else []
        return sorted(name[: -len(".json")].replace("%2F", "/") for name in names if name.endswith(".json"))

    def _perform(self, name, release):
        seed = "%s %d" % (self.dice.random(), len(self.said))
        if self.environment is None and release == lance.__version__:
            self.state, said, refused = perform(self.at, name, self.state, seed)
        else:
            self.state, said, refused = worker(release, self.environment).perform(self.at, name, self.state, seed)
        if said is None:
            return
        by = "" if self.crew == [NEWEST] else " by %s" % release
        self.said.append(name + by + said)
        self.refused += refused
        self.done += name != "begin"

    def __str__(self):
        return "history %s:\n  %s" % (self.seed, "\n  ".join(self.said))


def main(arguments):
    if arguments == ["--worker"]:
        return work()
    if len(arguments) not in (2, 3) or arguments[0].startswith("-"):
        sys.exit(__doc__)
    folder = os.path.abspath(arguments[1])
    os.makedirs(folder, exist_ok=True)
    history = History(folder, arguments[0])
    history.run(int(arguments[2]) if len(arguments) == 3 else 12)
    print(history)


if __name__ == "__main__":
    main(sys.argv[1:])
