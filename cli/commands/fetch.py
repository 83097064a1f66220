"""`pdpp fetch ID` and `pdpp field ID FIELD`: show one record, or a window of one field."""

import json
from collections.abc import Iterator
from typing import Annotated, Any

import typer

from cli.errors import usage_error
from cli.output import escape_controls, one_line, record_lines
from cli.session import (
    Connection,
    Expand,
    ExpandLimit,
    ExtraParams,
    Fields,
    Session,
    View,
    command,
    expand_params,
    extra_params,
    is_stdout_terminal,
    query_params,
)
from evidence import record_ids
from evidence.record_ids import ParsedUri, RecordRef, path_segment

Id = Annotated[str, typer.Argument(metavar="ID", help="An id as pdpp search shows it.")]
OFFSET = typer.Option("--offset", min=0, help="Start at this character.")
FIND = typer.Option("--find", metavar="TEXT", help="Show the field around this text.")
QUOTE = typer.Option("--quote", metavar="TEXT", help="Check whether the field contains this text.")


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
    param: ExtraParams = None,
) -> None:
    """Show one record with all of its fields."""
    uri, ref = _parse_record_argument(record)
    connection_id = select_connection(uri, connection)
    params = query_params(connection_id=connection_id, fields=fields, view=view)
    params += expand_params(expand, expand_limit) + extra_params(param)
    body = session.get(_record_path(ref), params)
    session.out.result(body, _lines(body))


def parse_id_argument(text: str) -> ParsedUri:
    """Parse an id or a pdpp:// URI. Raises CliError if it is neither."""
    try:
        if text.startswith("pdpp://"):
            return record_ids.parse_uri(text)
        ref = record_ids.parse_id(text)
    except ValueError as error:
        raise usage_error(
            f"{text[:80]!r} is not an id: {error}",
            param="ID",
            next_step="Pass an id as pdpp search shows it: CONNECTION/STREAM:RECORD.",
        ) from None
    return ParsedUri("record", ref, connection_id=ref.connection_id)


def _parse_record_argument(text: str) -> tuple[ParsedUri, RecordRef]:
    uri = parse_id_argument(text)
    if uri.record is None:
        next_step = f"pdpp blob {text}" if uri.kind == "blob" else None
        raise usage_error(f"This is the URI of a {uri.kind}.", param="ID", next_step=next_step)
    return uri, uri.record


def select_connection(uri: ParsedUri, option: str | None) -> str | None:
    """Return the connection of the id or of --connection. Raises CliError if they differ."""
    if uri.connection_id and option and uri.connection_id != option:
        raise usage_error(
            f"The id belongs to {uri.connection_id}, not to {option}.", param="--connection"
        )
    return uri.connection_id or option


def _record_path(ref: RecordRef) -> str:
    return f"/v1/streams/{path_segment(ref.stream)}/records/{path_segment(ref.record_id)}"


def _lines(body: dict[str, Any]) -> Iterator[str]:
    yield from record_lines(body)
    for relation, value in (body.get("expanded") or {}).items():
        yield f"{relation}:"
        yield json.dumps(value, ensure_ascii=True, indent=2)


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
    param: ExtraParams = None,
) -> None:
    """Show a window of one field of a record.

    Prints the text to standard output, and the commands for the next windows to standard error.
    """
    uri, ref = _parse_record_argument(record)
    path = path or uri.window.get("field_path")
    if path is None:
        raise usage_error("FIELD is missing.", param="FIELD", next_step="pdpp schema STREAM")
    options = query_params(
        offset_chars=offset,
        q=find,
        occurrence=occurrence,
        before_chars=before,
        after_chars=after,
        limit_chars=limit,
        quote=quote,
    )
    connection_id = select_connection(uri, connection)
    params = query_params(field=path, connection_id=connection_id)
    params += _merge_window(uri.window, options) + extra_params(param)
    body = session.get(f"{_record_path(ref)}/field-window", params)
    shown_ref = RecordRef(connection_id or body.get("connection_id"), ref.stream, ref.record_id)
    _print_window(session, body, record_ids.format_id(shown_ref), path)


def _print_window(session: Session, body: dict[str, Any], record_id: str, path: str) -> None:
    for note in _notes(session, body, record_id, path):
        session.out.note(note)
    text = str(body.get("window", {}).get("text") or "")
    session.out.result(body, [escape_controls(text) if is_stdout_terminal() else text])


def _merge_window(window: dict[str, Any], options: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return the members of a field-window URI that no option overrides, and the options."""
    names = {name for name, _ in options}
    if {"offset_chars", "q"} & names:
        return options
    kept = {name: value for name, value in window.items() if name not in {"field_path", *names}}
    return query_params(**kept) + options


def _notes(session: Session, body: dict[str, Any], record_id: str, path: str) -> Iterator[str]:
    window = body.get("window") or {}
    start, end, total = (window.get(f"{name}_chars") for name in ("start", "end", "total"))
    yield f"{one_line(record_id)} {one_line(path)}: characters {start} to {end} of {total}"
    if verification := body.get("verification"):
        offset = verification.get("found_at_chars")
        position = "" if offset is None else f" at {offset}"
        yield f"quote: {one_line(verification.get('status'))}{position}"
    for label, member in (("before", "previous_offset_chars"), ("next", "next_offset_chars")):
        if (offset := window.get(member)) is not None:
            line = session.command_line("field", record_id, path, "--offset", str(offset))
            yield f"{label}: {line}"
