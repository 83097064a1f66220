"""`pdpp fetch ID`: one record."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from cli import references
from cli.errors import usage
from cli.options import (
    Connection,
    Expand,
    ExpandLimit,
    Fields,
    Given,
    View,
    expansions,
    given,
    params,
)
from cli.output import line, plain, record_lines
from cli.references import Reference, shown
from cli.session import Session, command, watched

Id = Annotated[str, typer.Argument(metavar="ID", help="As pdpp search shows it.")]


@command
def fetch(
    session: Session,
    record: Id,
    *,
    fields: Fields = None,
    view: View = None,
    connection: Connection = None,
    expand: Expand = None,
    expand_limit: ExpandLimit = None,
    param: Given = None,
) -> None:
    """Show one record, with all of its fields."""
    reference = named(record)
    asked = params(connection_id=of_one(reference, connection), fields=fields, view=view)
    asked += expansions(expand, expand_limit) + given(param)
    body = session.get(reference.path, asked)
    session.out.body(body, _people(body))


def named(record: str) -> Reference:
    """The record that an id names; a `Failure` where it names a blob."""
    reference = references.parse(record)
    if reference.blob_id:
        raise usage("This names a blob.", param="ID", next_step=f"pdpp blob {record}")
    return reference


def of_one(reference: Reference, connection: str | None) -> str | None:
    """The connection that the id or the option names; a `Failure` where they differ."""
    inside = reference.connection_id
    if inside and connection and inside != connection:
        raise usage(f"The id is of {inside}, not of {connection}.", param="--connection")
    return inside or connection


def _people(body: dict[str, Any]) -> Iterator[str]:
    yield from record_lines(body)
    for relation, value in (body.get("expanded") or {}).items():
        yield f"{relation}:"
        yield json.dumps(value, ensure_ascii=True, indent=2)


OFFSET = typer.Option("--offset", min=0, help="Start at this character.")
FIND = typer.Option("--find", metavar="TEXT", help="Show the field around this text.")
QUOTE = typer.Option("--quote", metavar="TEXT", help="Say whether the field still holds this text.")


@command
def field(
    session: Session,
    record: Id,
    path: Annotated[
        str | None, typer.Argument(metavar="FIELD", help="A field, or a JSON Pointer into one.")
    ] = None,
    *,
    offset: Annotated[int | None, OFFSET] = None,
    find: Annotated[str | None, FIND] = None,
    occurrence: Annotated[int | None, typer.Option("--occurrence", min=1)] = None,
    before: Annotated[int | None, typer.Option("--before", min=0)] = None,
    after: Annotated[int | None, typer.Option("--after", min=0)] = None,
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="At most 16384.")] = None,
    quote: Annotated[str | None, QUOTE] = None,
    connection: Connection = None,
    param: Given = None,
) -> None:
    """Read a field of a record, piece by piece.

    The text goes to standard output, how to go on to standard error.
    """
    asked = params(
        offset_chars=offset,
        q=find,
        occurrence=occurrence,
        before_chars=before,
        after_chars=after,
        limit_chars=limit,
        quote=quote,
    )
    wanted = _wanted(named(record), path, asked, connection=connection)
    body = session.get(f"{wanted.record.path}/field-window", wanted.asked + given(param))
    name = _name(wanted, body)
    for note in _beside(session, body, name, wanted.path):
        session.out.note(note)
    session.out.body(body, _text(body))


@dataclass(frozen=True, slots=True)
class _Wanted:
    """Which field of which record, and the parameters that say which part of it."""

    record: Reference
    path: str
    asked: list[tuple[str, str]]


def _wanted(
    record: Reference, path: str | None, asked: list[tuple[str, str]], *, connection: str | None
) -> _Wanted:
    """What a field-window handle says holds where the command line says nothing else."""
    window = dict(record.window)
    path = path or window.pop("field_path", None)
    if path is None:
        raise usage("Which field?", param="FIELD", next_step="pdpp schema STREAM lists them.")
    window.pop("field_path", None)
    placed = {"offset_chars", "q"} & {name for name, _ in asked}
    kept = [] if placed else params(**window)
    of = params(field=path, connection_id=of_one(record, connection))
    chosen = {name for name, _ in asked}
    return _Wanted(record, path, of + [pair for pair in kept if pair[0] not in chosen] + asked)


def _name(wanted: _Wanted, body: dict[str, Any]) -> str:
    record = wanted.record
    connection = dict(wanted.asked).get("connection_id") or body.get("connection_id")
    return shown(connection, record.stream, record.record_id)


def _text(body: dict[str, Any]) -> Iterator[str]:
    """The very text; only a terminal is spared its control characters."""
    text = str(body.get("window", {}).get("text") or "")
    yield plain(text) if watched() else text


def _beside(session: Session, body: dict[str, Any], name: str, path: str) -> Iterator[str]:
    window = body.get("window") or {}
    start, end, total = (window.get(f"{each}_chars") for each in ("start", "end", "total"))
    yield f"{line(name)} {line(path)}: characters {start} to {end} of {total}"
    if verdict := body.get("verification"):
        at = verdict.get("found_at_chars")
        yield f"quote: {line(verdict.get('status'))}{'' if at is None else f' at {at}'}"
    if (back := window.get("previous_offset_chars")) is not None:
        yield f"before: {session.line('field', name, path, '--offset', str(back))}"
    if (onward := window.get("next_offset_chars")) is not None:
        yield f"next: {session.line('field', name, path, '--offset', str(onward))}"
