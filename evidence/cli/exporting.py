"""All records of a stream as NDJSON, page by page, resumable at the last whole page.

The file is `NAME.part` until it is complete; `NAME.resume` says how much of it counts and which
page comes next. Connections are taken one after the other: that pages on every server, also where
one that merges them gives no cursor.
"""

import hashlib
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

from evidence.cli import exits
from evidence.cli.failures import Failure
from evidence.cli.files import beside, remember, remembered
from evidence.cli.progress import Advance
from evidence.cli.provider import Json, Params, patiently

PAGE = "100"
ReadPage: TypeAlias = Callable[[Params], Json]
"""One page of the stream's records; raises `Failure`."""


@dataclass(frozen=True, slots=True)
class Place:
    """How far an export has come. `total` counts what the connections begun so far hold."""

    query: str
    connection: int = 0
    cursor: str | None = None
    size: int = 0
    records: int = 0
    total: int | None = 0


@dataclass(frozen=True, slots=True)
class Export:
    """What to export: the connections in turn (None is all at once) under the same parameters."""

    read: ReadPage
    connections: Sequence[str | None]
    params: Params

    @property
    def query(self) -> str:
        """Tells one export from another."""
        asked = json.dumps([list(self.connections), [list(pair) for pair in self.params]])
        return hashlib.sha256(asked.encode()).hexdigest()


def to_file(export: Export, path: Path, advance: Advance) -> Place:
    """Write or finish writing the file; gives the place at the end."""
    part, resume = beside(path, ".part"), beside(path, ".resume")
    place = resumed(export, part, resume)
    with part.open("r+b" if place.size else "wb") as file:
        file.truncate(place.size)
        file.seek(place.size)
        while place.connection < len(export.connections):
            place = _page(export, place, file)
            file.flush()
            os.fsync(file.fileno())
            remember(resume, asdict(place))
            advance(place.records, place.total)
    part.replace(path)
    resume.unlink(missing_ok=True)
    return place


def to_stream(export: Export, file: BinaryIO, advance: Advance) -> Place:
    """Write to a pipe, from the beginning."""
    place = Place(export.query)
    while place.connection < len(export.connections):
        place = _page(export, place, file)
        advance(place.records, place.total)
    file.flush()
    return place


def resumed(export: Export, part: Path, resume: Path) -> Place:
    """Where an interrupted export of the very same goes on; the beginning otherwise."""
    state = remembered(resume)
    try:
        place = Place(**state)
    except TypeError:
        return Place(export.query)
    if place.query != export.query or not part.exists() or part.stat().st_size < place.size:
        return Place(export.query)
    return place


def _page(export: Export, place: Place, file: BinaryIO) -> Place:
    body = patiently(lambda: export.read(_params(export, place)))
    lines = [json.dumps(record, ensure_ascii=False) for record in body.get("data") or ()]
    written = "".join(f"{line}\n" for line in lines).encode("utf-8", "surrogatepass")
    file.write(written)
    reached = replace(
        place,
        size=place.size + len(written),
        records=place.records + len(lines),
        total=_total(place, body),
        cursor=body.get("next_cursor"),
    )
    if body.get("has_more"):
        return _going_on(reached)
    return replace(reached, connection=place.connection + 1, cursor=None)


def _going_on(place: Place) -> Place:
    if place.cursor is None:
        raise Failure(
            "incomplete",
            "The server has more records, but no cursor that leads to them.",
            exit_code=exits.NOT_WRITTEN,
            next_step="Export one connection at a time with --connection; pdpp streams lists them.",
        )
    return place


def _params(export: Export, place: Place) -> list[tuple[str, str]]:
    """Oldest first, so that what arrives meanwhile comes at the end and is not missed."""
    connection = export.connections[place.connection]
    pairs = [*export.params, ("limit", PAGE), ("order", "asc")]
    if connection is not None:
        pairs.append(("connection_id", connection))
    if place.cursor is None:
        return [*pairs, ("count", "exact")]
    return [*pairs, ("cursor", place.cursor)]


def _total(place: Place, body: dict[str, Any]) -> int | None:
    if place.cursor is not None or place.total is None:
        return place.total
    count = ((body.get("meta") or {}).get("count") or {}).get("value")
    return place.total + count if isinstance(count, int) else None
