"""Collect validation errors of a document with their JSON paths, and validate the JSON Schema of a stream.

Checks do not stop at the first error: they add errors to a `DocumentNode` and continue with all
values that are well formed. A schema is well formed, self-contained and cheap to evaluate.

Names of connectors, streams, relations and fields must fit in paths, query parameters and record ids.
"""

import functools
import json
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, StrEnum
from typing import Final, NamedTuple

import jsonschema_rs

from evidence.declarations import declaration

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


DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
MAX_FIELDS: Final = 500
MAX_EXPANDED_NODES: Final = 20_000
MAX_EXPANDED_DEPTH: Final = 128
MAX_MEASURED_NODES: Final = 200_000
MESSAGE_MAX_CHARS: Final = 200

_REFERENCES = ("$ref", "$dynamicRef")
# Members that contain data, not schemas.
_DATA = frozenset({"const", "enum", "default", "examples"})


def check_stream_schema(node: DocumentNode) -> None:
    """Check the `schema` of a stream."""
    if not node.check_object(required=True) or not _check_dialect(node):
        return
    error_count = len(node.errors)
    _check_fields(node)
    _check_references(node)
    try:
        for check in (_check_against_dialect, _check_cost, _check_compiles):
            check(node)
            if len(node.errors) > error_count:
                return
    except ValueError as error:
        _add_library_error(node, error)


def _check_dialect(node: DocumentNode) -> bool:
    dialect = node.member("$schema")
    if not dialect.is_present or dialect.value == DIALECT:
        return True
    dialect.add_error(DeclarationErrorCode.UNSUPPORTED_DIALECT, f"Must be {DIALECT}, or absent.")
    return False


def _check_fields(node: DocumentNode) -> None:
    schema_type = node.member("type")
    if schema_type.is_present and schema_type.value != "object":
        schema_type.add_error(DeclarationErrorCode.INVALID_SCHEMA, "Must be object.")
    properties = node.member("properties")
    if not properties.check_object(required=True) or not isinstance(properties.value, Mapping):
        return
    if len(properties.value) > MAX_FIELDS:
        properties.add_error(DeclarationErrorCode.TOO_MANY, f"More than {MAX_FIELDS} fields.")
    for name, property_node in properties.members():
        check_field_name(name, node=property_node)


def _check_references(node: DocumentNode) -> None:
    for name, member in node.members():
        target = member.value
        if name in _REFERENCES and isinstance(target, str) and not target.startswith("#"):
            member.add_error(
                DeclarationErrorCode.NONLOCAL_SCHEMA_REFERENCE,
                "Must start with '#': references to other documents are not supported.",
            )
        elif name not in _DATA:
            _check_references(member)
    for item in node.items():
        _check_references(item)


def _check_against_dialect(node: DocumentNode) -> None:
    for error in _dialect().iter_errors(node.value):
        _add_library_error(node, error)
        if len(node.errors) >= MAX_ERRORS:
            return


def _check_compiles(node: DocumentNode) -> None:
    """Find dangling references and invalid regular expressions. Raises ValueError."""
    if isinstance(node.value, dict):
        jsonschema_rs.Draft202012Validator(node.value, offline=True)


def _check_cost(node: DocumentNode) -> None:
    """Check size and depth after expanding references, which bounds the time for one record."""
    try:
        size = _Expansion(node.value).size(node.value, 0)
    except _TooComplexError:
        size = MAX_EXPANDED_NODES + 1
    if size > MAX_EXPANDED_NODES:
        node.add_error(
            DeclarationErrorCode.SCHEMA_TOO_COMPLEX,
            f"More than {MAX_EXPANDED_NODES} nodes or {MAX_EXPANDED_DEPTH} levels with its"
            " references.",
        )


class _TooComplexError(Exception):
    """The schema is too large to measure."""


class _Expansion:
    """Measures schema nodes with all local references expanded.

    A recursive reference counts once: each of its steps needs another level of the record.
    """

    def __init__(self, root: object) -> None:
        self._root = root
        self._anchors = dict(_anchors(root))
        self._sizes: dict[str, int] = {}
        self._visited = 0

    def size(self, node: object, depth: int) -> int:
        self._visited += 1
        if depth > MAX_EXPANDED_DEPTH or self._visited > MAX_MEASURED_NODES:
            raise _TooComplexError
        if isinstance(node, list):
            return sum(self.size(item, depth + 1) for item in node)
        if not isinstance(node, Mapping):
            return 0
        return 1 + sum(self._member_sizes(node, depth + 1))

    def _member_sizes(self, node: Mapping[str, object], depth: int) -> Iterator[int]:
        for name, value in node.items():
            if name in _REFERENCES and isinstance(value, str):
                yield self._target_size(value, depth)
            elif name not in _DATA and name != "$defs":
                yield self.size(value, depth)

    def _target_size(self, reference: str, depth: int) -> int:
        if reference not in self._sizes:
            self._sizes[reference] = 0
            anchored = self._anchors.get(reference[1:])
            target = anchored or declaration.resolve_pointer(reference, root=self._root)
            self._sizes[reference] = self.size(target, depth)
        return self._sizes[reference]


def _anchors(node: object) -> Iterator[tuple[str, object]]:
    if isinstance(node, Mapping):
        for name in ("$anchor", "$dynamicAnchor"):
            if isinstance(node.get(name), str):
                yield node[name], node
        for value in node.values():
            yield from _anchors(value)
    elif isinstance(node, list):
        for value in node:
            yield from _anchors(value)


@functools.cache
def _dialect() -> jsonschema_rs.Draft202012Validator:
    return jsonschema_rs.Draft202012Validator({"$ref": DIALECT}, offline=True)


def _add_library_error(node: DocumentNode, error: ValueError) -> None:
    """Add the first line of an error of jsonschema_rs at its path."""
    path = error.instance_path if isinstance(error, jsonschema_rs.ValidationError) else []
    for name in path:
        node = node.member(name) if isinstance(name, str) else list(node.items())[name]
    message = str(error).partition("\n")[0][:MESSAGE_MAX_CHARS]
    node.add_error(DeclarationErrorCode.INVALID_SCHEMA, message)


STREAM_NAME_MAX_CHARS: Final = 64
FIELD_NAME_MAX_CHARS: Final = 128

_CONNECTOR_KEY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_RESERVED = frozenset("/\\:,[]")


def check_stream_name(node: DocumentNode) -> str | None:
    """Return the name of a stream if it is valid.

    The name occurs in `{connection_id}/{stream}:{record_id}`, in paths, and in `streams[]`, where
    `*` means all streams.
    """
    name = node.string(required=True, max_chars=STREAM_NAME_MAX_CHARS)
    if name == "*":
        node.add_error(DeclarationErrorCode.INVALID_NAME, "'*' means all streams.")
        return None
    if name is None or (
        _is_addressable(name) and " " not in name and ".." not in name and name != "."
    ):
        return name
    node.add_error(
        DeclarationErrorCode.INVALID_NAME,
        "A stream name has no white space, control characters, '..' or any of / \\ : , [ ].",
    )
    return None


def check_relation_name(node: DocumentNode) -> str | None:
    """Return the name of a relation if it is valid.

    The name occurs in `expand`, where a dot means a path, and in `expand_limit[…]`.
    """
    name = node.string(required=True, max_chars=STREAM_NAME_MAX_CHARS)
    if name is None or (_is_addressable(name) and " " not in name and "." not in name):
        return name
    node.add_error(
        DeclarationErrorCode.INVALID_NAME,
        "A relation name has no white space, control characters or any of . / \\ : , [ ].",
    )
    return None


def check_field_name(name: str, *, node: DocumentNode) -> None:
    """Check that a name fits in `fields=a,b` and `filter[…]`. Spaces are valid."""
    is_short = 0 < len(name) <= FIELD_NAME_MAX_CHARS
    if not is_short or not name.isprintable() or set(name) & set(",[]"):
        node.add_error(
            DeclarationErrorCode.INVALID_NAME,
            f"A field name has 1 to {FIELD_NAME_MAX_CHARS} printable characters and none of , [ ].",
        )


def check_connector_key(key: str, *, node: DocumentNode) -> None:
    """Check that a key can be typed on a command line."""
    if not _CONNECTOR_KEY.fullmatch(key):
        node.add_error(
            DeclarationErrorCode.INVALID_NAME,
            "A connector key has 1 to 64 ASCII letters, digits, dots, hyphens and underscores, and "
            "starts with a letter or digit. Set connector_key if the id ends differently.",
        )


def _is_addressable(name: str) -> bool:
    # Names that look the same must be the same, so only one normal form is valid.
    is_normalized = unicodedata.is_normalized("NFC", name)
    return is_normalized and name.isprintable() and not set(name) & _RESERVED
