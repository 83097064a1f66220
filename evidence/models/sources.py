"""Sources and the exact declarations they were published with."""

import threading
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass

import orjson
from django.db import models
from typing_extensions import override

from evidence.declarations.declaration import SourceDeclaration as Declaration
from evidence.declarations.parser import parse
from evidence.declarations.storage_layout import Layout
from evidence.models.accounts import Owner


class Source(models.Model):
    """A kind of place records come from: one mail connector, one bank."""

    owner = models.ForeignKey(Owner, on_delete=models.PROTECT, related_name="+")
    kind = models.TextField(default="connector")
    source_id = models.TextField(db_collation="C", help_text="Absolute URI of the source.")
    connector_key = models.TextField(db_collation="C")
    display_name = models.TextField()
    current_declaration = models.ForeignKey(
        "SourceDeclaration", null=True, on_delete=models.PROTECT, related_name="+"
    )

    unscoped = models.Manager["Source"]()

    class Meta:
        default_manager_name = "unscoped"
        constraints = [
            models.UniqueConstraint(fields=["owner", "source_id"], name="source_once_per_owner"),
            models.UniqueConstraint(
                fields=["owner", "connector_key"], name="connector_key_once_per_owner"
            ),
            models.CheckConstraint(
                name="source_kind_known",
                condition=models.Q(kind__in=["connector", "provider_native"]),
            ),
        ]

    @override
    def __str__(self) -> str:
        return self.display_name


class SourceDeclaration(models.Model):
    """An immutable snapshot of a declaration, byte for byte as it was posted.

    ``layout`` says where typed values and search terms of each stream are stored
    (``evidence.declarations.storage_layout``); a later revision only ever adds to it.
    """

    source = models.ForeignKey(Source, on_delete=models.PROTECT, related_name="+")
    revision = models.PositiveIntegerField()
    version = models.TextField()
    snapshot = models.TextField()
    layout = models.JSONField()
    created_at = models.DateTimeField()

    unscoped = models.Manager["SourceDeclaration"]()

    class Meta:
        default_manager_name = "unscoped"
        constraints = [
            models.UniqueConstraint(
                fields=["source", "revision"], name="declaration_revision_once_per_source"
            )
        ]

    @override
    def __str__(self) -> str:
        return f"{self.version} (revision {self.revision})"


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
