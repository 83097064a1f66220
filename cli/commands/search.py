"""`pdpp search WORDS`: hits with their evidence, each with the command that reads on."""

import re
from collections.abc import Iterator
from typing import Annotated, Any

import typer

from cli.options import Connection, Cursor, Filters, Given, Limit, filters, given, params
from cli.output import line, paging
from cli.references import shown
from cli.session import Session, command

_MARKED = re.compile(r"<mark>(.+?)</mark>", re.DOTALL)


def read_on(session: Session, hit: dict[str, Any], excerpt: dict[str, Any]) -> str:
    """The `pdpp field …` line for one excerpt of a hit.

    A server that says where the excerpt stands gets an offset; any other is asked to find the
    marked words again.
    """
    read = excerpt.get("read") or {}
    name = shown(
        read.get("connection_id") or hit.get("connection_id"),
        str(read.get("stream") or hit.get("stream")),
        str(read.get("record_id") or hit.get("record_key")),
    )
    field = str(read.get("field") or excerpt.get("field_path"))
    return session.line("field", name, field, *_place(excerpt))


def _place(excerpt: dict[str, Any]) -> list[str]:
    start = excerpt.get("start_chars")
    if isinstance(start, int):
        return ["--offset", str(start)] if start else []
    found = _MARKED.search(str(excerpt.get("preview_text") or ""))
    return ["--find", found[1]] if found else []


PATHS = {
    "lexical": "/v1/search",
    "semantic": "/v1/search/semantic",
    "hybrid": "/v1/search/hybrid",
}
_EXCERPTS = 3


@command
def search(
    session: Session,
    words: Annotated[
        list[str], typer.Argument(metavar="WORDS", help='Also "a phrase", prefix*, OR and -not.')
    ],
    *,
    stream: Annotated[
        list[str] | None, typer.Option("--stream", help="Only in this stream; several times.")
    ] = None,
    connection: Connection = None,
    limit: Limit = 10,
    cursor: Cursor = None,
    mode: Annotated[
        str | None, typer.Option("--mode", help="lexical, semantic or hybrid; see pdpp schema.")
    ] = None,
    sort: Annotated[
        str | None, typer.Option("--sort", metavar="-time", help="Newest first, not by rank.")
    ] = None,
    filter_: Filters = None,
    param: Given = None,
) -> None:
    """Find records by words, with the evidence."""
    asked = params(q=" ".join(words), connection_id=connection, limit=limit, cursor=cursor)
    asked += [("streams[]", each) for each in stream or ()]
    asked += params(sort=sort) + filters(filter_) + given(param)
    body = session.get(PATHS.get(mode or "lexical", f"/v1/search/{mode}"), asked)
    for hit in body.get("data") or ():
        for excerpt in hit.get("evidence_excerpts") or ():
            excerpt["command"] = read_on(session, hit, excerpt)
    session.out.body(body, _people(session, body))


def _people(session: Session, body: dict[str, Any]) -> Iterator[str]:
    for number, hit in enumerate(body.get("data") or (), 1):
        name = _name(hit)
        yield f"{number}. {_title(hit)}"
        yield f"   {line(name)}"
        for excerpt in (hit.get("evidence_excerpts") or ())[:_EXCERPTS]:
            yield f"   {line(excerpt.get('field_path'))}: {_preview(excerpt)}"
            yield f"     {excerpt['command']}"
        yield f"     {session.line('fetch', name)}"
    yield from paging(body)


def _name(hit: dict[str, Any]) -> str:
    return shown(hit.get("connection_id"), str(hit.get("stream")), str(hit.get("record_key")))


def _title(hit: dict[str, Any]) -> str:
    parts = [
        hit.get("title"),
        hit.get("display_name") or hit.get("connector_key"),
        hit.get("stream"),
        hit.get("authored_at") or hit.get("emitted_at"),
    ]
    return "  ·  ".join(line(part, most=80) for part in parts if part)


def _preview(excerpt: dict[str, Any]) -> str:
    text = str(excerpt.get("preview_text") or excerpt.get("plain_text") or "")
    return line(text.replace("<mark>", "«").replace("</mark>", "»"), most=300)
