"""One record against its stream: does it match the schema, and what is its key?

Nothing here repeats the payload: a reason is made of names from the declaration and of a keyword.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import jsonschema_rs

from evidence import limits
from evidence.declarations import values
from evidence.declarations.declaration import StreamDeclaration
from evidence.declarations.errors import step

RECORD_DEPTH: Final = 64
BACKTRACKS: Final = 100_000
"""Steps that one `pattern` may take on one string before the record is refused."""

_CONTAINERS = (dict, list)
_UNFIT_FOR_KEY = re.compile("[\0-\x1f\x7f-\x9f\ud800-\udfff]")


class RecordFault(Exception):  # noqa: N818 it is about the record, not about us
    """The record cannot be stored; `code` says why, `at` is a JSON path into it."""

    def __init__(self, code: str, *, at: str) -> None:
        self.code = code
        self.at = at
        super().__init__(f"{at}: {code}")


class RecordValidator:
    """The schema of a stream, compiled. Safe to share between threads."""

    def __init__(self, stream: StreamDeclaration) -> None:
        self._validator = jsonschema_rs.Draft202012Validator(
            dict(stream.schema),
            # Formats are annotations, as the dialect has it, but for the times checked below.
            validate_formats=False,
            offline=True,
            pattern_options=jsonschema_rs.FancyRegexOptions(backtrack_limit=BACKTRACKS),
        )
        self._moments = tuple(
            (name, field.kind == "date")
            for name, field in stream.fields.items()
            if field.kind in {"time", "date"}
        )

    def check(self, data: object) -> str | None:
        """What is wrong first, as `$.path: reason`, or nothing. The reason is a keyword of JSON
        Schema, or `depth`, `encoding`."""
        if not isinstance(data, dict):
            return "$: type"
        if too_deep(data):
            return "$: depth"
        try:
            self._validator.validate(data)
        except jsonschema_rs.ValidationError as error:
            return _reason(error)
        except ValueError:  # half a surrogate pair, or no JSON at all: our parser lets neither by
            return "$: encoding"
        return self._format_fault(data)

    def _format_fault(self, data: Mapping[str, object]) -> str | None:
        for name, is_date in self._moments:
            value = data.get(name)
            if isinstance(value, str) and not _is_moment(value, is_date):
                return f"$.{name}: format"
        return None


def record_key(stream: StreamDeclaration, data: Mapping[str, object], key: object) -> str:
    """The canonical key: the string, or for a compound key the minified JSON array of its parts as
    strings. `key` is as in the envelope; where it is None the primary key fields make it.

    Raises RecordFault with `invalid_record_key` (not a string or array of the right length, empty,
    over 200 bytes, a control character) or `invalid_record_identity` (a primary key field says
    something else).
    """
    names = stream.primary_key
    stated = [data.get(name) for name in names] if key is None else _parts(key, len(names))
    parts = [_part(value) for value in stated]
    for name, part in zip(names, parts, strict=True):
        value = data.get(name)
        if value is not None and _part(value) != part:
            raise RecordFault("invalid_record_identity", at=f"$.data.{name}")
    canonical = parts[0] if len(parts) == 1 else _array(parts)
    if len(canonical.encode()) > limits.RECORD_KEY_MAX_BYTES:
        raise _unfit()
    return canonical


def too_deep(data: Any) -> bool:
    """Whether arrays and objects nest deeper than RECORD_DEPTH. Never recursive."""
    level = [data]
    for _ in range(RECORD_DEPTH):
        level = [
            child
            for node in level
            for child in (node.values() if type(node) is dict else node)
            if type(child) in _CONTAINERS
        ]
        if not level:
            return False
    return True


def _parts(key: object, count: int) -> Sequence[object]:
    parts = key if isinstance(key, list) else [key]
    if len(parts) != count:
        raise _unfit()
    return parts


def _part(value: object) -> str:
    """One component as text: numbers and booleans as JSON writes them."""
    if isinstance(value, bool | int | float):
        return json.dumps(value)
    if not isinstance(value, str) or not value:
        raise _unfit()
    if not value.isprintable() and _UNFIT_FOR_KEY.search(value):
        raise _unfit()
    return value


def _array(parts: Sequence[str]) -> str:
    return json.dumps(parts, separators=(",", ":"), ensure_ascii=False)


def _unfit() -> RecordFault:
    return RecordFault("invalid_record_key", at="$.key")


def _is_moment(value: str, is_date: bool) -> bool:  # noqa: FBT001
    has_time = len(value) > len("2026-11-21")
    return has_time is not is_date and values.instant(value) is not None


def _reason(error: jsonschema_rs.ValidationError) -> str:
    path = _declared_path(error.evaluation_path)
    if isinstance(error.kind, jsonschema_rs.ValidationErrorKind.Required):
        path = step(path, to=error.kind.property)
    return f"{path}: {error.kind.name}"


def _declared_path(evaluated: Sequence[str | int]) -> str:
    """Where in the record, told from where in the schema: only declared names, `[*]` for an item
    and `.*` for a member that the schema does not name."""
    path, keywords = "$", iter(evaluated)
    for keyword in keywords:
        match keyword:
            case "properties":
                path = step(path, to=next(keywords, "*"))
            case "items" | "prefixItems" | "contains" | "unevaluatedItems":
                path += "[*]"
            case "additionalProperties" | "patternProperties" | "unevaluatedProperties":
                path += ".*"
            case _:
                continue
    return path
