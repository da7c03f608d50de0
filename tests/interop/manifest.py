"""Manifests of the newest naming scheme, read by hand: what is to be equal when two writers commit the same."""

import struct

from support import FLAG


def varint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        shift += 7
        at += 1
        if data[at - 1] < 0x80:
            return value, at


def fields(data):
    """{number: [values]}, in order; bytes for what has a length."""
    found, at = {}, 0
    while at < len(data):
        tag, at = varint(data, at)
        if tag & 7 == 0:
            value, at = varint(data, at)
        elif tag & 7 == 2:
            size, at = varint(data, at)
            value, at = data[at : at + size], at + size
        else:
            raise ValueError("wire type %d" % (tag & 7))
        found.setdefault(tag >> 3, []).append(value)
    return found


def manifest_name(at, version):
    return "%s/_versions/%020d.manifest" % (at, 2**64 - 1 - version)


def section(data, at):
    (size,) = struct.unpack_from("<I", data, at)
    return data[at + 4 : at + 4 + size]


def manifest(at, version):
    with open(manifest_name(at, version), "rb") as file:
        data = file.read()
    (at,) = struct.unpack_from("<q", data, len(data) - 16)
    found = fields(section(data, at))
    if 6 in found:
        found["index"] = fields(section(data, found[6][0])).get(1, [])
    return found


def unflag(name):
    """Clear bit 19 where the manifest stands: the number keeps its length."""
    with open(name, "r+b") as file:
        data = bytearray(file.read())
        (at,) = struct.unpack_from("<q", data, len(data) - 16)
        end, at = len(data) - 16, at + 4
        while at < end:
            tag, value_at = varint(data, at)
            if tag & 7 == 0:
                value, at = varint(data, value_at)
                if tag >> 3 == 10 and value & FLAG:
                    value &= ~FLAG
                    for i in range(value_at, at):
                        data[i] = (value >> 7 * (i - value_at)) & 0x7F | (0x80 if i < at - 1 else 0)
            else:
                size, at = varint(data, value_at)
                at += size
        file.seek(0)
        file.write(data)


def bitmap_at(data, start):
    """The values of a portable roaring bitmap, and where it ends."""
    cookie, count = struct.unpack_from("<HH", data, start)
    at, runs = start + 4, b""
    if cookie == 12347:
        count += 1
        runs = data[at : at + (count + 7) // 8]
        at += len(runs)
    else:
        (count,) = struct.unpack_from("<I", data, at)
        at += 4
    heads = [struct.unpack_from("<HH", data, at + 4 * i) for i in range(count)]
    at += 4 * count
    if cookie != 12347 or count >= 4:
        at += 4 * count
    values = set()
    for i, (key, size) in enumerate(heads):
        if runs and runs[i // 8] >> i % 8 & 1:
            (n,) = struct.unpack_from("<H", data, at)
            for k in range(n):
                start, more = struct.unpack_from("<HH", data, at + 2 + 4 * k)
                values.update(key << 16 | start + j for j in range(more + 1))
            at += 2 + 4 * n
        elif size + 1 <= 4096:
            values.update(key << 16 | v for v in struct.unpack_from("<%dH" % (size + 1), data, at))
            at += 2 * (size + 1)
        else:
            bits = int.from_bytes(data[at : at + 8192], "little")
            values.update(key << 16 | j for j in range(65536) if bits >> j & 1)
            at += 8192
    return values, at


def bitmap(data):
    return bitmap_at(data, 0)[0]


def treemap(data):
    """The row addresses of a treemap."""
    (count,) = struct.unpack_from("<Q", data)
    at, addresses = 8, set()
    for _ in range(count):
        (fragment,) = struct.unpack_from("<I", data, at)
        rows, at = bitmap_at(data, at + 4)
        addresses.update(fragment << 32 | row for row in rows)
    assert at == len(data), "bytes behind a treemap"
    return addresses


def readable(found):
    """What is to be equal of a manifest."""
    fragments = []
    for raw in found.get(2, []):
        one = fields(raw)
        one[2] = [fields(file) for file in one.get(2, [])]
        fragments.append(one)
    entries = []
    for raw in found.get("index", []):
        one = fields(raw)
        if 5 in one:
            one[5] = bitmap(one[5][-1])
        entries.append(one)
    columns = [fields(raw) for raw in found.get(1, [])]
    for one in columns:
        one[10] = sorted(one.get(10, []))
    same = {number: found.get(number) for number in (3, 4, 8, 9, 11, 12, 13, 14, 15, 17, 20, 22, 24, 25, 26)}
    maps = {number: sorted(found.get(number, [])) for number in (5, 16, 18, 19)}
    flags = found.get(10, [0])[-1] & ~FLAG  # the last counts
    return {**same, **maps, "columns": columns, "writer flags": flags, "fragments": fragments, "indices": entries}
