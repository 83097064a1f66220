"""`pdpp aggregate STREAM METRIC`: numbers over a stream, never its records."""

from collections.abc import Iterator
from typing import Annotated, Any

import typer

from cli.options import Connection, Filters, Given, Stream, filters, given, params
from cli.output import line, table
from cli.references import segment
from cli.session import Session, command

METRIC = typer.Argument(metavar="METRIC", help="count, sum, min, max or count_distinct.")
GRANULARITY = typer.Option("--granularity", help="minute, hour, day, week, month, quarter, year.")


@command
def aggregate(
    session: Session,
    stream: Stream,
    metric: Annotated[str, METRIC] = "count",
    *,
    field: Annotated[str | None, typer.Option("--field", help="Of which the metric is.")] = None,
    by: Annotated[str | None, typer.Option("--by", metavar="FIELD", help="Group by it.")] = None,
    by_time: Annotated[str | None, typer.Option("--by-time", metavar="FIELD")] = None,
    granularity: Annotated[str | None, GRANULARITY] = None,
    time_zone: Annotated[
        str | None, typer.Option("--time-zone", help="Such as Asia/Tokyo.")
    ] = None,
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="Groups shown.")] = None,
    filter_: Filters = None,
    connection: Connection = None,
    param: Given = None,
) -> None:
    """Count, sum or compare records, whole or in groups."""
    asked = params(
        metric=metric,
        field=field,
        group_by=by,
        group_by_time=by_time,
        granularity=granularity,
        time_zone=time_zone,
        limit=limit,
        connection_id=connection,
    )
    body = session.get(
        f"/v1/streams/{segment(stream)}/aggregate", asked + filters(filter_) + given(param)
    )
    session.out.body(body, _people(body))


def _people(body: dict[str, Any]) -> Iterator[str]:
    groups = body.get("groups")
    if groups is None:
        yield line(body.get("value"))
        return
    names = ["key", "count"] if body.get("metric") == "count" else ["key", "value", "count"]
    heads = {
        "key": str(body.get("group_by") or body.get("group_by_time")),
        "value": f"{body.get('metric')} of {body.get('field')}",
        "count": "count",
    }
    rows = [tuple(group.get(name) for name in names) for group in groups]
    yield from table([heads[name].upper() for name in names], rows)
    if body.get("other_count"):
        yield f"and {body['other_count']} in further groups"
