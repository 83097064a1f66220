"""Validate a record against its stream, and compute its canonical key.

Error reasons contain declared names and schema keywords only, never content of the record.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import jsonschema_rs

from evidence import limits
from evidence.declarations import values
from evidence.declarations.declaration import StreamDeclaration
from evidence.declarations.schema_validation import child_path

RECORD_MAX_DEPTH: Final = 64
MAX_BACKTRACKS: Final = 100_000
"""Backtracking steps of one `pattern` on one string; a record that needs more is invalid."""

_CONTAINERS = (dict, list)
_UNFIT_FOR_KEY = re.compile("[\0-\x1f\x7f-\x9f\ud800-\udfff]")


class InvalidRecordError(Exception):
    """The record cannot be stored. `path` is a JSON path into it."""

    def __init__(self, code: str, *, path: str) -> None:
        self.code = code
        self.path = path
        super().__init__(f"{path}: {code}")


class RecordValidator:
    """The compiled schema of a stream. Thread-safe."""

    def __init__(self, stream: StreamDeclaration) -> None:
        self._validator = jsonschema_rs.Draft202012Validator(
            dict(stream.schema),
            # Formats are annotations in this dialect; see find_unparsed_times.
            validate_formats=False,
            offline=True,
            pattern_options=jsonschema_rs.FancyRegexOptions(backtrack_limit=MAX_BACKTRACKS),
        )
        self._time_fields = tuple(
            field
            for field in stream.fields.values()
            if field.kind in {"time", "date"} or field.name == stream.consent_time_field
        )

    def find_error(self, data: object) -> str | None:
        """Return the first error as `$.path: reason`, or None for a valid record.

        The reason is a keyword of JSON Schema, `depth` or `encoding`.
        """
        if not isinstance(data, dict):
            return "$: type"
        if is_too_deep(data):
            return "$: depth"
        try:
            self._validator.validate(data)
        except jsonschema_rs.ValidationError as error:
            return _describe(error)
        except ValueError:  # a surrogate or a value that is not JSON
            return "$: encoding"
        return None

    def find_unparsed_times(self, data: Mapping[str, object]) -> list[str]:
        """Return the fields of a valid record whose values are not the times that they declare."""
        return [
            field.name
            for field in self._time_fields
            if data.get(field.name) not in (None, "")
            and values.declared_time(field, data[field.name]) is None
        ]


def record_key(stream: StreamDeclaration, data: Mapping[str, object], key: object) -> str:
    """Return the canonical key: a string, or the minified JSON array of a compound key.

    `key` is that of the envelope; if it is None, the primary key fields are used.

    Raises InvalidRecordError with `invalid_record_key` when the key is not a string or an array of
    the right length, is empty, has over 200 bytes or a control character; and with
    `invalid_record_identity` when it differs from a primary key field.
    """
    names = stream.primary_key
    components = [data.get(name) for name in names] if key is None else _split(key, len(names))
    parts = [_key_part(value) for value in components]
    for name, part in zip(names, parts, strict=True):
        value = data.get(name)
        if value is not None and _key_part(value) != part:
            raise InvalidRecordError("invalid_record_identity", path=f"$.data.{name}")
    canonical = parts[0]
    if len(parts) > 1:
        canonical = json.dumps(parts, separators=(",", ":"), ensure_ascii=False)
    if len(canonical.encode()) > limits.RECORD_KEY_MAX_BYTES:
        raise _invalid_key()
    return canonical


def is_too_deep(data: Any) -> bool:
    """Return whether arrays and objects nest deeper than RECORD_MAX_DEPTH, without recursion."""
    level = [data]
    for _ in range(RECORD_MAX_DEPTH):
        level = [
            child
            for node in level
            for child in (node.values() if type(node) is dict else node)
            if type(child) in _CONTAINERS
        ]
        if not level:
            return False
    return True


def _split(key: object, count: int) -> Sequence[object]:
    parts = key if isinstance(key, list) else [key]
    if len(parts) != count:
        raise _invalid_key()
    return parts


def _key_part(value: object) -> str:
    if isinstance(value, bool | int | float):
        return json.dumps(value)
    if not isinstance(value, str) or not value:
        raise _invalid_key()
    if not value.isprintable() and _UNFIT_FOR_KEY.search(value):
        raise _invalid_key()
    return value


def _invalid_key() -> InvalidRecordError:
    return InvalidRecordError("invalid_record_key", path="$.key")


def _describe(error: jsonschema_rs.ValidationError) -> str:
    path = _declared_path(error.evaluation_path)
    if isinstance(error.kind, jsonschema_rs.ValidationErrorKind.Required):
        path = child_path(path, error.kind.property)
    return f"{path}: {error.kind.name}"


def _declared_path(evaluation_path: Sequence[str | int]) -> str:
    """Convert a path in the schema to a path in the record, with declared names only.

    An item is `[*]`, and a member that the schema does not name is `.*`.
    """
    path, keywords = "$", iter(evaluation_path)
    for keyword in keywords:
        match keyword:
            case "properties":
                path = child_path(path, next(keywords, "*"))
            case "items" | "prefixItems" | "contains" | "unevaluatedItems":
                path += "[*]"
            case "additionalProperties" | "patternProperties" | "unevaluatedProperties":
                path += ".*"
            case _:
                continue
    return path
