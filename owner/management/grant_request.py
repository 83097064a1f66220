"""From the flags of ``manage.py grant`` to what is issued: a grant for each source."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby

from django.db.models import Q
from typing_extensions import override

from evidence.access.grant_terms import StreamRequest
from evidence.access.grants import GrantRequest, register_client
from evidence.errors import ConnectionNotFound, InvalidRequest, StreamNotDeclared
from evidence.models.clients import Client
from evidence.models.connections import Connection
from evidence.models.sources import load_declarations

FLAGS: Mapping[str, str] = {
    "client": "--client",
    "connections": "--connection",
    "fields": "--stream",
    "resources": "--record",
    "since": "--since",
    "streams": "--stream",
    "until": "--until",
}
"""Parameter of a refusal -> flag that it is about."""


@dataclass(frozen=True, slots=True)
class Named:
    """``[SOURCE/]STREAM[:REST]``, where SOURCE is the short name of a source."""

    source: str | None
    stream: str
    rest: str | None

    @classmethod
    def read(cls, text: str) -> "Named":
        # Neither a source nor a stream has a colon or a slash in its name; a key may have both.
        name, colon, rest = text.partition(":")
        source, slash, stream = name.rpartition("/")
        return cls(source if slash else None, stream, rest if colon else None)

    def means(self, source: str, stream: str) -> bool:
        return self.stream == stream and self.source in (None, source)

    @override
    def __str__(self) -> str:
        return f"{self.source}/{self.stream}" if self.source else self.stream


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What the flags say. No stream named means every stream."""

    connection_ids: Sequence[str]
    streams: Sequence[Named]
    records: Sequence[Named]
    since: datetime | None
    until: datetime | None
    purpose: str
    expires_at: datetime


def client_named(name: str, *, owner_id: str, now: datetime) -> Client:
    """The latest client of that name, or a new one. Raises ``InvalidRequest`` for a bad name."""
    known = Client.unscoped.filter(owner_id=owner_id, display_name=name.strip())
    found = known.order_by("-created_at", "client_id").first()
    return found or register_client(name, owner_id=owner_id, now=now)


def requests(wish: Wish, *, owner_id: str) -> list[GrantRequest]:
    """A request for each source among the connections.

    Raises ``ConnectionNotFound``, ``StreamNotDeclared`` and ``InvalidRequest``.
    """
    connections = _connections(wish.connection_ids, owner_id=owner_id)
    streams = {
        (each.source.connector_key, name): None for each in connections for name in _declared(each)
    }
    _check_names(wish, streams=list(streams))
    return [
        GrantRequest(
            connection_ids=[each.connection_id for each in group],
            streams=_streams(wish, source=key, declares=[s for k, s in streams if k == key]),
            purpose_description=wish.purpose,
            expires_at=wish.expires_at,
        )
        for key, group in groupby(connections, key=lambda each: each.source.connector_key)
    ]


def _connections(connection_ids: Sequence[str], *, owner_id: str) -> list[Connection]:
    """In the order of their sources."""
    rows = Connection.unscoped.select_related("source").filter(
        owner_id=owner_id, connection_id__in=connection_ids
    )
    found = list(rows.order_by("source__connector_key", "connection_id"))
    missing = set(connection_ids) - {each.connection_id for each in found}
    if missing:
        raise ConnectionNotFound(
            message=f"No such connection: {', '.join(sorted(missing))}.", param="connections"
        )
    return found


def _declared(connection: Connection) -> Sequence[str]:
    current = connection.source.current_declaration_id
    return (
        [] if current is None else list(load_declarations([current])[current].declaration.streams)
    )


def _check_names(wish: Wish, *, streams: Sequence[tuple[str, str]]) -> None:
    """Every name means something, or a typing error would go unseen."""
    for param, names in (("streams", wish.streams), ("resources", wish.records)):
        for name in names:
            if name.rest == "":
                raise InvalidRequest(message=f"Nothing follows the colon of {name}:.", param=param)
            if not any(name.means(source, stream) for source, stream in streams):
                known = ", ".join(f"{source}/{stream}" for source, stream in streams)
                raise StreamNotDeclared(
                    message=f"No stream {name} in these connections; they have: {known}.",
                    param=param,
                )


def _streams(wish: Wish, *, source: str, declares: Sequence[str]) -> list[StreamRequest]:
    chosen = [
        StreamRequest(
            name=stream,
            fields=_fields(wish.streams, source=source, stream=stream),
            resources=_keys(wish.records, source=source, stream=stream),
            since=wish.since,
            until=wish.until,
        )
        for stream in declares
        if not wish.streams or any(name.means(source, stream) for name in wish.streams)
    ]
    if not chosen:
        raise InvalidRequest(
            message=f"No stream of {source} is named, though a connection of it is.",
            param="streams",
        )
    unused = [
        name
        for name in wish.records
        if any(name.means(source, stream) for stream in declares)
        and not any(name.means(source, request.name) for request in chosen)
    ]
    if unused:
        raise InvalidRequest(
            message=f"The stream of {unused[0]}:{unused[0].rest} is not among those granted.",
            param="resources",
        )
    return chosen


def _fields(names: Sequence[Named], *, source: str, stream: str) -> list[str] | None:
    """The fields named for a stream; None, which is all, where it is named without any."""
    lists = [name.rest for name in names if name.means(source, stream)]
    if not lists or None in lists:
        return None
    return [field for rest in lists for field in (rest or "").split(",") if field]


def _keys(names: Sequence[Named], *, source: str, stream: str) -> list[str] | None:
    keys = [name.rest or "" for name in names if name.means(source, stream)]
    return keys or None


def clients_of_name(name: str, *, owner_id: str) -> list[str]:
    """The ids of all clients that are called so, or have it for their id."""
    found = Client.unscoped.filter(Q(display_name=name) | Q(client_id=name), owner_id=owner_id)
    return list(found.values_list("client_id", flat=True))
