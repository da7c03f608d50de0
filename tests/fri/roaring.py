"""Roaring bitmaps in the portable format (github.com/RoaringBitmap/RoaringFormatSpec), and treemaps."""

import struct


def bitmap(values):
    """Arrays and bitsets only."""
    containers = {}
    for value in sorted(set(values)):
        containers.setdefault(value >> 16, []).append(value & 0xFFFF)
    keys, offsets, bodies = b"", b"", b""
    at = 8 + 8 * len(containers)
    for key, low in containers.items():
        keys += struct.pack("<HH", key, len(low) - 1)
        offsets += struct.pack("<I", at + len(bodies))
        if len(low) <= 4096:
            bodies += struct.pack("<%dH" % len(low), *low)
        else:
            bits = 0
            for value in low:
                bits |= 1 << value
            bodies += bits.to_bytes(8192, "little")
    return struct.pack("<II", 12346, len(containers)) + keys + offsets + bodies


def treemap(addresses):
    """Of row addresses, fragment << 32 | row."""
    fragments = {}
    for address in sorted(set(addresses)):
        fragments.setdefault(address >> 32, []).append(address & 0xFFFFFFFF)
    return struct.pack("<Q", len(fragments)) + b"".join(
        struct.pack("<I", fragment) + bitmap(rows) for fragment, rows in fragments.items()
    )
