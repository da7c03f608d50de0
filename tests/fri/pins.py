"""Pins, put into a table as FORMAT.md says: what cannot be had from Lance, and must not be had from what is tested."""

import uuid

import wire
from table import TRANSACTION_FILE, WRITER, Head

PINS, FLAG = 10395, 1 << 19
# Fields of OngoingWorkPin.
ID, SOURCE_VERSION, SOURCE_TRANSACTION, CREATED_AT, EXPIRES_AT, LABEL = range(1, 7)
CONFIG = 110


def pin(source, transaction, name=None):
    """Its id, and the message: on version `source`, whose transaction has this uuid."""
    name = name or str(uuid.uuid4())
    created, expires = wire.encode([(1, 1767225600)]), wire.encode([(1, 4102444800)])
    fields = [(ID, wire.encode([(1, uuid.UUID(name).bytes)])), (SOURCE_VERSION, source)]
    fields += [(SOURCE_TRANSACTION, transaction.encode()), (CREATED_AT, created), (EXPIRES_AT, expires)]
    return name, wire.encode(fields)


def transaction_of(at, version):
    """Its uuid, by the name of its file: read_transaction of pylance 14.0.2 fails where a compaction remapped an index."""
    name = Head(at, version).get(TRANSACTION_FILE).decode()
    return name[name.index("-") + 1 : -len(".txn")]


def publish(head, pins):
    """The next version of a table (table.Head), which has these pins."""
    head.fields = [field for field in head.fields if field[0] != PINS]
    head.fields += [[PINS, message] for message in pins]
    head.set(WRITER, head.get(WRITER) | FLAG)
    head.publish(CONFIG)
