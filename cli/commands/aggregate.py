"""`pdpp aggregate STREAM METRIC`: count, sum or group the records of a stream."""

from collections.abc import Iterator
from typing import Annotated, Any

import typer

from cli.options import (
    Connection,
    ExtraParams,
    Filters,
    Stream,
    extra_params,
    filter_params,
    query_params,
)
from cli.output import one_line, table
from cli.session import Session, command
from evidence.record_ids import path_segment

METRIC = typer.Argument(metavar="METRIC", help="count, sum, min, max or count_distinct.")
GRANULARITY = typer.Option("--granularity", help="minute, hour, day, week, month, quarter, year.")


@command
def aggregate(
    session: Session,
    stream: Stream,
    metric: Annotated[str, METRIC] = "count",
    *,
    field: Annotated[
        str | None, typer.Option("--field", help="The field to sum or compare.")
    ] = None,
    by: Annotated[
        str | None, typer.Option("--by", metavar="FIELD", help="Group by this field.")
    ] = None,
    by_time: Annotated[str | None, typer.Option("--by-time", metavar="FIELD")] = None,
    granularity: Annotated[str | None, GRANULARITY] = None,
    time_zone: Annotated[
        str | None, typer.Option("--time-zone", help="For example Asia/Tokyo.")
    ] = None,
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="Number of groups.")] = None,
    filter_: Filters = None,
    connection: Connection = None,
    param: ExtraParams = None,
) -> None:
    """Count, sum or compare records, in total or by group."""
    params = query_params(
        metric=metric,
        field=field,
        group_by=by,
        group_by_time=by_time,
        granularity=granularity,
        time_zone=time_zone,
        limit=limit,
        connection_id=connection,
    )
    params += filter_params(filter_) + extra_params(param)
    body = session.get(f"/v1/streams/{path_segment(stream)}/aggregate", params)
    session.out.result(body, _lines(body))


def _lines(body: dict[str, Any]) -> Iterator[str]:
    groups = body.get("groups")
    if groups is None:
        yield one_line(body.get("value"))
        return
    names = ["key", "count"] if body.get("metric") == "count" else ["key", "value", "count"]
    headings = {
        "key": str(body.get("group_by") or body.get("group_by_time")),
        "value": f"{body.get('metric')} of {body.get('field')}",
        "count": "count",
    }
    rows = [tuple(group.get(name) for name in names) for group in groups]
    yield from table([headings[name].upper() for name in names], rows)
    if body.get("other_count"):
        yield f"and {body['other_count']} in other groups"
