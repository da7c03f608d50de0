"""A gateway with -o tags: cleaners that know no pins say which versions are kept, or plan around them, and are refused nothing."""

import contextlib
import datetime
import os

import lance

from gateway import check, gateway, pinned, rows
from reader import content
from support import LONG, RELEASE, equal, pinctl

MAJOR = int(RELEASE.split(".")[0])
NOW = datetime.timedelta(0)


def cases():
    yield "each version that is kept is a tag, which opens it and is nobody's to delete", listed
    yield "a cleaner says which versions are tagged", told
    yield "and plans around them where it is told to", around
    if MAJOR in (14, 8) or LONG:
        yield "on a branch, too", branch
    # Without Lance, tests/shell/gateway-tags.bats has the limit.
    if LONG:
        yield "of more than 1,000 versions there are none, and they are kept as without", beyond
    yield "without a pin there is nothing to plan around", released


@contextlib.contextmanager
def window():
    """A table through the gateway with versions before a pin and after it: its path, the pin's id, the version that is pinned and the head."""
    with pinned() as (at, pin), gateway(at, "-o", "tags"):
        for i in range(3):
            lance.write_dataset(rows(1000 + i * 10, 10), at, mode="append")
        lance.dataset(at).delete("id = 120")
        yield at, pin, pinctl(at, "show", pin, "--json")["source_version"], lance.dataset(at).version


def of_window(found):
    """The tags that the gateway shows, of all that there are."""
    return {name: found[name] for name in sorted(found) if name.startswith("pinfs-") and len(name) < len("pinfs-") + 36}


def size(at, version):
    names = [at + "/_versions/%d.manifest" % version, at + "/_versions/%020d.manifest" % (2**64 - 1 - version)]
    return os.stat(next(filter(os.path.exists, names))).st_size


def clean(at, tagged):
    return lance.dataset(at).cleanup_old_versions(older_than=NOW, delete_unverified=True, error_if_tagged_old_versions=tagged)


def refusals(at):
    with open(at + "/.pinfs/log") as log:
        return [line for line in log if "\tEBUSY\t" in line or "\tEPERM\t" in line]


def versions(at):
    return [found["version"] for found in lance.dataset(at).versions()]


def contents(at, first, last):
    return {v: content(lance.dataset(at, version=v)) for v in range(first, last + 1)}


def listed():
    with window() as (at, pin, source, head):
        found = of_window(lance.dataset(at).tags.list())
        equal(sorted(found), sorted("pinfs-%d" % v for v in range(source, head + 1)), "tags")
        for version in range(source, head + 1):
            tag = found["pinfs-%d" % version]
            equal((tag["version"], tag.get("branch"), tag["manifest_size"]), (version, None, size(at, version)), "tag")
            equal(lance.dataset(at, version="pinfs-%d" % version).version, version, "version by its tag")
        for change in (lambda tags: tags.delete("pinfs-%d" % source), lambda tags: tags.update("pinfs-%d" % source, head)):
            try:
                change(lance.dataset(at).tags)
            except Exception as error:
                assert "resource busy" in str(error), error
            else:
                raise AssertionError("it was not refused")
        lance.dataset(at).tags.create("mine", source)
        lance.dataset(at).tags.delete("mine")
        equal(of_window(lance.dataset(at).tags.list()), found, "tags")


def told():
    with window() as (at, pin, source, head):
        before = versions(at)
        try:
            clean(at, True)
        except Exception as error:
            assert "tagged version" in str(error), error
            for version in range(source, head):
                assert '"pinfs-%d"' % version in str(error), error
        else:
            raise AssertionError("it cleaned up")
        equal(versions(at), before, "versions")
        equal(refusals(at), [], "refusals")


def around():
    with window() as (at, pin, source, head):
        before = contents(at, source, head)
        stats = clean(at, False)
        equal(getattr(stats, "failed_deletes", 0), 0, "failed deletes")
        equal(refusals(at), [], "refusals")
        equal(versions(at), list(range(source, head + 1)), "versions")
        equal(contents(at, source, head), before, "rows")
        check(at, pin)


def branch():
    with window() as (at, _, source, head):
        lance.dataset(at).create_branch("feat/x")
        uri = at + "/tree/feat/x"
        lance.write_dataset(rows(3000, 5), uri, mode="append")
        pin = pinctl(at, "register", "+1h", branch="feat/x").strip()
        lance.write_dataset(rows(4000, 5), uri, mode="append")
        first, last = pinctl(at, "show", pin, "--json", branch="feat/x")["source_version"], lance.dataset(uri).version
        found = {name: tag for name, tag in of_window(lance.dataset(at).tags.list()).items() if name.count("-") > 1}
        expected = {"pinfs-feat_-x-%d" % v: ("feat/x", v) for v in range(first, last + 1)}
        # Lance 1 heeds the branch of a tag, and does not say it.
        named = {name: (tag.get("branch", "feat/x"), tag["version"]) for name, tag in found.items()}
        equal(named, dict(sorted(expected.items())), "tags")
        by_tag = lance.dataset(at).checkout_version("pinfs-feat_-x-%d" % first)
        equal(content(by_tag), content(lance.dataset(uri, version=first)), "rows by a tag")
        before, main = contents(uri, first, last), contents(at, source, head)
        for one in (uri, at):
            clean(one, False)
        equal(refusals(at), [], "refusals")
        equal(contents(uri, first, last), before, "rows of the branch")
        equal(contents(at, source, head), main, "rows of main")


def beyond():
    with window() as (at, pin, source, head):
        ds = lance.dataset(at)
        while ds.version < source + 999:
            ds.update_config({"n": str(ds.version)})
        equal(len(of_window(lance.dataset(at).tags.list())), 1000, "tags")
        ds.update_config({"n": "one too many"})
        equal(of_window(lance.dataset(at).tags.list()), {}, "tags")
        with open(at + "/.pinfs/log") as log:
            assert "keep 1001 versions, and more than 1000 are not shown as tags" in log.read()
        try:
            assert clean(at, False).failed_deletes > 1000
        except OSError as error:
            assert MAJOR < 13 and "resource busy" in str(error), error
        equal([v for v in versions(at) if v >= source], list(range(source, source + 1001)), "versions")
        equal(len(content(lance.dataset(at, version=source))), 397, "rows of the pinned version")
        check(at, pin)
        pinctl(at, "release", pin)
        pinctl(at, "register", "+1h")
        equal(sorted(of_window(lance.dataset(at).tags.list())), ["pinfs-%d" % (source + i) for i in (1001, 1002)], "tags")


def released():
    with window() as (at, pin, source, head):
        pinctl(at, "release", pin)
        head = lance.dataset(at).version
        equal(lance.dataset(at).tags.list(), {}, "tags")
        clean(at, True)
        equal(versions(at), [head], "versions")
        equal(refusals(at), [], "refusals")
