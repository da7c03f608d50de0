"""What released Lance still does to a pinned table, and what it refuses: the table of README.md, asked of Lance itself."""

import os
from datetime import timedelta

import lance

from support import RELEASE, equal, pinctl, pinctl_status, refused, rows, scratch

MAJOR = int(RELEASE.split(".")[0])


def cases():
    for name, change in refused_changes().items():
        yield "%s is refused, and nothing changes" % name, is_refused, change
    yield "tags are made and deleted, also by a handle opened before the flag", tags
    if MAJOR < 14:
        yield "cleanup that is told to ignore tags leaves the head and the source", cleanup_despite_tags
    else:
        yield "cleanup is refused, and nothing changes", is_refused, lambda ds: ds.cleanup_old_versions()
    if MAJOR >= 12:
        yield "a compaction is planned and executed; only its commit is refused", compaction
        yield "a handle opened before the flag reads on, appends nothing and sees the new head", stale_handle
    else:
        yield "a handle opened before the flag drops the pins, and pinctl says so", stale_handle_of_old_release


def refused_changes():
    """name -> a change that this release must refuse. Before 12 only the ways that name the table by its URI."""
    changes = {
        "an append by URI": lambda ds: lance.write_dataset(rows(10), ds.uri, mode="append"),
        "an overwrite by URI": lambda ds: lance.write_dataset(rows(10), ds.uri, mode="overwrite"),
    }
    if MAJOR >= 12:
        changes.update(
            {
                "an append by a handle": lambda ds: ds.insert(rows(10)),
                "a delete": lambda ds: ds.delete("id = 1"),
                "an update": lambda ds: ds.update({"v": "'x'"}, where="id = 1"),
                "a merge insert": lambda ds: ds.merge_insert("id").when_not_matched_insert_all().execute(rows(10)),
                "a restore": lambda ds: lance.dataset(ds.uri, version=1).restore(),
                "an index": lambda ds: ds.create_scalar_index("id", "BTREE"),
                "compact_files": lambda ds: ds.optimize.compact_files(target_rows_per_fragment=1000),
                "a config update": lambda ds: ds.update_config({"a": "b"}),
                "a dropped column": lambda ds: ds.drop_columns(["v"]),
                "a new branch": lambda ds: ds.create_branch("dev"),
            }
        )
    return changes


class Pinned:
    """A table of three versions, and on it a pin; `stale` is a handle from before."""

    def __enter__(self):
        self.folder = scratch()
        self.at = os.path.join(self.folder.__enter__(), "t.lance")
        lance.write_dataset(rows(1, 3), self.at)
        for first in (4, 5):
            lance.write_dataset(rows(first), self.at, mode="append")
        self.stale = lance.dataset(self.at)
        pinctl(self.at, "enable", "--apply")
        pin = pinctl(self.at, "register", "+2h", "--json")["pin"]
        self.pin, self.source = pin["id"], pin["source_version"]
        self.head = self.state()
        return self

    def __exit__(self, *what):
        self.folder.__exit__(*what)

    def state(self):
        ds = lance.dataset(self.at)
        return ds.version, ds.to_table().to_pylist(), [pin["id"] for pin in pinctl(self.at, "ls", "--json")]

    def unchanged(self):
        equal(self.state(), self.head, "head, rows and pins")
        equal(self.head[2], [self.pin], "pins")


def is_refused(change):
    with Pinned() as table:
        refused(change, lance.dataset(table.at))
        table.unchanged()


def cleanup_despite_tags():
    with Pinned() as table:
        options = {"older_than": timedelta(0), "delete_unverified": True, "error_if_tagged_old_versions": False}
        lance.dataset(table.at).cleanup_old_versions(**options)
        left = [entry["version"] for entry in lance.dataset(table.at).versions()]
        equal(left, [table.source, table.head[0]], "versions left")
        table.unchanged()


def tags():
    with Pinned() as table:
        for name, ds in (("fresh", lance.dataset(table.at)), ("stale", table.stale)):
            ds.tags.create(name, 2)
            equal(lance.dataset(table.at, version=name).version, 2, "version of the tag")
            assert name in pinctl(table.at, "tag", "ls"), "pinctl does not list the tag"
            ds.tags.delete(name)
            equal(list(ds.tags.list()), ["pinfs-" + table.pin], "tags left")
        table.unchanged()


def compaction():
    from lance.optimize import Compaction

    with Pinned() as table:
        ds = lance.dataset(table.at)
        plan = Compaction.plan(ds, options={"target_rows_per_fragment": 1000, "defer_index_remap": True})
        results = [task.execute(ds) for task in plan.tasks]
        equal(len(results), 1, "tasks")
        equal(results[0].metrics.fragments_removed, 3, "fragments that the work replaces")
        refused(Compaction.commit, ds, results, options={"defer_index_remap": True})
        table.unchanged()


def stale_handle():
    with Pinned() as table:
        before = table.stale.to_table().to_pylist()
        refused(table.stale.insert, rows(10))
        table.unchanged()
        equal(table.stale.to_table().to_pylist(), before, "rows of the stale handle")
        table.stale.checkout_latest()
        equal(table.stale.version, table.head[0], "version after checkout_latest")


def stale_handle_of_old_release():
    with Pinned() as table:
        table.stale.insert(rows(10))
        equal(pinctl(table.at, "ls", "--json"), [], "pins left")
        # Not held, and not made anew by a renewal.
        equal(pinctl_status(table.at, "confirm", table.pin)[0], 1, "exit status of confirm")
        equal(pinctl_status(table.at, "renew", table.pin, "+4h")[0], 1, "exit status of renew")
        equal(pinctl(table.at, "status", "--json")["pins_enabled"], False, "pins enabled")
