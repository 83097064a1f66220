"""Sources and immutable declaration snapshots, with a cache of parsed declarations."""

import threading
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass

import orjson
from django.db import models
from typing_extensions import override

from evidence.declarations.declaration import SourceDeclaration as Declaration
from evidence.declarations.declaration import parse_declaration
from evidence.declarations.storage_layout import Layout
from evidence.models.owners import Owned, OwnedKey, current_owner


class Source(Owned):
    """A kind of origin with a declaration, such as a mail provider or a bank."""

    kind = models.TextField(default="connector")
    source_id = models.TextField(db_collation="C", help_text="Absolute URI of the source.")
    connector_key = models.TextField(db_collation="C")
    display_name = models.TextField()
    current_declaration = OwnedKey("SourceDeclaration", null=True)

    class Meta(Owned.Meta):
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


class SourceDeclaration(Owned):
    """An immutable snapshot of a declaration, byte for byte as it was posted.

    ``layout`` maps fields of each stream to their storage columns
    (``evidence.declarations.storage_layout``); later revisions only add to it.
    """

    source = OwnedKey(Source)
    revision = models.PositiveIntegerField()
    version = models.TextField()
    snapshot = models.TextField()
    layout = models.JSONField()
    created_at = models.DateTimeField()

    class Meta(Owned.Meta):
        constraints = [
            models.UniqueConstraint(
                fields=["owner", "source", "revision"], name="declaration_revision_once_per_source"
            )
        ]

    @override
    def __str__(self) -> str:
        return f"{self.version} (revision {self.revision})"


MAX_CACHED_DECLARATIONS = 512
"""Maximum number of parsed declarations in a process's LRU cache."""


@dataclass(frozen=True, slots=True)
class StoredDeclaration:
    """A parsed declaration snapshot and its storage layout."""

    declaration_id: int
    source_pk: int
    declaration: Declaration
    layout: Layout


_cache: OrderedDict[tuple[str, int], StoredDeclaration] = OrderedDict()
"""By owner and id: declarations of two owners may have the same id after a restore."""
_lock = threading.Lock()


def load_declarations(declaration_ids: Iterable[int]) -> dict[int, StoredDeclaration]:
    """Return declarations by id, with one query for all that are not cached."""
    ids = dict.fromkeys(declaration_ids)
    declarations = _get_cached(ids)
    missing = [pk for pk in ids if pk not in declarations]
    if missing:
        loaded = _load(missing)
        _store_cached(loaded)
        declarations |= loaded
    return declarations


def _load(declaration_ids: list[int]) -> dict[int, StoredDeclaration]:
    rows = SourceDeclaration.unscoped.filter(pk__in=declaration_ids)
    columns = rows.values_list("pk", "source_id", "snapshot", "layout")
    return {
        pk: StoredDeclaration(pk, source_pk, parse_declaration(orjson.loads(snapshot)), layout)
        for pk, source_pk, snapshot, layout in columns
    }


def _get_cached(declaration_ids: Iterable[int]) -> dict[int, StoredDeclaration]:
    owner_id = current_owner()
    with _lock:
        found = {pk: _cache[owner_id, pk] for pk in declaration_ids if (owner_id, pk) in _cache}
        for pk in found:
            _cache.move_to_end((owner_id, pk))
    return found


def _store_cached(loaded: dict[int, StoredDeclaration]) -> None:
    owner_id = current_owner()
    with _lock:
        _cache.update({(owner_id, pk): each for pk, each in loaded.items()})
        while len(_cache) > MAX_CACHED_DECLARATIONS:
            _cache.popitem(last=False)
