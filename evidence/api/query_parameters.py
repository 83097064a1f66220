"""Parse query parameters strictly; unknown parameters are an error.

The syntax is that of the reference: `filter[field][gte]=1`, `fields=a,b` or repeated, `streams[]=a`.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from django.core.exceptions import SuspiciousOperation
from django.http import HttpRequest, QueryDict

from evidence import limits
from evidence.access.gate import Gate
from evidence.access.records import VisibleRecords
from evidence.access.scope import Scope
from evidence.access.sql import SQL
from evidence.errors import (
    AmbiguousConnection,
    ConnectionNotFound,
    ConnectorMismatch,
    InvalidArgument,
    InvalidRequest,
)
from evidence.read import expansion
from evidence.read.expansion import Expansion
from evidence.read.filters import Filter, parameter_name, parse_filters, parse_period
from evidence.read.records import select_fields

CONNECTION_PARAMETERS = frozenset({"connection_id", "connector_instance_id", "connector_id"})
"""Parameters of every route that reads or writes connections."""
PROJECTION_PARAMETERS = frozenset({"fields", "view"})
EXPAND_PARAMETERS = frozenset({"expand", "expand_limit"})
MAX_VALUE_LENGTH = 8_192
MAX_VALUE_CHARS, MAX_VALUES_NAMED = 100, 3
_NAME = re.compile(r"([^\[\]]+)((?:\[[^\[\]]*\])*)")
_INTEGER = re.compile(r"[+-]?[0-9]{1,18}")


@dataclass(frozen=True, slots=True)
class ApiWarning:
    """An item of `meta.warnings` (contract 3.0)."""

    code: str
    message: str
    param: str
    detail: Mapping[str, object] | None = None


class QueryParameters:
    """The parsed query string of a request. Raises InvalidRequest for parameters not in `allowed`."""

    def __init__(self, request: HttpRequest, *, allowed: frozenset[str]) -> None:
        self.path = request.get_full_path()
        try:
            self._query = request.GET
        except SuspiciousOperation as error:
            raise InvalidRequest(message="The query has too many parameters.") from error
        self.warnings: list[ApiWarning] = []
        self._values: dict[str, list[tuple[tuple[str, ...], str]]] = {}
        for name, keys, value in _parse_query(self._query):
            if name not in allowed:
                raise InvalidRequest(
                    message=f"Unknown parameter {name[:64]!r}.",
                    param=name[:64],
                    next_step=f"This route takes: {', '.join(sorted(allowed))}."
                    if allowed
                    else "This route takes no parameters.",
                )
            self._values.setdefault(name, []).append((keys, value))

    def link(self, **changes: str) -> str:
        """Return the URL of this request with some parameters changed."""
        query = self._query.copy()
        for name, value in changes.items():
            query[name] = value
        return f"{self.path.partition('?')[0]}?{query.urlencode()}"

    def has(self, name: str) -> bool:
        """Return whether the request has the parameter."""
        return name in self._values

    def text(self, name: str) -> str | None:
        """Return a plain value. Raises InvalidRequest when it is repeated or has brackets."""
        values = self._values.get(name)
        if values is None:
            return None
        if len(values) > 1 or values[0][0]:
            raise InvalidRequest(message=f"{name} takes one plain value.", param=name)
        return values[0][1]

    def integer(self, name: str) -> int | None:
        text = self.text(name)
        if text is None:
            return None
        if not _INTEGER.fullmatch(text):
            raise InvalidRequest(message=f"{name} takes a whole number.", param=name)
        return int(text)

    def positive_integer(self, name: str, *, default: int, max_value: int) -> int:
        """Return an integer of at least 1, lowered to `max_value` with a warning."""
        number = self.integer(name)
        if number is None:
            return default
        if number < 1:
            raise InvalidRequest(message=f"{name} takes a whole number from 1 up.", param=name)
        return self.clamp(name, number, max_value=max_value)

    def clamp(self, name: str, number: int, *, max_value: int) -> int:
        """Return `number`, lowered to `max_value` with a warning."""
        if number <= max_value:
            return number
        self.warnings.append(
            ApiWarning(
                "limit_clamped",
                f"{name} was lowered to {max_value}.",
                name,
                {f"max_{name}": max_value, f"requested_{name}": number},
            )
        )
        return max_value

    def choice(self, name: str, *choices: str, default: str) -> str:
        text = self.text(name)
        if text is None:
            return default
        if text not in choices:
            raise InvalidRequest(message=f"{name} takes {' or '.join(choices)}.", param=name)
        return text

    def name_list(self, name: str) -> list[str] | None:
        """Return the names of `a,b`, a repeated parameter or `name[]`, in order, without duplicates."""
        values = self._values.get(name)
        if values is None:
            return None
        names: dict[str, None] = {}
        for keys, value in values:
            if keys not in ((), ("",)):
                raise InvalidRequest(message=f"{name} takes names, not brackets.", param=name)
            names.update(dict.fromkeys(part.strip() for part in value.split(",") if part.strip()))
        if len(names) > limits.QUERY_ARRAY_MAX * 8:
            raise InvalidRequest(message=f"{name} has too many names.", param=name)
        return list(names)

    def nested(self, name: str) -> list[tuple[tuple[str, ...], str]]:
        """Return the values of `filter` or `expand_limit` as (keys in brackets, value)."""
        values = self._values.get(name, [])
        if len(values) > limits.QUERY_ARRAY_MAX:
            raise InvalidRequest(
                message=f"{name} can be repeated at most {limits.QUERY_ARRAY_MAX} times.",
                param=name,
            )
        return values

    def connection_id(self) -> str | None:
        """Return `connection_id` or its deprecated alias.

        Raises InvalidArgument when both are given and differ.
        """
        connection_id = self.text("connection_id")
        alias = self.text("connector_instance_id")
        if alias is None:
            return connection_id
        if connection_id not in (None, alias):
            raise InvalidArgument(
                message="connection_id and connector_instance_id name different connections.",
                param="connector_instance_id",
            )
        self.warnings.append(
            ApiWarning(
                "deprecated_alias_used",
                "connector_instance_id is deprecated; use connection_id.",
                "connector_instance_id",
            )
        )
        return alias


def _parse_query(query: QueryDict) -> Iterator[tuple[str, tuple[str, ...], str]]:
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
            if len(value) > MAX_VALUE_LENGTH:
                raise InvalidRequest(
                    message=f"{name} takes at most {MAX_VALUE_LENGTH} characters.", param=name[:64]
                )
            yield name, keys, value


def parse_conditions(visible: VisibleRecords, query: QueryParameters) -> list[SQL]:
    """Return the conditions of `filter`, `after` and `before`."""
    after, before, filters = query.text("after"), query.text("before"), query.nested("filter")
    if after is None and before is None and not filters:
        return []
    return [*parse_filters(visible, filters), *parse_period(visible, after, before)]


def unmatched_warnings(unmatched: Sequence[Filter]) -> list[ApiWarning]:
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


def parse_fields(visible: VisibleRecords, query: QueryParameters) -> frozenset[str] | None:
    """Return the fields that `fields` or `view` selects, or None for all."""
    return select_fields(visible, fields=query.name_list("fields"), view=query.text("view"))


def parse_expand(query: QueryParameters, gate: Gate, visible: VisibleRecords) -> list[Expansion]:
    """Return the relations that `expand` names, with their limits."""
    names, maximums = query.name_list("expand") or (), query.nested("expand_limit")
    if not names and not maximums:
        return []
    return expansion.parse_expand(gate, visible, names=names, limits=maximums)


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
