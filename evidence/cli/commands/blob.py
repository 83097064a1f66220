"""`pdpp blob ID`: the bytes of a blob, resumable by range."""

import re
import sys
from pathlib import Path
from typing import Annotated
from urllib.parse import parse_qs, unquote, urlsplit

import typer

from evidence.cli import references
from evidence.cli.asking import Connection, params
from evidence.cli.commands.fetch import of_one
from evidence.cli.downloading import Download, to_file, to_stream
from evidence.cli.files import refuse_existing, writable
from evidence.cli.progress import progress
from evidence.cli.references import Reference, segment
from evidence.cli.session import Session, command

ID = typer.Argument(metavar="ID", help="A blob_id, its fetch_url, or a pdpp://blob handle.")
OUTPUT = typer.Option("--output", "-o", metavar="FILE", help="Else the id; - for a pipe.")
ROUTE = "/v1/blobs/"


@command
def blob(
    session: Session,
    blob_id: Annotated[str, ID],
    *,
    output: Annotated[Path | None, OUTPUT] = None,
    connection: Connection = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace the file if it exists.")
    ] = False,
) -> None:
    """Save a blob. Run the same command again to resume it after an interruption."""
    named = reference(blob_id)
    path = output or Path(
        re.sub(r"[^\w.-]", "_", named.blob_id, flags=re.ASCII).lstrip(".") or "blob"
    )
    wanted = Download(
        session,
        f"{ROUTE}{segment(named.blob_id)}",
        params(connection_id=of_one(named, connection)),
    )
    with progress(f"Saving {path}", quiet=session.out.as_json, in_bytes=True) as advance:
        if str(path) == "-":
            to_stream(wanted, sys.stdout.buffer, advance)
            return
        refuse_existing(path, replace=replace)
        with writable(path):
            size = to_file(wanted, path, advance)
    told = {"object": "download", "blob_id": named.blob_id, "bytes": size, "file": str(path)}
    session.out.body(told, [f"{size} bytes in {path}"])


def reference(text: str) -> Reference:
    """A handle, an address as records carry it, or a bare id."""
    if text.startswith("pdpp://"):
        return references.parse(text)
    parts = urlsplit(text)
    if ROUTE in parts.path:
        named = parse_qs(parts.query).get("connection_id", [None])[0]
        return Reference(named, blob_id=unquote(parts.path.partition(ROUTE)[2]))
    return Reference(None, blob_id=text)
