"""Query parameters: parsed once, strictly, each complaint naming the parameter.

The grammar is that of the reference: ``filter[field][gte]=1``, ``fields=a,b`` or repeated,
``streams[]=a``. A name that a view does not know is refused, never ignored.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from django.core.exceptions import SuspiciousOperation
from django.http import HttpRequest, QueryDict

from evidence import limits
from evidence.errors import InvalidArgument, InvalidRequest

LONGEST_VALUE = 8_192
_NAME = re.compile(r"([^\[\]]+)((?:\[[^\[\]]*\])*)")
_INTEGER = re.compile(r"[+-]?[0-9]{1,18}")


@dataclass(frozen=True, slots=True)
class Notice:
    """One entry of ``meta.warnings`` (contract 3.0)."""

    code: str
    message: str
    param: str
    detail: Mapping[str, object] | None = None


class Parameters:
    """The query of one request. Raises ``InvalidRequest`` for whatever ``allowed`` lacks."""

    def __init__(self, request: HttpRequest, *, allowed: frozenset[str]) -> None:
        self.path = request.get_full_path()
        self._query = _query(request)
        self.warnings: list[Notice] = []
        self._values: dict[str, list[tuple[tuple[str, ...], str]]] = {}
        for name, keys, value in _parsed(self._query):
            if name not in allowed:
                raise InvalidRequest(
                    message=f"Unknown parameter {name[:64]!r}.",
                    param=name[:64],
                    next_step=_known(allowed),
                )
            self._values.setdefault(name, []).append((keys, value))

    def link(self, **changed: str) -> str:
        """The same address with other values for some parameters."""
        query = self._query.copy()
        for name, value in changed.items():
            query[name] = value
        return f"{self.path.partition('?')[0]}?{query.urlencode()}"

    def has(self, name: str) -> bool:
        """Whether the parameter was given at all."""
        return name in self._values

    def text(self, name: str) -> str | None:
        """A plain value; refused when it is repeated or has brackets."""
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

    def bounded(self, name: str, *, default: int, most: int) -> int:
        """A count of at least one; above ``most`` it is clamped with a warning."""
        number = self.integer(name)
        if number is None:
            return default
        if number < 1:
            raise InvalidRequest(message=f"{name} takes a whole number from 1 up.", param=name)
        return self.clamped(name, number, most=most)

    def clamped(self, name: str, number: int, *, most: int) -> int:
        """``number``, lowered to ``most`` with a warning."""
        if number <= most:
            return number
        self.warnings.append(
            Notice(
                "limit_clamped",
                f"{name} was lowered to {most}.",
                name,
                {f"max_{name}": most, f"requested_{name}": number},
            )
        )
        return most

    def choice(self, name: str, *choices: str, default: str) -> str:
        text = self.text(name)
        if text is None:
            return default
        if text not in choices:
            raise InvalidRequest(message=f"{name} takes {' or '.join(choices)}.", param=name)
        return text

    def names(self, name: str) -> list[str] | None:
        """``a,b`` or repeated or ``[]``; without duplicates, in order."""
        values = self._values.get(name)
        if values is None:
            return None
        found: dict[str, None] = {}
        for keys, value in values:
            if keys not in ((), ("",)):
                raise InvalidRequest(message=f"{name} takes names, not brackets.", param=name)
            found.update(dict.fromkeys(part.strip() for part in value.split(",") if part.strip()))
        if len(found) > limits.QUERY_ARRAY_MAX * 8:
            raise InvalidRequest(message=f"{name} names too many.", param=name)
        return list(found)

    def nested(self, name: str) -> list[tuple[tuple[str, ...], str]]:
        """The bracketed values of ``filter`` and ``expand_limit``, as (keys, value)."""
        values = self._values.get(name, [])
        if len(values) > limits.QUERY_ARRAY_MAX:
            raise InvalidRequest(
                message=f"{name} is given at most {limits.QUERY_ARRAY_MAX} times.", param=name
            )
        return values

    def connection_id(self) -> str | None:
        """``connection_id`` or its deprecated alias; both only when they agree."""
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
            Notice(
                "deprecated_alias_used",
                "connector_instance_id is an old name of connection_id.",
                "connector_instance_id",
            )
        )
        return alias


CONNECTION = frozenset({"connection_id", "connector_instance_id", "connector_id"})
"""Which connections are meant, on every route that has to do with any."""
PROJECTION = frozenset({"fields", "view"})


def _query(request: HttpRequest) -> QueryDict:
    try:
        return request.GET
    except SuspiciousOperation as error:
        raise InvalidRequest(message="The query has too many parameters.") from error


def _parsed(query: QueryDict) -> Iterator[tuple[str, tuple[str, ...], str]]:
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
                raise InvalidRequest(message=f"{name} holds a NUL character.", param=name[:64])
            if len(value) > LONGEST_VALUE:
                raise InvalidRequest(
                    message=f"{name} is longer than {LONGEST_VALUE} characters.", param=name[:64]
                )
            yield name, keys, value


def _known(allowed: frozenset[str]) -> str:
    if not allowed:
        return "This route takes no parameters."
    return f"This route takes: {', '.join(sorted(allowed))}."
