"""Read the parameters of a request, and say what they mean for records: conditions, fields, a connection.

The syntax is that of the reference: `filter[field][gte]=1`, `fields=a,b` or repeated, `streams[]=a`. What
each route takes is declared in `evidence.parameters`.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from django.core.exceptions import SuspiciousOperation
from django.http import HttpRequest, QueryDict

from evidence import limits
from evidence.access.gate import Gate
from evidence.access.records import VisibleRecords
from evidence.access.scope import Scope, TokenKind
from evidence.access.sql import SQL
from evidence.errors import (
    AmbiguousConnection,
    ApiException,
    ConnectionNotFound,
    ConnectorMismatch,
    InvalidArgument,
    InvalidRequest,
)
from evidence.parameters import (
    TEXT_CHARS,
    Connections,
    KeyedValue,
    OneConnection,
    ParameterError,
    Parameters,
    Projection,
    Selection,
)
from evidence.read import expansion
from evidence.read.expansion import Expansion
from evidence.read.filters import parameter_name, parse_filters, parse_period
from evidence.read.records import select_fields

MAX_VALUE_CHARS, MAX_VALUES_NAMED = 100, 3
_NAME = re.compile(r"([^\[\]]+)((?:\[[^\[\]]*\])*)")
ParametersT = TypeVar("ParametersT", bound=Parameters)


@dataclass(frozen=True, slots=True)
class ApiWarning:
    """An item of `meta.warnings` (contract 3.0)."""

    code: str
    message: str
    param: str
    detail: Mapping[str, object] | None = None


def read_parameters(
    request: HttpRequest,
    model: type[ParametersT],
    *,
    invalid: type[ApiException],
    missing: type[ApiException],
) -> ParametersT:
    """Return the parameters of a request. `connection_id` is also that of its deprecated name.

    Raises InvalidRequest for a parameter that the route does not have, `missing` or `invalid` for one
    that is missing or invalid, and InvalidArgument where both names of a connection are given and differ.
    """
    try:
        query = request.GET
    except SuspiciousOperation as error:
        raise InvalidRequest(message="The query has too many parameters.") from error
    try:
        parameters = model.parse_query(_query_values(query))
    except ParameterError as error:
        if error.kind == "unknown":
            names = ", ".join(sorted(model.model_fields))
            raise InvalidRequest(
                message=f"Unknown parameter {error.name[:64]!r}.",
                param=error.name[:64],
                next_step=f"This route takes: {names}."
                if names
                else "This route takes no parameters.",
            ) from None
        refusal = missing if error.kind == "missing" else invalid
        raise refusal(message=str(error), param=error.name) from None
    if isinstance(parameters, OneConnection) and parameters.connector_instance_id is not None:
        if parameters.connection_id not in (None, parameters.connector_instance_id):
            raise InvalidArgument(
                message="connection_id and connector_instance_id name different connections.",
                param="connector_instance_id",
            )
        parameters.connection_id = parameters.connector_instance_id
    return parameters


def first_warnings(parameters: Parameters) -> list[ApiWarning]:
    """Return the warnings that the parameters themselves call for."""
    if not isinstance(parameters, OneConnection) or parameters.connector_instance_id is None:
        return []
    return [
        ApiWarning(
            "deprecated_alias_used",
            "connector_instance_id is deprecated; use connection_id.",
            "connector_instance_id",
        )
    ]


def clamp(name: str, number: int, *, most: int, warnings: list[ApiWarning]) -> int:
    """Return `number`, lowered to `most` with a warning."""
    if number > most:
        detail = {f"max_{name}": most, f"requested_{name}": number}
        warnings.append(ApiWarning("limit_clamped", f"{name} was lowered to {most}.", name, detail))
    return min(number, most)


def page_limit(limit: int | None, warnings: list[ApiWarning]) -> int:
    """Return the number of items of a page, lowered to PAGE_MAX with a warning."""
    return clamp("limit", limit or limits.PAGE_DEFAULT, most=limits.PAGE_MAX, warnings=warnings)


def resolved(visible: VisibleRecords) -> dict[str, object]:
    """Return the stream and the connections that a cursor is bound to, however they were named."""
    ids = sorted(facts.connection_id for facts in visible.connections)
    return {"stream": visible.stream.name, "connection_id": ids, "connector_id": None}


def _query_values(query: QueryDict) -> dict[str, list[KeyedValue]]:
    """Return the values of a query string by parameter. Raises InvalidRequest where it is malformed."""
    found: dict[str, list[KeyedValue]] = {}
    for full_name, values in query.lists():
        match = _NAME.fullmatch(full_name)
        name = match.group(1) if match else full_name
        if match is None or "\x00" in full_name:
            raise InvalidRequest(message="A parameter name is malformed.", param=name[:64])
        keys = tuple(match.group(2)[1:-1].split("][")) if match.group(2) else ()
        if len(keys) > limits.QUERY_DEPTH_MAX:
            raise InvalidRequest(message=f"{name} is nested too deeply.", param=name[:64])
        for value in values:
            if "\x00" in value:
                raise InvalidRequest(message=f"{name} contains a NUL character.", param=name[:64])
            if len(value) > TEXT_CHARS:
                raise InvalidRequest(
                    message=f"{name} takes at most {TEXT_CHARS} characters.", param=name[:64]
                )
        found.setdefault(name, []).extend((keys, value) for value in values)
    return found


def parse_conditions(visible: VisibleRecords, query: Selection) -> list[SQL]:
    """Return the conditions of `filter`, `after` and `before`."""
    if query.filter is None and query.after is None and query.before is None:
        return []
    conditions = parse_filters(visible, query.filter or ())
    return [*conditions, *parse_period(visible, query.after, query.before)]


def unmatched_warnings(unmatched: Sequence[KeyedValue]) -> list[ApiWarning]:
    """Name each filter that alone leaves no visible record, with the first of its values."""
    values: dict[str, list[str]] = {}
    for keys, value in unmatched:
        values.setdefault(parameter_name(keys), []).append(value[:MAX_VALUE_CHARS])
    return [
        ApiWarning(
            "filter_matches_nothing",
            f"No visible record meets {name}={' or '.join(map(repr, given[:MAX_VALUES_NAMED]))}"
            f"{f' or {len(given) - MAX_VALUES_NAMED} more' if given[MAX_VALUES_NAMED:] else ''} alone.",
            name,
        )
        for name, given in values.items()
    ]


def future_warning(count: int, tomorrow: str) -> ApiWarning:
    """Say how many records of a list are dated in the future, which puts them first."""
    records, come = ("1 record lies", "comes") if count == 1 else (f"{count} records lie", "come")
    return ApiWarning(
        "records_in_future",
        f"{records} in the future and {come} first; before={tomorrow} leaves them out.",
        "before",
        {"count": count, "before": tomorrow},
    )


def parse_fields(visible: VisibleRecords, query: Projection) -> frozenset[str] | None:
    """Return the fields that `fields` or `view` selects, or None for all."""
    return select_fields(visible, fields=query.fields, view=query.view)


def parse_expand(query: Projection, gate: Gate, visible: VisibleRecords) -> list[Expansion]:
    """Return the relations that `expand` names, with their limits."""
    names, maximums = query.expand or (), query.expand_limit or ()
    if not names and not maximums:
        return []
    return expansion.parse_expand(gate, visible, names=names, limits=maximums)


def target_connection_id(
    scope: Scope, query: OneConnection, *, connector: str | None = None
) -> str:
    """Return the named connection, or the only connection of the connector, which a path may name.

    Raises InvalidRequest, ConnectorMismatch, ConnectionNotFound or AmbiguousConnection.
    """
    named = query.connection_id
    if isinstance(query, Connections):
        connector = connector or query.connector_id
    if named is not None:
        if scope.kind is TokenKind.COLLECTOR and named not in scope.connections:
            raise ConnectionNotFound(param="connection_id")
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
