"""LanceDB on a pinned table, through the gateway: the same as alone, as gateway_table has it for Lance; what it removes, and what it cannot."""

import functools

import lance

from gateway import gateway
from gateway_table import STATES, answer, ask, ask_latest, kept, refused, removed, template, twice
from reader import content
from support import LONG, equal, pinctl, scratch
from twins import Twins, manifests, pins_of

# By one table each what comes before the next restores it; a compaction comes alone.
DEEDS = """
    add update delete merge_insert overwrite create_over create_where_it_is columns scalar_index text_index vector_index restore tags branch
    versions clone rename
""".split()
FAILS = {"rename"}


def cases():
    for state in STATES if LONG else ("pinned", "enabled"):
        yield "what its users do, %s" % STATES[state], done, DEEDS, state
        yield "optimize, %s" % STATES[state], done, ["optimize"], state
    yield "optimize, of vectors and words", done, ["optimize"], "pinned", "indices"
    yield "optimize that removes stops at guard tags", removed, by_lancedb("clean"), True
    yield "without those it removes what no pin needs", unguarded
    yield "with -o tags it names the versions that are kept", told
    for name in ("drop_table", "drop_all_tables", "drop_database"):
        yield name, refused, by_lancedb(name)


def by_lancedb(name):
    return functools.partial(lambda name, at: ask("lancedb==0.40.0", "lancedb_deeds.py", [name, at]), name)


def done(names, state, kind=""):
    twice(names, kind, state, {name: by_lancedb(name) for name in names}, FAILS & set(names))


def window(options, do):
    """What it was answered, where no guard tag stops it; the versions that there are, and the pinned one."""
    with scratch() as folder:
        twins = Twins(template("", "unguarded")[1], folder)
        at = twins.ours
        source = list(manifests(at))[-1] - 1
        pins = pins_of(at, source + 1)
        with gateway(at, *options):
            lance.dataset(at).delete("id = 4")
            said = answer(twins, by_lancedb(do), at)
            head = lance.dataset(at).version
            seen = {str(v): content(lance.dataset(at, version=v)) for v in range(source, head + 1)}
            versions = [found["version"] for found in lance.dataset(at).versions()]
        kept(at, source, head, pins)
        rows, _ = ask_latest("read", at, list(map(int, seen)), [head])
        equal(rows, seen, "rows that are read directly")
        return said, versions, source


def unguarded():
    said, versions, source = window([], "clean")
    equal(said, [None], "answer")
    equal(versions, list(range(source, versions[-1] + 1)), "versions")


def told():
    said, versions, source = window(["-o", "tags"], "clean")
    assert "tagged version" in str(said), said
    for version in range(source, versions[-1]):
        assert '"pinfs-%d"' % version in said, said
    equal(versions, list(range(1, versions[-1] + 1)), "versions")
