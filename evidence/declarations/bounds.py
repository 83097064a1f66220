"""What is asked of a document before anything else reads it: that it is JSON which the database can
hold, and of a size and depth that the other checks may walk without care."""

import json
import math
import re
from collections.abc import Iterator
from typing import Final

from evidence.declarations.faults import FAULTS_KEPT, Fault, FaultCode, step

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
