"""Helpers that run imports and read the stored results."""

from collections.abc import Iterator
from contextlib import suppress
from io import StringIO
from pathlib import Path
from typing import Any

from django.core.management import call_command

from evidence.models.connections import Connection
from evidence.models.records import Blob, BlobChunk, Record
from importers.core import sandbox
from importers.core.importer import ChoiceNeeded, Options
from importers.core.readers import KeySet
from importers.models import ImportReceipt, ImportRun
from importers.registry import installed_importers
from importers.runs.record_feed import AttachmentSpool, RecordFeed

TORTURE = Path(__file__).parent / "torture"


def run(*paths: Path, **options: Any) -> str:
    """Return the output of the command. Raises ``CommandError``."""
    out = StringIO()
    call_command("import", *paths, stdout=out, stderr=out, **options)
    return out.getvalue()


def read_all(path: Path) -> int:
    """Parse an export with every importer that claims files, and return the number of records."""
    count = 0
    with sandbox.open_session(installed_importers()[0], path) as session:
        claims = sandbox.claim(session, installed_importers())
        for importer in installed_importers():
            if files := claims.files.get(importer.name):
                with suppress(ChoiceNeeded):
                    options = sandbox.prepare(session, importer, files, Options())
                    items = sandbox.read(importer, files, options, skip=0)
                    count += count_lines(items)
    return count


def count_lines(items: Iterator[sandbox.ReceivedItem]) -> int:
    spool = AttachmentSpool()
    feed = RecordFeed(items, connection_id="cin_x", seen=KeySet(), spool=spool)
    try:
        return sum(1 for _ in feed.lines())
    finally:
        spool.close()


def records(stream: str) -> list[dict[str, Any]]:
    """Return the data of all records of a stream, ordered by key."""
    rows = Record.unscoped.filter(stream=stream).order_by("record_key")
    return [row.data for row in rows]


def one(stream: str, **values: Any) -> dict[str, Any]:
    """Return the only record with these values."""
    (match,) = [
        record
        for record in records(stream)
        if all(record[name] == value for name, value in values.items())
    ]
    return match


def receipts() -> set[tuple[str, str]]:
    """Return (code, location) of the receipts of all runs."""
    rows = ImportReceipt.unscoped.all()
    return {(row.code, row.place.partition(",")[0] or row.file) for row in rows}


def latest() -> ImportRun:
    return ImportRun.unscoped.latest("started_at")


def connection(name: str) -> Connection:
    return Connection.unscoped.get(display_name=name)


def content(blob_ref: dict[str, Any]) -> bytes:
    """Return the bytes of a blob."""
    blob = Blob.unscoped.get(blob_id=blob_ref["blob_id"])
    rows = BlobChunk.unscoped.filter(blob_id=blob.blob_id).order_by("position")
    return b"".join(bytes(row.content) for row in rows)
