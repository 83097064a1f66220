"""Which connection the owner means where something is written."""

from evidence.access.scope import Scope
from evidence.api.query_parameters import Parameters
from evidence.errors import (
    AmbiguousConnection,
    ConnectionNotFound,
    ConnectorMismatch,
    InvalidRequest,
)


def owned_connection(scope: Scope, query: Parameters) -> str:
    """The connection named, or the only one of the connector.

    Raises ``InvalidRequest``, ``ConnectorMismatch``, ``ConnectionNotFound`` and
    ``AmbiguousConnection``.
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
    found = [
        facts
        for facts in scope.connections.values()
        if scope.sources[facts.source_pk].is_called(connector)
    ]
    if not found:
        raise ConnectionNotFound(
            message=f"The connector {connector[:64]!r} has no connection.", param="connector_id"
        )
    if len(found) > 1:
        raise AmbiguousConnection(
            [
                {
                    "connection_id": facts.connection_id,
                    "display_name": facts.display_name,
                    "connector_key": scope.sources[facts.source_pk].connector_key,
                }
                for facts in found
            ]
        )
    return found[0].connection_id


def _check_same(scope: Scope, connection_id: str, connector: str | None) -> None:
    """One that is not there is refused by whoever writes to it."""
    facts = scope.connections.get(connection_id)
    if connector is None or facts is None:
        return
    if not scope.sources[facts.source_pk].is_called(connector):
        raise ConnectorMismatch(param="connector_id")
