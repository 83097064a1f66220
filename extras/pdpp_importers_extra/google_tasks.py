"""Import Google Tasks from Takeout (Tasks.json)."""

from functools import partial
from typing import Any

from importers.core.dates import to_utc
from importers.core.export_files import ExportFile
from importers.core.importer import ExportFiles, Importer, read_each
from importers.core.readers import (
    Json,
    head_has,
    iter_nodes,
    json_line,
    json_objects,
    json_text,
    parse_node,
)
from importers.core.results import (
    ExportItem,
    ExportItems,
    ParsedItem,
    ParsedRecord,
    ReceiptCode,
    UnreadableError,
    issue_item,
)

_STATUSES = {"needsAction": "open", "completed": "done"}


def _claim(files: ExportFiles) -> list[ExportFile]:
    return [
        file
        for file in files
        if file.suffix == ".json" and head_has(file) and b'"tasks#taskLists"' in file.head
    ]


def _read_file(file: ExportFile) -> ExportItems:
    """Yield an item for each task. A list is held in memory, up to the limit of one item."""
    number = 0
    for node, size, _ in iter_nodes(file, ("items.item",)):
        if not isinstance(node, dict) or not isinstance(node.get("items", []), list):
            number += 1
            yield issue_item(file.name, f"task {number:,}", ReceiptCode.MALFORMED, size=size)
            continue
        tasks = node.get("items", [])
        title = json_line(node, "title")
        for task in tasks:
            number += 1
            parse = partial(parse_node, task, partial(_task, list_name=title))
            yield ExportItem(file.name, f"task {number:,}", size // len(tasks), parse)


def _task(node: Json, *, list_name: str | None) -> ParsedItem:
    item = ParsedItem()
    task_id = json_line(node, "id")
    if task_id is None:
        raise UnreadableError(ReceiptCode.NO_IDENTITY)
    notes = item.cut_text(json_text(node, "notes"))
    status = json_line(node, "status") or ""
    links = (json_line(link, "link") for link in json_objects(node, "links"))
    updated_at = item.require_date(to_utc(node.get("updated")), node.get("updated"))
    data = {
        "id": f"t_{task_id}",
        "list": list_name,
        "title": json_line(node, "title"),
        "notes": notes or None,
        "status": _STATUSES.get(status, status) or None,
        "due_on": _due_on(node, item),
        "created_at": to_utc(node.get("created")),
        "updated_at": updated_at,
        "completed_at": to_utc(node.get("completed")),
        "parent_id": f"t_{parent}" if (parent := json_line(node, "parent")) else None,
        "is_starred": node.get("starred") is True,
        "is_deleted": node.get("deleted") is True,
        "links": [link for link in links if link],
    }
    item.records.append(ParsedRecord("tasks", data))
    return item


def _due_on(node: Json, item: ParsedItem) -> str | None:
    """Return the day. Google writes midnight in UTC whatever the zone of the owner."""
    written: Any = node.get("due")
    if written is None:
        return None
    moment = item.require_date(to_utc(written), written)
    return moment and moment[:10]


GOOGLE_TASKS = Importer(
    claim=_claim,
    read=read_each(_read_file),
)
