"""A folder that an export left: ``records.jsonl``, and perhaps what its records need.

``manifests/*.json`` are declarations, ``connections.json`` a list of {connection_id,
connector_key, display_name, languages?}.
"""

from datetime import datetime
from pathlib import Path
from typing import Any

import orjson

from evidence.storing.connections import connect, connection_ids
from evidence.storing.declarations import declare

RECORDS = "records.jsonl"


def needs_set_up(folder: Path) -> bool:
    """Whether the folder names connections that are not here."""
    known = connection_ids()
    return any(each["connection_id"] not in known for each in _connections(folder))


def set_up(folder: Path, *, owner_id: str, now: datetime) -> None:
    """Declares and connects what the folder brings and is not here yet."""
    for file in sorted(folder.glob("manifests/*.json")):
        declare(file.read_bytes(), owner_id=owner_id, now=now)
    known = connection_ids()
    for each in _connections(folder):
        if each["connection_id"] not in known:
            connect(
                each["connector_key"],
                display_name=each["display_name"],
                owner_id=owner_id,
                languages=each.get("languages", []),
                connection_id=each["connection_id"],
                now=now,
            )


def _connections(folder: Path) -> list[dict[str, Any]]:
    file = folder / "connections.json"
    listed: list[dict[str, Any]] = orjson.loads(file.read_bytes()) if file.exists() else []
    return listed
