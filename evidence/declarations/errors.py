"""Collect validation errors of a declaration document with their JSON paths.

Checks do not stop at the first error: they add errors to a `DocumentNode` and continue with all
values that are well formed.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, StrEnum
from typing import Final, NamedTuple

MAX_ERRORS: Final = 1_000
PATH_NAME_MAX_CHARS: Final = 128
"""Longer member names are truncated in paths."""

_PLAIN_NAME = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*")


class DeclarationErrorCode(StrEnum):
    """The codes of contract 5.1, followed by additional codes."""

    DUPLICATE_EXPAND_NAME = "source.declaration.duplicate_expand_name"
    DUPLICATE_PRESET_ID = "source.declaration.duplicate_preset_id"
    DUPLICATE_PRESET_STREAM_NAME = "source.declaration.duplicate_preset_stream_name"
    DUPLICATE_RELATIONSHIP_NAME = "source.declaration.duplicate_relationship_name"
    DUPLICATE_STREAM_NAME = "source.declaration.duplicate_stream_name"
    DUPLICATE_VIEW_ID = "source.declaration.duplicate_view_id"
    INVALID_EXPAND_LIMITS = "source.declaration.invalid_expand_limits"
    INVALID_QUERY_FIELD_TYPE = "source.declaration.invalid_query_field_type"
    NONLOCAL_SCHEMA_REFERENCE = "source.declaration.nonlocal_schema_reference"
    UNKNOWN_RELATIONSHIP = "source.declaration.unknown_relationship"
    UNKNOWN_SCHEMA_FIELD = "source.declaration.unknown_schema_field"
    UNKNOWN_STREAM = "source.declaration.unknown_stream"
    UNKNOWN_VIEW = "source.declaration.unknown_view"

    CONFLICTING_MEMBERS = "source.declaration.conflicting_members"
    DUPLICATE_VALUE = "source.declaration.duplicate_value"
    INVALID_FIELD_TYPE = "source.declaration.invalid_field_type"
    INVALID_MEMBER_TYPE = "source.declaration.invalid_member_type"
    INVALID_MEMBER_VALUE = "source.declaration.invalid_member_value"
    INVALID_NAME = "source.declaration.invalid_name"
    INVALID_SCHEMA = "source.declaration.invalid_schema"
    INVALID_TEXT = "source.declaration.invalid_text"
    MISSING_MEMBER = "source.declaration.missing_member"
    SCHEMA_TOO_COMPLEX = "source.declaration.schema_too_complex"
    TOO_DEEP = "source.declaration.too_deep"
    TOO_LARGE = "source.declaration.too_large"
    TOO_MANY = "source.declaration.too_many"
    UNKNOWN_MEMBER = "source.declaration.unknown_member"
    UNSUPPORTED_DIALECT = "source.declaration.unsupported_dialect"
    UNSUPPORTED_VERSION = "source.declaration.unsupported_version"


class DeclarationError(NamedTuple):
    """An error with its JSON path, such as `$.streams[0].query.range_filters.size`."""

    code: DeclarationErrorCode
    path: str
    message: str


class _Missing(Enum):
    MISSING = "missing"


MISSING: Final = _Missing.MISSING


def child_path(path: str, name: str | int) -> str:
    """Return the path of a member or list item in ASCII."""
    if isinstance(name, int):
        return f"{path}[{name}]"
    name = name if len(name) <= PATH_NAME_MAX_CHARS else f"{name[:PATH_NAME_MAX_CHARS]}…"
    return f"{path}.{name}" if _PLAIN_NAME.fullmatch(name) else f"{path}[{json.dumps(name)}]"


@dataclass(frozen=True, slots=True)
class DocumentNode:
    """A value of the document with its path. All nodes of a document share one list of errors.

    Every method that checks the value adds an error if the value is missing but `required`, or has
    the wrong type.
    """

    value: object
    path: str = "$"
    errors: list[DeclarationError] = field(default_factory=list)

    def add_error(self, code: DeclarationErrorCode, message: str) -> None:
        """Add an error at this path, unless there are MAX_ERRORS."""
        if len(self.errors) < MAX_ERRORS:
            self.errors.append(DeclarationError(code, self.path, message))

    @property
    def is_present(self) -> bool:
        return self.value is not MISSING

    def member(self, name: str) -> "DocumentNode":
        """Return a member of this object; its value is MISSING if this is no object."""
        value = self.value.get(name, MISSING) if isinstance(self.value, Mapping) else MISSING
        return DocumentNode(value, child_path(self.path, name), self.errors)

    def members(self) -> Iterator[tuple[str, "DocumentNode"]]:
        """Yield the members, and nothing if this is no object."""
        if isinstance(self.value, Mapping):
            for name in self.value:
                yield name, self.member(name)

    def items(self) -> Iterator["DocumentNode"]:
        """Yield the items, and nothing if this is no list."""
        if isinstance(self.value, list):
            for index, value in enumerate(self.value):
                yield DocumentNode(value, child_path(self.path, index), self.errors)

    def check_object(self, *, required: bool = False) -> bool:
        """Check that this is an object, and return whether it is."""
        return self._has_type(Mapping, "an object", required=required)

    def check_list(self, *, required: bool = False, min_items: int = 0) -> bool:
        """Check that this is a list of at least `min_items`, and return whether it is."""
        if not self._has_type(list, "a list", required=required):
            return False
        if isinstance(self.value, list) and len(self.value) < min_items:
            message = f"Must have at least {min_items} item."
            self.add_error(DeclarationErrorCode.INVALID_MEMBER_VALUE, message)
            return False
        return True

    def string(self, *, required: bool = False, max_chars: int = 4_096) -> str | None:
        """Return the string, which must have 1 to `max_chars` characters."""
        if not self._has_type(str, "a string", required=required):
            return None
        if isinstance(self.value, str) and 0 < len(self.value) <= max_chars:
            return self.value
        message = f"Must have 1 to {max_chars} characters."
        self.add_error(DeclarationErrorCode.INVALID_MEMBER_VALUE, message)
        return None

    def choice(self, options: Sequence[str], *, required: bool = False) -> str | None:
        """Return the string, which must be one of `options`."""
        value = self.string(required=required)
        if value is None or value in options:
            return value
        message = f"Must be one of {', '.join(options)}."
        self.add_error(DeclarationErrorCode.INVALID_MEMBER_VALUE, message)
        return None

    def check_boolean(self, *, required: bool = False) -> None:
        """Check that this is true or false."""
        self._has_type(bool, "true or false", required=required)

    def positive_integer(self) -> int | None:
        """Return the integer, which must be 1 or more."""
        value = self.value
        if value is MISSING:
            return None
        if isinstance(value, int) and not isinstance(value, bool) and value >= 1:
            return value
        message = "Must be an integer of 1 or more."
        self.add_error(DeclarationErrorCode.INVALID_MEMBER_TYPE, message)
        return None

    def unique_strings(
        self, *, required: bool = False, min_items: int = 0
    ) -> list[tuple["DocumentNode", str]]:
        """Return the strings of this list with their nodes; duplicates are errors."""
        if not self.check_list(required=required, min_items=min_items):
            return []
        nodes: dict[str, DocumentNode] = {}
        for node in self.items():
            text = node.string(required=True)
            if text in nodes:
                node.add_error(DeclarationErrorCode.DUPLICATE_VALUE, "Is already in the list.")
            elif text is not None:
                nodes[text] = node
        return [(node, text) for text, node in nodes.items()]

    def check_member_names(self, names: Sequence[str]) -> None:
        """Check that the object has no member beside `names`."""
        for name, node in self.members():
            if name not in names:
                message = "Is not a member of this object."
                node.add_error(DeclarationErrorCode.UNKNOWN_MEMBER, message)

    def _has_type(self, expected: type, description: str, *, required: bool) -> bool:
        if self.value is MISSING:
            if required:
                message = f"Is missing; must be {description}."
                self.add_error(DeclarationErrorCode.MISSING_MEMBER, message)
            return False
        if isinstance(self.value, expected):
            return True
        self.add_error(DeclarationErrorCode.INVALID_MEMBER_TYPE, f"Must be {description}.")
        return False
