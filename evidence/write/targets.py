"""Load the streams that an import may write to, once per import."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from evidence.declarations.declaration import StreamDeclaration
from evidence.declarations.record_validation import RecordValidator
from evidence.declarations.storage_layout import StreamLayout
from evidence.errors import (
    ApiException,
    ConnectionNotFound,
    ConnectionNotWritable,
    StreamNotDeclared,
)
from evidence.models.connections import Connection
from evidence.models.sources import StoredDeclaration, load_declarations
from evidence.write.ndjson import LineRejectedError, ReceiptCode


@dataclass(frozen=True, eq=False)
class Target:
    """One stream of one connection, with the declaration that was current at the start."""

    owner_id: str
    connection_id: str
    stream: StreamDeclaration
    layout: StreamLayout
    declaration_id: int
    languages: tuple[str, ...]

    @cached_property
    def validator(self) -> RecordValidator:
        """Built on first use: most targets of a background job never receive a record."""
        return RecordValidator(self.stream)

    @cached_property
    def search_fields(self) -> frozenset[str]:
        """Fields that the search text and its time depend on."""
        return frozenset({*self.layout["search"], self.stream.consent_time_field or ""})

    @property
    def is_append_only(self) -> bool:
        return self.stream.semantics == "append_only"


class TargetRegistry:
    """Every stream an import may write to. ``find`` makes no query, so any thread can call it."""

    def __init__(self, connections: Iterable[Connection]) -> None:
        self._connections = {each.connection_id: each for each in connections}
        pks = {each.source.current_declaration_id for each in self._connections.values()}
        self._declared = load_declarations(pk for pk in pks if pk is not None)
        self._targets: dict[tuple[str, str], Target] = {}

    def find(self, connection_id: str, *, stream: str) -> Target:
        """Return a target. Raises ``LineRejectedError`` if it accepts no records."""
        known = self._targets.get((connection_id, stream))
        if known is None:
            known = self._target(connection_id, stream)
            self._targets[connection_id, stream] = known
        return known

    def _target(self, connection_id: str, stream: str) -> Target:
        connection = self._connections.get(connection_id)
        if connection is None:
            raise LineRejectedError(ReceiptCode.CONNECTION_NOT_FOUND)
        if connection.status == Connection.Status.REVOKED:
            raise LineRejectedError(ReceiptCode.CONNECTION_NOT_WRITABLE)
        current = self._declared.get(connection.source.current_declaration_id or 0)
        if current is None or stream not in current.declaration.streams:
            raise LineRejectedError(ReceiptCode.STREAM_NOT_DECLARED)
        return build_target(connection, current, stream=stream)


def build_target(connection: Connection, current: StoredDeclaration, *, stream: str) -> Target:
    return Target(
        owner_id=str(connection.owner_id),
        connection_id=connection.connection_id,
        stream=current.declaration.streams[stream],
        layout=current.layout[stream],
        declaration_id=current.declaration_id,
        languages=tuple(connection.languages),
    )


def connection_targets(connection: Connection) -> Iterator[Target]:
    """Yield every stream that the source of a connection currently declares."""
    pk = connection.source.current_declaration_id
    if pk is not None:
        current = load_declarations([pk])[pk]
        for stream in current.declaration.streams:
            yield build_target(connection, current, stream=stream)


def load_all_targets(owner_id: str) -> TargetRegistry:
    """Load all connections of the owner, in two queries."""
    return TargetRegistry(Connection.unscoped.select_related("source").filter(owner_id=owner_id))


def load_one_target(owner_id: str, *, connection_id: str, stream: str) -> TargetRegistry:
    """Load one stream of one connection.

    Raises ``ConnectionNotFound``, ``ConnectionNotWritable`` or ``StreamNotDeclared``.
    """
    connections = Connection.unscoped.select_related("source").filter(owner_id=owner_id)
    registry = TargetRegistry(connections.filter(connection_id=connection_id))
    try:
        registry.find(connection_id, stream=stream)
    except LineRejectedError as error:
        kind, param = _ERRORS[error.code]
        raise kind(param=param) from None
    return registry


_ERRORS: Mapping[ReceiptCode, tuple[type[ApiException], str]] = {
    ReceiptCode.CONNECTION_NOT_FOUND: (ConnectionNotFound, "connection_id"),
    ReceiptCode.CONNECTION_NOT_WRITABLE: (ConnectionNotWritable, "connection_id"),
    ReceiptCode.STREAM_NOT_DECLARED: (StreamNotDeclared, "stream"),
}
