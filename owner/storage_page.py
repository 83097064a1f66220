"""The page that shows how much each source takes. No value of a record is read."""

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from evidence.models.connections import Connection
from evidence.write.disk_usage import disk_usage
from owner.permissions import owner_required
from owner.site import owner


@require_safe
@owner_required
def storage_page(request: HttpRequest) -> HttpResponse:
    usage = disk_usage()
    sources: dict[str, list[dict[str, Any]]] = {}
    for connection in Connection.unscoped.select_related("source"):
        sizes = {
            "records": usage.records[connection.pk],
            "files": usage.files[connection.pk],
            "index": usage.index[connection.pk],
        }
        line = {"name": connection.display_name, "is_demo": connection.demo, **sizes}
        line["total"] = sum(sizes.values())
        sources.setdefault(connection.source.display_name, []).append(line)
    groups: list[dict[str, Any]] = [
        {
            "source": name,
            "total": sum(line["total"] for line in lines),
            "connections": sorted(lines, key=lambda line: (-line["total"], line["name"])),
        }
        for name, lines in sources.items()
    ]
    groups.sort(key=lambda group: (-group["total"], group["source"]))
    lines = [line for group in groups for line in group["connections"]]
    context = {
        "here": "storage",
        "total": usage.total,
        "limit": owner().disk_limit_bytes,
        "groups": groups,
        "largest": max((line["total"] for line in lines), default=0) or 1,
    }
    return render(request, "owner/storage.html", context)
