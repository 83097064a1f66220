"""What follows from a record: sort key, consent time, typed columns, search text.

Everything here is computed from the data and the target alone, so it can be done on any thread,
and done again when a declaration changes.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from evidence.analyser import VERSION
from evidence.analyser.lexemes import IndexedField, joined_lexemes
from evidence.declarations.layout import columns, links
from evidence.declarations.types import TITLE_ROLE, StreamDeclaration
from evidence.declarations.values import field_text, instant, sort_key
from evidence.storing import copying
from evidence.storing.comparing import State
from evidence.storing.destinations import Target

BODY_WEIGHT = 1.0
TITLE_WEIGHT = 2.0
"""A word in a title says more about a record than one in its body (design, section 6)."""


@dataclass(frozen=True, slots=True)
class Derived:
    """``row`` is a record as COPY text up to its links; ``search`` is its search text as a binary
    row, or None where the stream is not searched."""

    consent_time: datetime | None
    row: bytes
    search: bytes | None


def derive(target: Target, *, key: str, data: Mapping[str, Any]) -> Derived:
    """The rows of a record, without what depends on its history."""
    stream, layout = target.stream, target.layout
    consent_time = instant(data.get(stream.consent_time_field or ""))
    typed = columns(layout, data)
    row = b"\t".join(
        (
            copying.text(target.connection_id),
            copying.text(stream.name),
            copying.text(key),
            copying.json(data),
            copying.text(_sort_key(stream, data)),
            copying.moment(consent_time),
            copying.plain_array(typed.numbers),
            copying.moment_array(typed.times),
            copying.text_array(typed.words),
            *map(copying.text, links(layout, data)),
        )
    )
    search = _search(target, key, data, consent_time) if layout["search"] else None
    return Derived(consent_time, row, search)


def record_row(derived: Derived, state: State) -> bytes:
    """The whole row of a record, as ``rows.RECORDS`` names its columns."""
    times = copying.json(state.field_emitted) if state.field_emitted else copying.NULL
    row = (derived.row, copying.moment(state.emitted_at), times, b"%d" % state.change_seq)
    return b"\t".join(row) + b"\n"


def _sort_key(stream: StreamDeclaration, data: Mapping[str, Any]) -> str | None:
    if stream.cursor_field is None:
        return None
    return sort_key(stream.fields[stream.cursor_field], value=data.get(stream.cursor_field))


def _search(
    target: Target, key: str, data: Mapping[str, Any], authored_at: datetime | None
) -> bytes:
    """Every field that was ever searched is indexed, as its code is never given away."""
    fields = [
        IndexedField(code, text, _weight(target.stream, field))
        for field, code in target.layout["search"].items()
        if (text := field_text(data.get(field)))
    ]
    codes = len(target.layout["search"])
    return copying.binary_row(
        copying.binary_text(target.connection_id),
        copying.binary_text(target.stream.name),
        copying.binary_text(key),
        copying.binary_terms(joined_lexemes(fields, languages=target.languages, codes=codes)),
        copying.binary_moment(authored_at),
        copying.binary_small(VERSION),
    )


def _weight(stream: StreamDeclaration, field: str) -> float:
    declared = stream.fields.get(field)
    return TITLE_WEIGHT if declared and declared.role == TITLE_ROLE else BODY_WEIGHT
