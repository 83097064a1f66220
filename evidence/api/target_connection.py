"""Resolve the connection that an owner's write request addresses."""

from evidence.access.scope import Scope
from evidence.api.query_parameters import QueryParameters
from evidence.errors import (
    AmbiguousConnection,
    ConnectionNotFound,
    ConnectorMismatch,
    InvalidRequest,
)


def target_connection_id(scope: Scope, query: QueryParameters) -> str:
    """Return the named connection, or the only connection of the connector.

    Raises InvalidRequest, ConnectorMismatch, ConnectionNotFound or AmbiguousConnection.
    """
    named, connector = query.connection_id(), query.text("connector_id")
    if named is not None:
        _check_same(scope, named, connector)
        return named
    if not connector:
        raise InvalidRequest(
            message="Name the connector with connector_id, or a connection with connection_id.",
            param="connector_id",
        )
    connections = [
        facts
        for facts in scope.connections.values()
        if scope.sources[facts.source_pk].is_called(connector)
    ]
    if not connections:
        raise ConnectionNotFound(
            message=f"The connector {connector[:64]!r} has no connection.", param="connector_id"
        )
    if len(connections) > 1:
        raise AmbiguousConnection(
            [
                {
                    "connection_id": facts.connection_id,
                    "display_name": facts.display_name,
                    "connector_key": scope.sources[facts.source_pk].connector_key,
                }
                for facts in connections
            ]
        )
    return connections[0].connection_id


def _check_same(scope: Scope, connection_id: str, connector: str | None) -> None:
    """Raise ConnectorMismatch; the write itself rejects an unknown connection."""
    facts = scope.connections.get(connection_id)
    if connector is None or facts is None:
        return
    if not scope.sources[facts.source_pk].is_called(connector):
        raise ConnectorMismatch(param="connector_id")
