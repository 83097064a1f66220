"""`pdpp fetch ID`: one record."""

import json
from collections.abc import Iterator
from typing import Annotated, Any

import typer

from evidence.cli import references
from evidence.cli.asking import (
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
from evidence.cli.failures import usage
from evidence.cli.records import record_lines
from evidence.cli.references import Reference
from evidence.cli.session import Session, command

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
