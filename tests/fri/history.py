"""Fragment reuse histories, as bytes: the parts of InlineContent, and the index entry that holds it."""

import os
import uuid

import roaring
import wire

NAME = "__lance_frag_reuse"
TYPE = "/lance.table.FragmentReuseIndexDetails"
TAGGED = 1 << 10


def digest(fragment, rows, deleted=0):
    return wire.message((1, fragment), (2, rows), (3, deleted))


def legacy(stamp, *groups):
    """An element of the content: a Version. A group is (addresses or bytes, sources, destinations)."""
    return wire.field(1, wire.message((1, stamp), *[(3, group(*g)) for g in groups]))


def group(addresses, sources, destinations):
    return wire.encode([(1, rows(addresses)), *[(2, d) for d in sources], *[(3, d) for d in destinations]])


def ordered(addresses, sources, destinations):
    """An element: a Transition that keeps the order of rows."""
    return transition(sources, destinations, (3, wire.encode([(1, rows(addresses))])))


def partition(map_id, size, sources, destinations, base=None):
    """An element: a Transition whose map file says where each row went."""
    fields = [(1, map_id.encode()), (2, size)] + ([(3, base)] if base is not None else [])
    return transition(sources, destinations, (4, wire.encode(fields)))


def transition(sources, destinations, *mapping):
    return wire.field(2, wire.encode([*[(1, d) for d in sources], *[(2, d) for d in destinations], *mapping]))


def rows(addresses):
    return addresses if isinstance(addresses, bytes) else roaring.treemap(addresses)


def entry(details, index_version, dataset_version, bitmap=(), name=NAME, type_url=TYPE, uuid_bytes=None):
    """An element of the index section. details: the value of the Any; None for none at all."""
    fields = [(1, wire.encode([(1, uuid_bytes or uuid.uuid4().bytes)])), (3, name.encode()), (4, dataset_version)]
    fields += [(5, roaring.bitmap(bitmap))] if bitmap else []
    if details is not None:
        fields += [(6, wire.encode([(1, type_url.encode()), (2, details)]))]
    return wire.field(1, wire.encode(fields + [(7, index_version), (8, 1767225600000)]))


def inline(content):
    return wire.field(1, content)


def external(at, uuid_bytes, content, padding=b""):
    """Details that point to a file, which is written."""
    folder = os.path.join(at, "_indices", str(uuid.UUID(bytes=uuid_bytes)))
    os.makedirs(folder)
    with open(os.path.join(folder, "details.binpb"), "wb") as file:
        file.write(content + padding)
    return wire.field(2, wire.encode([(1, b"details.binpb"), (3, len(content))]))
