"""Answers to compare: what the owner reads of each stream, through the gate, told by a hash.

A backup carries them from the moment it was made, and whoever restores it asks the same again.
Nothing is disclosed by it: an answer becomes a hash, and the hash is sealed in the backup.
"""

import hashlib
from collections.abc import Iterator

import orjson

from evidence.access.gate import Gate
from evidence.access.owner_scope import owner_scope
from evidence.access.records import VisibleRecord, VisibleRecords
from evidence.errors import Refusal
from evidence.ledger.checkpoints import heads
from evidence.reading import records as reading
from evidence.reading.search import search
from evidence.search.results import SearchRequest

STREAMS = 40
RECORDS = 10
WORD_CHARS = 4
"""A shorter word says too little to be searched for."""

Answers = dict[str, str]


def answers(owner_id: str) -> Answers:
    """What was asked -> a hash of what was answered."""
    gate = Gate(owner_scope(owner_id))
    return dict(
        each
        for visible in gate.streams()[:STREAMS]
        for connection in visible.connections
        for each in _of_stream(gate, visible.narrowed_to(connection.connection_id))
    )


def ledger_heads(owner_id: str) -> list[list[str | int]]:
    """The ends of all chains, as JSON has them."""
    return [[head.chain, head.seq, head.digest.hex()] for head in heads(owner_id)]


def _of_stream(gate: Gate, visible: VisibleRecords) -> Iterator[tuple[str, str]]:
    [connection] = visible.connections
    where = f"{connection.connection_id}/{visible.stream.name}"
    found = reading.page(visible, limit=RECORDS, descending=True, after=None, where=()).records
    yield f"list {where}", _hash([_told(record) for record in found])
    for record in found[:1]:
        yield f"get {where}", _hash(_told(reading.one(visible, record.record_key)))
    title = visible.stream.title_field
    words = (str(record.data.get(title, "")) for record in found if title is not None)
    word = next((each for text in words for each in text.split() if _is_word(each)), None)
    if word is not None:
        yield f"search {where}", _hash(_searched(gate, visible, word))


def _searched(gate: Gate, visible: VisibleRecords, word: str) -> list[str]:
    request = SearchRequest(
        q=word,
        mode="lexical",
        streams=[visible.stream.name],
        connection_id=visible.connections[0].connection_id,
        filters=(),
        limit=RECORDS,
        newest_first=False,
        after=None,
    )
    try:
        return [hit.record.record_key for hit in search(gate, request).hits]
    except Refusal as refusal:
        return [refusal.code]


def _told(record: VisibleRecord) -> list[object]:
    return [record.record_key, record.version, record.emitted_at.isoformat(), record.data]


def _is_word(text: str) -> bool:
    return text.isalpha() and len(text) >= WORD_CHARS


def _hash(answer: object) -> str:
    return hashlib.sha256(orjson.dumps(answer, option=orjson.OPT_SORT_KEYS)).hexdigest()
