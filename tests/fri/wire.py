"""Protobuf messages as lists of [number, value]: an int is a varint, bytes are length-delimited.."""


def varint(value):
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def read_varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at


def field(number, value):
    """One field, encoded."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def message(*fields):
    """Encode fields in this order; None is left out, as are the zeros of proto3."""
    return b"".join(field(number, value) for number, value in fields if value is not None and value != 0)


def encode(fields):
    return b"".join(field(number, value) for number, value in fields)


def decode(data):
    fields, at = [], 0
    while at < len(data):
        tag, at = read_varint(data, at)
        if tag & 7 == 0:
            value, at = read_varint(data, at)
        elif tag & 7 == 2:
            size, at = read_varint(data, at)
            value, at = data[at : at + size], at + size
        else:
            raise ValueError("wire type %d at offset %d" % (tag & 7, at))
        fields.append([tag >> 3, value])
    return fields


def first(fields, number, default=None):
    return next((value for n, value in fields if n == number), default)


def every(fields, number):
    return [value for n, value in fields if n == number]
