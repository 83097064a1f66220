"""What a collector left to remember: opaque JSON by stream, kept for it between its runs."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import transaction

from evidence.models.connections import CollectorState
from evidence.models.declared import declared
from evidence.models.sources import Source
from evidence.refusals import InvalidRequest, StreamNotDeclared
from evidence.storing.parsing import refuse_nul
from evidence.storing.receipts import MEANINGS, Rejected
from evidence.storing.sources import declared_source


@dataclass(frozen=True, slots=True)
class Remembered:
    """``state`` maps a stream to whatever its collector wants back; ``updated_at`` None: never."""

    connector_key: str
    grant_id: str | None
    state: Mapping[str, Any]
    updated_at: datetime | None


def get_state(connector_id: str, *, owner_id: str, grant_id: str | None = None) -> Remembered:
    """What was put last, or nothing. Raises ``NotFound`` for a source that is not declared."""
    source = declared_source(connector_id, owner_id=owner_id)
    row = CollectorState.unscoped.filter(source=source, grant_id=grant_id or "").first()
    if row is None:
        return Remembered(source.connector_key, grant_id, {}, None)
    return Remembered(source.connector_key, grant_id, row.state, row.updated_at)


def put_state(
    connector_id: str,
    *,
    state: Mapping[str, Any],
    owner_id: str,
    now: datetime,
    grant_id: str | None = None,
    within: frozenset[str] | None = None,
) -> Remembered:
    """Puts the streams named in ``state`` and leaves the others as they were (contract 5.4).

    ``within`` are the streams of the grant that it is kept for. Raises ``NotFound`` for a source
    that is not declared, ``StreamNotDeclared`` for a stream that it does not declare,
    ``InvalidRequest`` for one that is not within and for what is no JSON object.
    """
    source = declared_source(connector_id, owner_id=owner_id)
    _check(state, source)
    outside = set() if within is None else state.keys() - within
    if outside:
        raise InvalidRequest(
            message=f"The grant does not cover the stream {min(outside)!r}.", param="state"
        )
    with transaction.atomic():
        row, made = CollectorState.unscoped.select_for_update().get_or_create(
            source=source,
            grant_id=grant_id or "",
            defaults={"state": dict(state), "updated_at": now},
        )
        if not made:
            row.state = {**row.state, **state}
            row.updated_at = now
            row.save(update_fields=["state", "updated_at"])
    return Remembered(source.connector_key, grant_id, row.state, row.updated_at)


def _check(state: object, source: Source) -> None:
    if not isinstance(state, Mapping):
        raise InvalidRequest(message="state is an object of one member a stream.", param="state")
    pk = source.current_declaration_id
    streams = declared([pk])[pk].declaration.streams if pk is not None else {}
    for stream in state:
        if stream not in streams:
            raise StreamNotDeclared(param="state")
    try:
        refuse_nul(state)
    except Rejected as refusal:
        raise InvalidRequest(message=MEANINGS[refusal.code], param="state") from None
