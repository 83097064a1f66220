"""Declarations as values: parsed once per process, since a snapshot never changes."""

import threading
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass

import orjson

from evidence.declarations.layout import Layout
from evidence.declarations.parse import parse
from evidence.declarations.types import SourceDeclaration as Declaration
from evidence.models.sources import SourceDeclaration

KEPT = 512
"""Parsed declarations a process keeps; beyond them the least used leave."""


@dataclass(frozen=True, slots=True)
class Declared:
    """One snapshot: what it says, and where the values of its streams are stored."""

    declaration_id: int
    source_pk: int
    declaration: Declaration
    layout: Layout


_known: OrderedDict[int, Declared] = OrderedDict()
_lock = threading.Lock()


def declared(declaration_ids: Iterable[int]) -> dict[int, Declared]:
    """The declarations of these ids; one query for all that are not known yet, often none."""
    wanted = dict.fromkeys(declaration_ids)
    found = _recall(wanted)
    missing = [pk for pk in wanted if pk not in found]
    if missing:
        loaded = _load(missing)
        _keep(loaded)
        found |= loaded
    return found


def _load(declaration_ids: list[int]) -> dict[int, Declared]:
    rows = SourceDeclaration.unscoped.filter(pk__in=declaration_ids)
    columns = rows.values_list("pk", "source_id", "snapshot", "layout")
    return {
        pk: Declared(pk, source_pk, parse(orjson.loads(snapshot)), layout)
        for pk, source_pk, snapshot, layout in columns
    }


def _recall(declaration_ids: Iterable[int]) -> dict[int, Declared]:
    with _lock:
        found = {pk: _known[pk] for pk in declaration_ids if pk in _known}
        for pk in found:
            _known.move_to_end(pk)
    return found


def _keep(loaded: dict[int, Declared]) -> None:
    with _lock:
        _known.update(loaded)
        while len(_known) > KEPT:
            _known.popitem(last=False)
