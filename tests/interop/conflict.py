"""What may be committed over what: every piece of work over every other one, by pinctl where pins are enabled, and by Lance on its copy."""

import os
import shutil

import lance

from commit import Twins
from deeds import WORK
from manifest import manifest, readable
from support import LONG, bring, pinctl_status, scratch


def cases():
    yield "what may be committed over what", matrix


# All of them take minutes; the short form looks at those that depend on more than the kinds.
SHORT = ["Append", "Delete of rows", "Update of columns of fragment 0", "CreateIndex on n", "UpdateConfig a"]


class Prepared:
    """Each piece of work, done once on a copy of its own: its transactions, and a table that has all files."""

    def __init__(self, folder):
        self.twins = Twins("indexed", folder, pin=False)
        self.base = os.path.join(folder, "base.lance")
        os.rename(self.twins.copy, self.base)
        self.head = lance.dataset(self.base).version
        self.pinned = os.path.join(folder, "base-pinned.lance")
        os.rename(self.twins.pinned, self.pinned)
        self.files, self.at = {}, {}
        for i, (name, deed) in enumerate(WORK.items()):
            at = os.path.join(folder, "work%d.lance" % i)
            shutil.copytree(self.base, at)
            deed(at)
            last = lance.dataset(at).version
            self.at[name] = at
            self.files[name] = [
                os.path.join(at, "_transactions", manifest(at, version)[12][0].decode())
                for version in range(self.head + 1, last + 1)
            ]
            for table in (self.base, self.pinned):
                bring(at, table)


def verdict_of_lance(prepared, at, name):
    """The last transaction of this work, through Lance's own commit."""
    source = lance.dataset(prepared.at[name])
    transaction = source.read_transaction(source.version)
    try:
        lance.LanceDataset.commit(at, transaction)
        return "allowed"
    except OSError as error:
        text = str(error)
    if "Retryable" in text or "retr" in text:
        return "retryable"
    if "Incompatible" in text:
        return "incompatible"
    return "refused" if "does not exist" in text else text


def verdict_of_pinctl(prepared, at, name):
    status, _, err = pinctl_status(at, "commit", "--transaction", prepared.files[name][-1])
    verdict = {0: "allowed", 75: "retryable", 1: "incompatible", 2: "refused"}.get(status)
    assert verdict, "exit %d: %s" % (status, err)
    return verdict


def conflicts(folder, prepared, ours):
    """One row: ours over each of theirs."""
    differ = []
    for i, theirs in enumerate(WORK):
        if theirs == ours:  # the very transaction: it was committed before
            continue
        here = os.path.join(folder, "%d" % i)
        pinned, copy = here + "/pinned.lance", here + "/copy.lance"
        shutil.copytree(prepared.pinned, pinned, copy_function=os.link)
        shutil.copytree(prepared.at[theirs], copy, copy_function=os.link)
        bring(prepared.base, copy)
        for file in prepared.files[theirs]:
            status, _, err = pinctl_status(pinned, "commit", "--transaction", file)
            assert status == 0, "%s itself: exit %d: %s" % (theirs, status, err)
        verdicts = verdict_of_pinctl(prepared, pinned, ours), verdict_of_lance(prepared, copy, ours)
        if verdicts[0] != verdicts[1]:
            differ.append("over %s: %s, Lance: %s" % (theirs, *verdicts))
        elif verdicts[0] == "allowed":
            one, other = (readable(manifest(at, lance.dataset(at).version)) for at in (pinned, copy))
            for part in other:
                # A Delete or Update that is rebased gets another read version; schema metadata is not in transactions.
                if part not in (5, 12) and one[part] != other[part]:
                    differ.append("over %s, %s: %r, Lance: %r" % (theirs, part, one[part], other[part]))
        shutil.rmtree(here)
    assert not differ, "\n".join(differ)


def matrix():
    with scratch() as folder:
        prepared = Prepared(folder)
        for ours in WORK if LONG else SHORT:
            conflicts(folder, prepared, ours)
