"""How long records are kept: a period for a connection, or for one stream of it."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import transaction

from evidence.models.connections import Connection, StreamState
from evidence.models.declared import declared
from evidence.models.erasures import Retention
from evidence.refusals import InvalidRequest
from evidence.storing import rows
from evidence.storing.locking import Held, hold_one

LONGEST_DAYS = 36_500


@dataclass(frozen=True, slots=True)
class Due:
    """Records of a stream that are older than they are kept."""

    connection_id: str
    stream: str
    owner_id: str
    before: datetime


def keep_for(connection_id: str, *, days: int | None, stream: str = "", now: datetime) -> None:
    """Sets how long records are kept; None: for good. ``stream`` "" is every stream that has no
    period of its own. Raises ``ConnectionNotFound``, ``InvalidRequest``."""
    if days is not None and not 1 <= days <= LONGEST_DAYS:
        raise InvalidRequest(message=f"A period has 1 to {LONGEST_DAYS} days.", param="days")
    with transaction.atomic():
        held = hold_one(connection_id)
        if stream and days is not None:
            _require_stream(held, stream)
        known = Retention.unscoped.filter(connection_id=connection_id, stream=stream)
        if days is None:
            known.delete()
        else:
            Retention.unscoped.update_or_create(
                connection_id=connection_id, stream=stream, defaults={"days": days, "set_at": now}
            )


def _require_stream(connection: Held, stream: str) -> None:
    """A name that was mistyped would keep for good what its owner wants gone."""
    current = declared([connection.declaration_id or 0]).values()
    known = [name for each in current for name in each.declaration.streams]
    if stream not in {*known, *kept_for(connection.connection_id)}:
        raise InvalidRequest(
            message=f"There is no stream {stream}; there are {', '.join(known)}.", param="stream"
        )


def kept_for(connection_id: str) -> dict[str, int]:
    """stream -> days; "" for all others."""
    found = Retention.unscoped.filter(connection_id=connection_id).order_by("stream")
    return dict(found.values_list("stream", "days"))


def due(now: datetime) -> Sequence[Due]:
    """The streams that hold anything older than they may."""
    found = []
    for connection in Connection.unscoped.filter(
        pk__in=Retention.unscoped.values("connection_id")
    ).order_by("pk"):
        periods = kept_for(connection.pk)
        states = StreamState.unscoped.filter(connection=connection).order_by("stream")
        for stream in states.values_list("stream", flat=True):
            days = periods.get(stream, periods.get(""))
            if days is None:
                continue
            before = now - timedelta(days=days)
            if rows.names(connection.pk, stream, limit=1, before=before):
                found.append(Due(connection.pk, stream, connection.owner_id, before))
    return found
