"""Validate a declaration document and return every error with its JSON path."""

import json
import math
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

from evidence import limits
from evidence.declarations import parser
from evidence.declarations.declaration import SourceDeclaration
from evidence.declarations.errors import (
    MAX_ERRORS,
    DeclarationError,
    DeclarationErrorCode,
    DocumentNode,
    child_path,
)
from evidence.declarations.query_capabilities import FieldTypesByName, field_types
from evidence.declarations.schema_validation import check_connector_key, check_stream_name
from evidence.declarations.stream_validation import check_presets, check_relationships, check_stream
from evidence.errors import ConnectorInvalid

DOCUMENT_MAX_BYTES: Final = 1024 * 1024
DOCUMENT_MAX_DEPTH: Final = 64

_UNSTORABLE = re.compile("[\0\ud800-\udfff]")

# A path as a linked list, innermost step first. It is formatted for errors only, because the paths
# of all nodes of a malicious document are far larger than the document.
PathSteps = tuple["PathSteps", str | int] | None


def find_limit_errors(document: object) -> list[DeclarationError]:
    """Return one error of size or depth, or an error for each value that cannot be stored.

    A document with these errors is not validated further. Works without recursion.
    """
    errors: list[DeclarationError] = []
    nodes = 0
    stack: list[tuple[object, PathSteps, int]] = [(document, None, 1)]
    while stack and len(errors) < MAX_ERRORS:
        node, steps, depth = stack.pop()
        nodes += 1
        if depth > DOCUMENT_MAX_DEPTH:
            message = f"More than {DOCUMENT_MAX_DEPTH} levels."
            return [DeclarationError(DeclarationErrorCode.TOO_DEEP, _path(steps), message)]
        if nodes > DOCUMENT_MAX_BYTES:
            return [_too_large()]
        errors += _node_errors(node, steps)
        stack += ((child, (steps, name), depth + 1) for name, child in _children(node))
    if not errors and _serialized_bytes(document) > DOCUMENT_MAX_BYTES:
        return [_too_large()]
    return errors


def _children(node: object) -> Iterator[tuple[str | int, object]]:
    if isinstance(node, dict):
        yield from ((name, value) for name, value in node.items() if isinstance(name, str))
    elif isinstance(node, list):
        yield from enumerate(node)


def _node_errors(node: object, steps: PathSteps) -> Iterator[DeclarationError]:
    match node:
        case dict():
            for name in node:
                yield from _name_errors(name, steps)
        case str() if _UNSTORABLE.search(node):
            yield _error(DeclarationErrorCode.INVALID_TEXT, steps, "Contains NUL or a surrogate.")
        case float() if not math.isfinite(node):
            yield _error(DeclarationErrorCode.INVALID_MEMBER_TYPE, steps, "Is not a JSON number.")
        case list() | str() | int() | float() | None:
            return
        case _:
            yield _error(DeclarationErrorCode.INVALID_MEMBER_TYPE, steps, "Is not JSON.")


def _name_errors(name: object, steps: PathSteps) -> Iterator[DeclarationError]:
    if not isinstance(name, str):
        message = "Has a member name that is not a string."
        yield _error(DeclarationErrorCode.INVALID_MEMBER_TYPE, steps, message)
    elif _UNSTORABLE.search(name):
        message = "Its name contains NUL or a surrogate."
        yield _error(DeclarationErrorCode.INVALID_TEXT, (steps, name), message)


def _error(code: DeclarationErrorCode, steps: PathSteps, message: str) -> DeclarationError:
    return DeclarationError(code, _path(steps), message)


def _path(steps: PathSteps) -> str:
    step_names: list[str | int] = []
    while steps is not None:
        steps, name = steps
        step_names.append(name)
    path = "$"
    for name in reversed(step_names):
        path = child_path(path, name)
    return path


def _serialized_bytes(document: object) -> int:
    try:
        return len(json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode())
    except ValueError:  # an integer with more digits than Python converts to text
        return DOCUMENT_MAX_BYTES + 1


def _too_large() -> DeclarationError:
    message = f"More than {DOCUMENT_MAX_BYTES} bytes."
    return DeclarationError(DeclarationErrorCode.TOO_LARGE, "$", message)


PROTOCOL_VERSION: Final = "0.1.0"
MAX_STREAMS: Final = 1_000
VERSION_MAX_CHARS: Final = 128
SOURCE_KINDS = ("connector", "provider_native")

_WRAPPER_MEMBERS = (
    "protocol_version",
    "source",
    "connector_key",
    "declaration_version",
    "publisher",
    "display",
    "streams",
    "selection_presets",
    "extensions",
)


def find_errors(document: object) -> list[DeclarationError]:
    """Return at most MAX_ERRORS errors of a document of either shape, in the order of the checks.

    A document without errors can be parsed. Never raises.
    """
    errors = find_limit_errors(document)
    if errors:
        return errors
    root = DocumentNode(document)
    if root.check_object(required=True) and isinstance(document, Mapping):
        if parser.is_wrapper(document):
            _check_wrapper(root)
        else:
            _check_manifest(root)
        _check_streams(root)
    return root.errors


def parse_valid(document: Mapping[str, Any]) -> SourceDeclaration:
    """Return the declaration of a document.

    Raises ConnectorInvalid, with `faults` of {code, path, message}, for an invalid document.
    """
    errors = find_errors(document)
    if errors:
        raise ConnectorInvalid(
            message=f"{errors[0].path}: {errors[0].message}",
            faults=[error._asdict() for error in errors],
        )
    return parser.parse_declaration(document)


def _check_wrapper(root: DocumentNode) -> None:
    root.check_member_names(_WRAPPER_MEMBERS)
    _check_protocol(root.member("protocol_version"), required=True)
    source = root.member("source")
    if source.check_object(required=True):
        source.check_member_names(("kind", "id"))
        source.member("kind").choice(SOURCE_KINDS, required=True)
        _check_uri(source.member("id"), required=True)
    root.member("declaration_version").string(required=True, max_chars=VERSION_MAX_CHARS)
    publisher = root.member("publisher")
    if publisher.check_object(required=True):
        _check_uri(publisher.member("id"), required=True)
    display = root.member("display")
    if display.check_object(required=True):
        display.member("name").string(required=True, max_chars=limits.LABEL_MAX_CHARS)
    root.member("extensions").check_object()
    _check_connector_key(root, source.member("id"))


def _check_manifest(root: DocumentNode) -> None:
    """Check a manifest of the reference. Other members are for its collector and are ignored."""
    _check_protocol(root.member("protocol_version"), required=False)
    root.member("connector_id").string()
    root.member("manifest_uri").string()
    root.member("version").string(required=True, max_chars=VERSION_MAX_CHARS)
    for member in ("display_name", "name"):
        root.member(member).string(max_chars=limits.LABEL_MAX_CHARS)
    publisher = root.member("publisher")
    if publisher.check_object():
        _check_uri(publisher.member("id"), required=False)
    if root.member("connector_id").is_present or root.member("connector_key").is_present:
        _check_connector_key(root, root.member("connector_id"))
    else:
        root.member("connector_key").string(required=True)


def _check_protocol(node: DocumentNode, *, required: bool) -> None:
    version = node.string(required=required)
    if version not in {None, PROTOCOL_VERSION}:
        node.add_error(DeclarationErrorCode.UNSUPPORTED_VERSION, f"Must be {PROTOCOL_VERSION}.")


def _check_uri(node: DocumentNode, *, required: bool) -> None:
    uri = node.string(required=required)
    if uri is not None and not parser.is_absolute_uri(uri):
        node.add_error(DeclarationErrorCode.INVALID_MEMBER_VALUE, "Must be an absolute URI.")


def _check_connector_key(root: DocumentNode, source_id: DocumentNode) -> None:
    node = root.member("connector_key")
    if node.is_present:
        key = node.string(required=True)
        if key is not None:
            check_connector_key(key, node=node)
    elif isinstance(source_id.value, str) and source_id.value:
        check_connector_key(parser.last_segment(source_id.value), node=source_id)


def _check_streams(root: DocumentNode) -> None:
    streams = root.member("streams")
    if not streams.check_list(required=True, min_items=1):
        return
    nodes = list(streams.items())
    if len(nodes) > MAX_STREAMS:
        streams.add_error(DeclarationErrorCode.TOO_MANY, f"More than {MAX_STREAMS} streams.")
        return
    fields: dict[str, FieldTypesByName] = {}
    views: dict[str, Collection[str]] = {}
    for node in nodes:
        if node.check_object(required=True):
            name = _check_name(node, other_names=fields)
            own_fields = field_types(node.member("schema").value)
            fields.setdefault(name, own_fields)
            views.setdefault(name, check_stream(node, fields=own_fields))
    for node in nodes:
        if isinstance(node.value, Mapping):
            own_fields = field_types(node.member("schema").value)
            check_relationships(node, own_fields=own_fields, streams=fields)
    check_presets(root.member("selection_presets"), streams=fields, views=views)


def _check_name(stream: DocumentNode, *, other_names: Collection[str]) -> str:
    """Return the name, or "" for an invalid name, which no other stream can refer to."""
    node = stream.member("name")
    name = check_stream_name(node) or ""
    if name and name in other_names:
        code = DeclarationErrorCode.DUPLICATE_STREAM_NAME
        node.add_error(code, "Another stream has this name.")
    return name
