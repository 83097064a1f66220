"""Whether a document may become a declaration: every fault of it, with its JSON path, at once."""

import json
import math
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

from evidence import limits
from evidence.declarations import names, parser
from evidence.declarations.declaration import SourceDeclaration
from evidence.declarations.errors import FAULTS_KEPT, Fault, FaultCode, Spot, step
from evidence.declarations.query_capabilities import Fields, field_types
from evidence.declarations.stream_validation import check_presets, check_relationships, check_stream
from evidence.errors import ConnectorInvalid

DOCUMENT_BYTES: Final = 1024 * 1024
DOCUMENT_DEPTH: Final = 64

_UNSTORABLE = re.compile("[\0\ud800-\udfff]")

# Where a node stands, innermost step first: a path is only written out for a fault, because the
# paths of all nodes of a hostile document are far larger than the document.
Trail = tuple["Trail", str | int] | None


def out_of_bounds(document: object) -> list[Fault]:
    """The faults for which a document is not looked at any further: one of size or depth, or all
    values that are not JSON or cannot be stored. Never recursive."""
    faults: list[Fault] = []
    nodes = 0
    stack: list[tuple[object, Trail, int]] = [(document, None, 1)]
    while stack and len(faults) < FAULTS_KEPT:
        node, trail, depth = stack.pop()
        nodes += 1
        if depth > DOCUMENT_DEPTH:
            return [Fault(FaultCode.TOO_DEEP, _path(trail), f"More than {DOCUMENT_DEPTH} levels.")]
        if nodes > DOCUMENT_BYTES:
            return [_too_large()]
        faults += _node_faults(node, trail)
        stack += ((child, (trail, name), depth + 1) for name, child in _children(node))
    if not faults and _serialized_bytes(document) > DOCUMENT_BYTES:
        return [_too_large()]
    return faults


def _children(node: object) -> Iterator[tuple[str | int, object]]:
    if isinstance(node, dict):
        yield from ((name, value) for name, value in node.items() if isinstance(name, str))
    elif isinstance(node, list):
        yield from enumerate(node)


def _node_faults(node: object, trail: Trail) -> Iterator[Fault]:
    match node:
        case dict():
            for name in node:
                yield from _name_faults(name, trail)
        case str() if _UNSTORABLE.search(node):
            yield Fault(FaultCode.INVALID_TEXT, _path(trail), "Holds NUL or half a surrogate pair.")
        case float() if not math.isfinite(node):
            yield Fault(FaultCode.INVALID_MEMBER_TYPE, _path(trail), "Is no JSON number.")
        case list() | str() | int() | float() | None:
            return
        case _:
            yield Fault(FaultCode.INVALID_MEMBER_TYPE, _path(trail), "Is no JSON.")


def _name_faults(name: object, trail: Trail) -> Iterator[Fault]:
    if not isinstance(name, str):
        yield Fault(FaultCode.INVALID_MEMBER_TYPE, _path(trail), "Has a name that is no string.")
    elif _UNSTORABLE.search(name):
        path = _path((trail, name))
        yield Fault(FaultCode.INVALID_TEXT, path, "Its name holds NUL or half a surrogate pair.")


def _path(trail: Trail) -> str:
    names: list[str | int] = []
    while trail is not None:
        trail, name = trail
        names.append(name)
    path = "$"
    for name in reversed(names):
        path = step(path, to=name)
    return path


def _serialized_bytes(document: object) -> int:
    try:
        return len(json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode())
    except ValueError:  # an integer of more digits than Python writes
        return DOCUMENT_BYTES + 1


def _too_large() -> Fault:
    return Fault(FaultCode.TOO_LARGE, "$", f"More than {DOCUMENT_BYTES} bytes.")


PROTOCOL_VERSION: Final = "0.1.0"
STREAMS: Final = 1_000
VERSION_CHARS: Final = 128
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


def faults(document: object) -> list[Fault]:
    """Everything that is wrong with a declaration of either shape; empty when it can be parsed.

    Never raises, whatever the document. At most FAULTS_KEPT faults, in the order of the checks.
    """
    found = out_of_bounds(document)
    if found:
        return found
    root = Spot(document)
    if root.mapping(required=True) and isinstance(document, Mapping):
        if parser.is_wrapper(document):
            _check_wrapper(root)
        else:
            _check_manifest(root)
        _check_streams(root)
    return root.faults


def accept(document: Mapping[str, Any]) -> SourceDeclaration:
    """The declaration of a document, or ConnectorInvalid with `faults` of {code, path, message}."""
    found = faults(document)
    if found:
        first = found[0]
        raise ConnectorInvalid(
            message=f"{first.path}: {first.message}", faults=[fault._asdict() for fault in found]
        )
    return parser.parse(document)


def _check_wrapper(root: Spot) -> None:
    root.known(_WRAPPER_MEMBERS)
    _check_protocol(root.member("protocol_version"), required=True)
    source = root.member("source")
    if source.mapping(required=True):
        source.known(("kind", "id"))
        source.member("kind").choice(SOURCE_KINDS, required=True)
        _check_uri(source.member("id"), required=True)
    root.member("declaration_version").text(required=True, most=VERSION_CHARS)
    publisher = root.member("publisher")
    if publisher.mapping(required=True):
        _check_uri(publisher.member("id"), required=True)
    display = root.member("display")
    if display.mapping(required=True):
        display.member("name").text(required=True, most=limits.LABEL_MAX_CHARS)
    root.member("extensions").mapping()
    _check_connector_key(root, source.member("id"))


def _check_manifest(root: Spot) -> None:
    """The manifest of the reference carries much that is for its collector; it is let be."""
    _check_protocol(root.member("protocol_version"), required=False)
    root.member("connector_id").text()
    root.member("manifest_uri").text()
    root.member("version").text(required=True, most=VERSION_CHARS)
    for member in ("display_name", "name"):
        root.member(member).text(most=limits.LABEL_MAX_CHARS)
    publisher = root.member("publisher")
    if publisher.mapping():
        _check_uri(publisher.member("id"), required=False)
    if root.member("connector_id").present or root.member("connector_key").present:
        _check_connector_key(root, root.member("connector_id"))
    else:
        root.member("connector_key").text(required=True)


def _check_protocol(spot: Spot, *, required: bool) -> None:
    version = spot.text(required=required)
    if version not in {None, PROTOCOL_VERSION}:
        spot.report(FaultCode.UNSUPPORTED_VERSION, f"Must be {PROTOCOL_VERSION}.")


def _check_uri(spot: Spot, *, required: bool) -> None:
    text = spot.text(required=required)
    if text is not None and not parser.is_absolute_uri(text):
        spot.report(FaultCode.INVALID_MEMBER_VALUE, "Must be an absolute URI.")


def _check_connector_key(root: Spot, identity: Spot) -> None:
    stated = root.member("connector_key")
    if stated.present:
        key = stated.text(required=True)
        if key is not None:
            names.connector_key(key, spot=stated)
    elif isinstance(identity.value, str) and identity.value:
        names.connector_key(parser.last_segment(identity.value), spot=identity)


def _check_streams(root: Spot) -> None:
    streams = root.member("streams")
    if not streams.sequence(required=True, least=1):
        return
    spots = list(streams.items())
    if len(spots) > STREAMS:
        streams.report(FaultCode.TOO_MANY, f"More than {STREAMS} streams.")
        return
    fields: dict[str, Fields] = {}
    views: dict[str, Collection[str]] = {}
    for spot in spots:
        if spot.mapping(required=True):
            name, own = _check_name(spot, seen=fields), field_types(spot.member("schema").value)
            fields.setdefault(name, own)
            views.setdefault(name, check_stream(spot, fields=own))
    for spot in spots:
        if isinstance(spot.value, Mapping):
            own = field_types(spot.member("schema").value)
            check_relationships(spot, own=own, streams=fields)
    check_presets(root.member("selection_presets"), streams=fields, views=views)


def _check_name(stream: Spot, *, seen: Collection[str]) -> str:
    """The name, or "" for a stream that nothing can refer to."""
    spot = stream.member("name")
    name = names.stream_name(spot) or ""
    if name and name in seen:
        spot.report(FaultCode.DUPLICATE_STREAM_NAME, "Another stream has this name.")
    return name
