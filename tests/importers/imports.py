"""Exports put through the command, and what is in the store afterwards."""

from io import StringIO
from pathlib import Path
from typing import Any

from django.core.management import call_command

from evidence.models.connections import Connection
from evidence.models.imports import ImportReceipt, ImportRun
from evidence.models.records import Blob, BlobChunk, Record
from importers.core.export_files import open_export
from importers.core.importer import ChoiceNeeded, Options
from importers.registry import KINDS
from importers.runs.record_feed import Feed, Spool
from importers.runs.seen_keys import KeySet

TORTURE = Path(__file__).parent / "torture"


def run(*paths: Path, **options: Any) -> str:
    """What the command says. Raises ``CommandError`` as it does."""
    out = StringIO()
    call_command("import", *paths, stdout=out, stderr=out, **options)
    return out.getvalue()


def read_all(path: Path) -> int:
    """Reads an export with every kind that wants it; how many rows came of it."""
    left, rows = list(open_export(path).entries), 0
    for kind in KINDS:
        claimed = kind.claim(left)
        left = [entry for entry in left if entry not in claimed]
        try:
            options = kind.prepare(claimed, Options()) if claimed else Options()
        except ChoiceNeeded:
            continue
        spool = Spool()
        pieces = kind.read(claimed, options) if claimed else iter(())
        feed = Feed(pieces, connection_id="cin_x", skip=0, seen=KeySet(), spool=spool)
        rows += sum(1 for _ in feed.lines())
        spool.close()
    return rows


def records(stream: str) -> list[dict[str, Any]]:
    """The data of a stream's records of all connections, in the order of their keys."""
    rows = Record.unscoped.filter(stream=stream).order_by("record_key")
    return [row.data for row in rows]


def one(stream: str, **wanted: Any) -> dict[str, Any]:
    """The record with these values."""
    (found,) = [
        each
        for each in records(stream)
        if all(each[name] == value for name, value in wanted.items())
    ]
    return found


def receipts() -> set[tuple[str, str]]:
    """(code, where) of everything that was said, of every run."""
    rows = ImportReceipt.unscoped.all()
    return {(row.code, row.place.partition(",")[0] or row.file) for row in rows}


def latest() -> ImportRun:
    return ImportRun.unscoped.latest("started_at")


def connection(name: str) -> Connection:
    return Connection.unscoped.get(display_name=name)


def content(blob_ref: dict[str, Any]) -> bytes:
    """The bytes that a record's ``blob_ref`` names."""
    blob = Blob.unscoped.get(blob_id=blob_ref["blob_id"])
    rows = BlobChunk.unscoped.filter(blob_id=blob.blob_id).order_by("position")
    return b"".join(bytes(row.content) for row in rows)
