"""What an answer shows, read off the answer itself: after budgets have cut it, before it is sent.

Every kind of body is named here. One that is not is refused, so that a new kind of answer cannot
go out unrecorded.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from evidence.access.gate import Gate
from evidence.access.records import VisibleRecords
from evidence.declarations.declaration import StreamDeclaration
from evidence.ledger.entries import Shown
from evidence.reading.schema import SourceCapability

Json = Mapping[str, Any]
NOT_RECORDS = frozenset(
    {"schema", "connector", "stream_metadata", "collector_state", "owner_connection"}
)
"""What there is and how much of it, not what it says."""


class UnknownBody(Exception):  # noqa: N818 - a view without an entry here, not a bad request
    """An answer of a kind that nobody has said how to record."""


def shown(body: Json, *, gate: Gate, connection_id: str | None, by: frozenset[str]) -> list[Shown]:
    """The records and fields in ``body``. ``connection_id`` is the one that was asked for; ``by`` are
    the fields of filters, whose values an answer tells of."""
    if body["object"] == "aggregation":
        visible = gate.stream(body["stream"], connection_id=connection_id)
        return told_in_numbers(visible, fields=by | _of_numbers(body))
    return list(_found(body, gate, by=by) if body["object"] == "list" else _shown(body, gate))


def _found(body: Json, gate: Gate, *, by: frozenset[str]) -> Iterator[Shown]:
    for row in body["data"]:
        for related, each in enumerate(_shown(row, gate)):
            yield each if related else replace(each, fields=each.fields | by)


def _shown(body: Json, gate: Gate) -> Iterator[Shown]:
    kind = body["object"]
    if kind == "list":
        for row in body["data"]:
            yield from _shown(row, gate)
    elif kind == "record":
        yield _record(body)
        for related in (body.get("expanded") or {}).values():
            if related is not None:
                yield from _shown(related, gate)
    elif kind == "search_result":
        yield _hit(body, gate)
    elif kind == "field_window":
        yield _place(body, body["record_id"], {_top(body["field"]["path"])})
    elif kind == "stream":
        yield Shown(body["connection_id"], body["name"], None, frozenset())
    elif kind not in NOT_RECORDS:
        raise UnknownBody(kind)


def told_in_numbers(visible: VisibleRecords, *, fields: frozenset[str]) -> list[Shown]:
    """How much there is, or that there is nothing."""
    return [
        Shown(facts.connection_id, visible.stream.name, None, fields)
        for facts in visible.connections
    ]


def counted_streams(found: Iterable[SourceCapability]) -> list[Shown]:
    """The streams of a schema whose size or freshness it tells."""
    return [
        shown
        for source in found
        for row in source.streams
        if row.record_count is not None or row.captured_at is not None
        for shown in told_in_numbers(row.visible, fields=frozenset())
    ]


def _of_numbers(body: Json) -> frozenset[str]:
    return frozenset(body[name] for name in ("field", "group_by", "group_by_time")) - {None}


def _record(body: Json) -> Shown:
    """Of a record that is gone nothing is shown; it may have been erased, and gets no name again."""
    key = None if body.get("deleted") else body["id"]
    return Shown(body["connection_id"], body["stream"], key, frozenset(body.get("data", ())))


def _hit(body: Json, gate: Gate) -> Shown:
    fields = {*body["matched_fields"]}
    stream = _declared(gate, body["connection_id"], body["stream"])
    if "snippet" in body:  # a passage near in meaning, where no word matched
        fields.add(body["snippet"]["field"])
    if "title" in body:
        fields.add(stream.title_field or "")
    if "authored_at" in body:
        fields.add(stream.event_time_field or "")
    return _place(body, body["record_key"], fields)


def _place(body: Json, record_key: str, fields: set[str]) -> Shown:
    return Shown(body["connection_id"], body["stream"], record_key, frozenset(fields))


def _declared(gate: Gate, connection_id: str, name: str) -> StreamDeclaration:
    return gate.stream(name, connection_id=connection_id).stream


def _top(path: str) -> str:
    """The field that a JSON Pointer leads into."""
    if not path.startswith("/"):
        return path
    return path.split("/")[1].replace("~1", "/").replace("~0", "~")
