"""`pdpp search WORDS`: search records, and print the command that reads more of each match."""

import re
from collections.abc import Iterator
from typing import Annotated, Any

import typer

from cli.output import one_line, page_lines
from cli.session import (
    After,
    Before,
    Connection,
    Cursor,
    ExtraParams,
    Filters,
    Limit,
    Session,
    command,
    extra_params,
    filter_params,
    query_params,
)
from evidence.record_ids import RecordRef, format_id

PATHS = {
    "lexical": "/v1/search",
    "semantic": "/v1/search/semantic",
    "hybrid": "/v1/search/hybrid",
}
_ESCAPED_MARK = re.compile(r"&lt;(?=\s*/?\s*mark)", re.IGNORECASE)
_MARKED = re.compile(r"<mark>(.+?)</mark>", re.DOTALL)
_MAX_EXCERPTS = 3


@command
def search(
    session: Session,
    words: Annotated[
        list[str], typer.Argument(metavar="WORDS", help='Also "a phrase", prefix*, OR and -not.')
    ],
    *,
    stream: Annotated[
        list[str] | None, typer.Option("--stream", help="Only this stream. Can be repeated.")
    ] = None,
    connection: Connection = None,
    limit: Limit = 10,
    cursor: Cursor = None,
    mode: Annotated[
        str | None, typer.Option("--mode", help="lexical, semantic or hybrid; see pdpp schema.")
    ] = None,
    sort: Annotated[
        str | None, typer.Option("--sort", metavar="-time", help="Newest first instead of by rank.")
    ] = None,
    match: Annotated[
        str | None, typer.Option("--match", metavar="exact", help="Only words as written.")
    ] = None,
    after: After = None,
    before: Before = None,
    filter_: Filters = None,
    param: ExtraParams = None,
) -> None:
    """Search records by words and show where they match."""
    params = query_params(q=" ".join(words), connection_id=connection, limit=limit, cursor=cursor)
    params += [("streams[]", name) for name in stream or ()]
    params += query_params(sort=sort, match=match, after=after, before=before)
    params += filter_params(filter_) + extra_params(param)
    body = session.get(PATHS.get(mode or "lexical", f"/v1/search/{mode}"), params)
    for hit in body.get("data") or ():
        for excerpt in hit.get("evidence_excerpts") or ():
            excerpt["command"] = _field_command(session, hit, excerpt)
    session.out.result(body, _lines(session, body))


def _field_command(session: Session, hit: dict[str, Any], excerpt: dict[str, Any]) -> str:
    """Return the `pdpp field` command line that reads the field around an excerpt.

    Uses the excerpt's offset if the server sends it, otherwise searches for the marked words.
    """
    read = excerpt.get("read") or {}
    ref = RecordRef(
        read.get("connection_id") or hit.get("connection_id"),
        str(read.get("stream") or hit.get("stream")),
        str(read.get("record_id") or hit.get("record_key")),
    )
    field = str(read.get("field") or excerpt.get("field_path"))
    start = excerpt.get("start_chars")
    marked = _MARKED.search(str(excerpt.get("preview_text") or ""))
    position: list[str] = []
    if isinstance(start, int):
        position = ["--offset", str(start)] if start else []
    elif marked:
        position = ["--find", _unescape(marked[1])]
    return session.command_line("field", format_id(ref), field, *position)


def _lines(session: Session, body: dict[str, Any]) -> Iterator[str]:
    for number, hit in enumerate(body.get("data") or (), 1):
        record_id = format_id(
            RecordRef(hit.get("connection_id"), str(hit.get("stream")), str(hit.get("record_key")))
        )
        yield f"{number}. {_title(hit)}"
        yield f"   {one_line(record_id)}"
        for excerpt in (hit.get("evidence_excerpts") or ())[:_MAX_EXCERPTS]:
            yield f"   {one_line(excerpt.get('field_path'))}: {_preview(excerpt)}"
            yield f"     {excerpt['command']}"
        yield f"     {session.command_line('fetch', record_id)}"
    yield from page_lines(body)


def _title(hit: dict[str, Any]) -> str:
    parts = [
        hit.get("title"),
        hit.get("display_name") or hit.get("connector_key"),
        hit.get("stream"),
        hit.get("authored_at") or hit.get("emitted_at"),
    ]
    return "  ·  ".join(one_line(part, max_chars=80) for part in parts if part)


def _preview(excerpt: dict[str, Any]) -> str:
    marked = str(excerpt.get("preview_text") or "").replace("<mark>", "«").replace("</mark>", "»")
    return one_line(_unescape(marked) or excerpt.get("plain_text") or "", max_chars=300)


def _unescape(preview: str) -> str:
    """Return the text of a preview, in which the server escapes tags that look like its own."""
    return _ESCAPED_MARK.sub("<", preview)
