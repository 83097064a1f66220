"""Validate that the JSON Schema of a stream is well formed, self-contained and cheap to evaluate.

Names of connectors, streams, relations and fields must fit in paths, query parameters and record ids.
"""

import functools
import re
import unicodedata
from collections.abc import Iterator, Mapping
from typing import Final

import jsonschema_rs

from evidence.declarations import schema_types
from evidence.declarations.errors import MAX_ERRORS, DeclarationErrorCode, DocumentNode

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
    for name, field in properties.members():
        check_field_name(name, node=field)


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
            target = anchored or schema_types.resolve_pointer(reference, root=self._root)
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
