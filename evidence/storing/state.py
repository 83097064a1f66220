"""What a collector left to remember: opaque JSON by stream, kept for it between its runs."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import transaction

from evidence.models.connections import CollectorState
from evidence.models.declared import declared
from evidence.models.sources import Source
from evidence.refusals import InvalidRequest, NotFound, StreamNotDeclared
from evidence.storing.parsing import refuse_nul
from evidence.storing.receipts import MEANINGS, Rejected


@dataclass(frozen=True, slots=True)
class Remembered:
    """``state`` maps a stream to whatever its collector wants back; ``updated_at`` None: never."""

    connector_key: str
    grant_id: str | None
    state: Mapping[str, Any]
    updated_at: datetime | None


def get_state(connector_key: str, *, owner_id: str, grant_id: str | None = None) -> Remembered:
    """What was put last, or nothing. Raises ``NotFound`` for a source that is not declared."""
    source = _source(connector_key, owner_id)
    row = CollectorState.unscoped.filter(source=source, grant_id=grant_id or "").first()
    if row is None:
        return Remembered(connector_key, grant_id, {}, None)
    return Remembered(connector_key, grant_id, row.state, row.updated_at)


def put_state(
    connector_key: str,
    *,
    state: Mapping[str, Any],
    owner_id: str,
    now: datetime,
    grant_id: str | None = None,
) -> Remembered:
    """Puts the streams named in ``state`` and leaves the others as they were (contract 5.4).

    Raises ``NotFound`` for a source that is not declared, ``StreamNotDeclared`` for a stream that
    it does not declare, ``InvalidRequest`` for what is no JSON object.
    """
    source = _source(connector_key, owner_id)
    _check(state, source)
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
    return Remembered(connector_key, grant_id, row.state, row.updated_at)


def _source(connector_key: str, owner_id: str) -> Source:
    source = Source.unscoped.filter(owner_id=owner_id, connector_key=connector_key).first()
    if source is None or source.current_declaration_id is None:
        raise NotFound(message=f"No source {connector_key!r} is declared.", param="connector_id")
    return source


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
