"""How much each source takes in the database."""

from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from evidence.access.storage_sizes import StorageSizes, storage_sizes
from evidence.models.connections import Connection
from owner.permissions import owner_required
from owner.site import owner


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionSize:
    """The estimated bytes of one connection."""

    name: str
    source: str
    is_demo: bool
    records: int
    blobs: int
    index: int

    @property
    def total(self) -> int:
        return self.records + self.blobs + self.index


@require_safe
@owner_required
def storage_page(request: HttpRequest) -> HttpResponse:
    sizes = storage_sizes()
    rows = Connection.unscoped.filter(owner=owner()).select_related("source")
    lines = sorted(
        (_line(connection, sizes) for connection in rows), key=lambda each: (-each.total, each.name)
    )
    sources: dict[str, list[ConnectionSize]] = {}
    for line in lines:
        sources.setdefault(line.source, []).append(line)
    groups: list[dict[str, Any]] = [
        {"source": name, "total": sum(each.total for each in members), "connections": members}
        for name, members in sources.items()
    ]
    groups.sort(key=lambda group: (-group["total"], group["source"]))
    named = sum(line.total for line in lines)
    context = {
        "here": "storage",
        "total": sizes.total,
        "groups": groups,
        "largest": max((line.total for line in lines), default=0) or 1,
        "other": sizes.total - named,
    }
    return render(request, "owner/storage.html", context)


def _line(connection: Connection, sizes: StorageSizes) -> ConnectionSize:
    pk = connection.pk
    return ConnectionSize(
        name=connection.display_name,
        source=connection.source.display_name,
        is_demo=connection.demo,
        records=sizes.records.get(pk, 0),
        blobs=sizes.blobs.get(pk, 0),
        index=sizes.index.get(pk, 0),
    )
