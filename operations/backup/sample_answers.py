"""Hash sample answers at backup time, to compare after a restore.

The answers are what the owner reads of each stream through the gate. The backup contains only their
hashes, so this discloses no records.
"""

import hashlib
from collections.abc import Iterator

import orjson

from evidence.access.gate import Gate
from evidence.access.owner_scope import owner_scope
from evidence.access.records import VisibleRecord, VisibleRecords
from evidence.errors import ApiException
from evidence.ledger.checkpoints import chain_heads
from evidence.reading import records as reading
from evidence.reading.search import search
from evidence.search.results import SearchRequest

MAX_STREAMS = 40
MAX_RECORDS = 10
QUERY_MIN_CHARS = 4
"""Shorter words match too many records."""

Answers = dict[str, str]


def sample_answers(owner_id: str) -> Answers:
    """Return the hash of each sample answer, by a name such as `list connection_id/stream`."""
    gate = Gate(owner_scope(owner_id))
    return dict(
        answer
        for visible in gate.streams()[:MAX_STREAMS]
        for connection in visible.connections
        for answer in _stream_answers(gate, visible.for_connection(connection.connection_id))
    )


def ledger_heads(owner_id: str) -> list[list[str | int]]:
    """Return the heads of all ledger chains as JSON values."""
    return [[head.chain, head.seq, head.digest.hex()] for head in chain_heads(owner_id)]


def _stream_answers(gate: Gate, visible: VisibleRecords) -> Iterator[tuple[str, str]]:
    [connection] = visible.connections
    name = f"{connection.connection_id}/{visible.stream.name}"
    records = reading.page(
        visible, limit=MAX_RECORDS, descending=True, after=None, where=()
    ).records
    yield f"list {name}", _hash([_content(record) for record in records])
    for record in records[:1]:
        yield f"get {name}", _hash(_content(reading.get(visible, record.record_key)))
    title = visible.stream.title_field
    titles = [str(record.data.get(title, "")) for record in records if title is not None]
    words = (word for text in titles for word in text.split())
    word = next((word for word in words if word.isalpha() and len(word) >= QUERY_MIN_CHARS), None)
    if word is not None:
        yield f"search {name}", _hash(_search_keys(gate, visible, word))


def _search_keys(gate: Gate, visible: VisibleRecords, word: str) -> list[str]:
    request = SearchRequest(
        q=word,
        mode="lexical",
        streams=[visible.stream.name],
        connection_id=visible.connections[0].connection_id,
        filters=(),
        limit=MAX_RECORDS,
        newest_first=False,
        after=None,
    )
    try:
        return [hit.record.record_key for hit in search(gate, request).hits]
    except ApiException as refusal:
        return [refusal.code]


def _content(record: VisibleRecord) -> list[object]:
    return [record.record_key, record.version, record.emitted_at.isoformat(), record.data]


def _hash(answer: object) -> str:
    return hashlib.sha256(orjson.dumps(answer, option=orjson.OPT_SORT_KEYS)).hexdigest()
