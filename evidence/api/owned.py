"""Which connection the owner means where something is written."""

from evidence.access.scope import Scope
from evidence.api.params import Parameters
from evidence.refusals import AmbiguousConnection, ConnectionNotFound, InvalidRequest


def owned_connection(scope: Scope, query: Parameters) -> str:
    """The connection named, or the only one of the connector.

    Raises ``InvalidRequest``, ``ConnectionNotFound`` and ``AmbiguousConnection``.
    """
    named = query.connection_id()
    if named is not None:
        return named
    connector = connector_id(query)
    found = [
        facts
        for facts in scope.connections.values()
        if scope.sources[facts.source_pk].connector_key == connector
    ]
    if not found:
        raise ConnectionNotFound(
            message=f"The connector {connector[:64]!r} has no connection.", param="connector_id"
        )
    if len(found) > 1:
        raise AmbiguousConnection(
            [
                {"connection_id": facts.connection_id, "display_name": facts.display_name}
                for facts in found
            ]
        )
    return found[0].connection_id


def connector_id(query: Parameters) -> str:
    """The connector key, given as such or at the end of the absolute id."""
    given = query.text("connector_id")
    if not given:
        raise InvalidRequest(
            message="Name the connector with connector_id, or a connection with connection_id.",
            param="connector_id",
        )
    return given.rstrip("/").rpartition("/")[2]
