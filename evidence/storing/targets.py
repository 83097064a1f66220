"""Where lines may go: the owner's connections and what their sources declare, read once a run."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from evidence.declarations.declaration import StreamDeclaration
from evidence.declarations.record_validation import RecordValidator
from evidence.declarations.storage_layout import StreamLayout
from evidence.errors import ConnectionNotFound, ConnectionNotWritable, Refusal, StreamNotDeclared
from evidence.models.connections import Connection
from evidence.models.sources import Declared, declared
from evidence.storing.receipts import Code, Rejected


@dataclass(frozen=True, eq=False)
class Target:
    """One stream of one connection, under the declaration that was current when the run began."""

    connection_id: str
    stream: StreamDeclaration
    layout: StreamLayout
    declaration_id: int
    languages: tuple[str, ...]
    validator: RecordValidator

    @cached_property
    def searched(self) -> frozenset[str]:
        """The fields that search text is made of."""
        return frozenset({*self.layout["search"], self.stream.consent_time_field or ""})

    @property
    def appends(self) -> bool:
        return self.stream.semantics == "append_only"


class Destinations:
    """Every stream a run may write to. Finding one asks the database nothing, so that lines can
    be prepared on a thread without a connection."""

    def __init__(self, connections: Mapping[str, Connection]) -> None:
        self._connections = connections
        self._declared = _current(connections)
        self._targets: dict[tuple[str, str], Target] = {}

    def find(self, connection_id: str, *, stream: str) -> Target:
        """Raises ``Rejected`` for a connection or stream that takes no records."""
        known = self._targets.get((connection_id, stream))
        if known is None:
            known = self._target(connection_id, stream)
            self._targets[connection_id, stream] = known
        return known

    def _target(self, connection_id: str, stream: str) -> Target:
        connection = self._connections.get(connection_id)
        if connection is None:
            raise Rejected(Code.CONNECTION_NOT_FOUND)
        if connection.status == Connection.Status.REVOKED:
            raise Rejected(Code.CONNECTION_NOT_WRITABLE)
        current = self._declared.get(connection.source.current_declaration_id or 0)
        if current is None or stream not in current.declaration.streams:
            raise Rejected(Code.STREAM_NOT_DECLARED)
        return target_of(connection, current, stream=stream)


def target_of(connection: Connection, current: Declared, *, stream: str) -> Target:
    declaration = current.declaration.streams[stream]
    return Target(
        connection_id=connection.connection_id,
        stream=declaration,
        layout=current.layout[stream],
        declaration_id=current.declaration_id,
        languages=tuple(connection.languages),
        validator=RecordValidator(declaration),
    )


def targets_of(connection: Connection) -> Iterator[Target]:
    """Every stream that the source of a connection declares now."""
    pk = connection.source.current_declaration_id
    if pk is not None:
        current = declared([pk])[pk]
        for stream in current.declaration.streams:
            yield target_of(connection, current, stream=stream)


def all_of(owner_id: str) -> Destinations:
    """All connections of the owner; two queries."""
    return Destinations({each.connection_id: each for each in _connections(owner_id)})


def one_of(owner_id: str, *, connection_id: str, stream: str) -> Destinations:
    """One stream of one connection. Raises ``ConnectionNotFound``, ``ConnectionNotWritable`` and
    ``StreamNotDeclared`` before a line is read."""
    found = {each.connection_id: each for each in _connections(owner_id, connection_id)}
    destinations = Destinations(found)
    try:
        destinations.find(connection_id, stream=stream)
    except Rejected as refusal:
        kind, param = _REFUSALS[refusal.code]
        raise kind(param=param) from None
    return destinations


_REFUSALS: Mapping[Code, tuple[type[Refusal], str]] = {
    Code.CONNECTION_NOT_FOUND: (ConnectionNotFound, "connection_id"),
    Code.CONNECTION_NOT_WRITABLE: (ConnectionNotWritable, "connection_id"),
    Code.STREAM_NOT_DECLARED: (StreamNotDeclared, "stream"),
}


def _connections(owner_id: str, connection_id: str | None = None) -> Iterator[Connection]:
    rows = Connection.unscoped.select_related("source").filter(owner_id=owner_id)
    if connection_id is not None:
        rows = rows.filter(connection_id=connection_id)
    yield from rows


def _current(connections: Mapping[str, Connection]) -> dict[int, Declared]:
    pks = {each.source.current_declaration_id for each in connections.values()}
    return declared(pk for pk in pks if pk is not None)
