"""`pdpp aggregate STREAM METRIC`: count, sum or group the records of a stream."""

from collections.abc import Iterator
from typing import Annotated, Any

import typer

from cli.output import one_line, table
from cli.session import (
    After,
    Before,
    Connection,
    Cursor,
    ExtraParams,
    Filters,
    Session,
    Stream,
    command,
    extra_params,
    filter_params,
    query_params,
)
from evidence.record_ids import path_segment

FIELD = typer.Option("--field", help="The field to sum or compare.")
GROUP_BY = typer.Option("--by", metavar="FIELD", help="Group by this field, or two: A,B.")
METRIC = typer.Argument(metavar="METRIC", help="count, sum, avg, min, max or count_distinct.")
METRICS = typer.Option("--metrics", metavar="A,B", help="Several, such as count,avg:amount.")
TIME_ZONE = typer.Option("--time-zone", help="For example Asia/Tokyo.")
SORT = typer.Option(
    "--sort", metavar="KEY", help="key or a metric; -KEY sorts in descending order."
)
GRANULARITY = typer.Option("--granularity", help="minute, hour, day, week, month, quarter, year.")


@command
def aggregate(
    session: Session,
    stream: Stream,
    metric: Annotated[str | None, METRIC] = None,
    *,
    metrics: Annotated[str | None, METRICS] = None,
    field: Annotated[str | None, FIELD] = None,
    by: Annotated[str | None, GROUP_BY] = None,
    by_time: Annotated[str | None, typer.Option("--by-time", metavar="FIELD")] = None,
    granularity: Annotated[str | None, GRANULARITY] = None,
    time_zone: Annotated[str | None, TIME_ZONE] = None,
    sort: Annotated[str | None, SORT] = None,
    cursor: Cursor = None,
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="Number of groups.")] = None,
    after: After = None,
    before: Before = None,
    filter_: Filters = None,
    connection: Connection = None,
    param: ExtraParams = None,
) -> None:
    """Count, sum or compare records, in total or by group."""
    params = query_params(
        metric=metric or (None if metrics else "count"),
        metrics=metrics,
        field=field,
        group_by=by,
        group_by_time=by_time,
        granularity=granularity,
        time_zone=time_zone,
        sort=sort,
        cursor=cursor,
        limit=limit,
        after=after,
        before=before,
        connection_id=connection,
    )
    params += filter_params(filter_) + extra_params(param)
    body = session.get(f"/v1/streams/{path_segment(stream)}/aggregate", params)
    session.out.result(body, _lines(body))


def _lines(body: dict[str, Any]) -> Iterator[str]:
    groups = body.get("groups")
    if groups is None:
        values = body.get("values") or {"": body.get("value")}
        yield from (one_line(f"{name} {value}".strip()) for name, value in values.items())
        return
    keys = [*str(body.get("group_by") or "").split(","), body.get("group_by_time")]
    headings = [str(key).upper() for key in keys if key]
    yield from table([*headings, *_measures(body)], [_row(body, group) for group in groups])
    if body.get("other_count"):
        yield f"and {body['other_count']} in other groups"
    if body.get("next_cursor"):
        yield f"--cursor {one_line(body['next_cursor'])}"


def _measures(body: dict[str, Any]) -> list[str]:
    if metrics := body.get("metrics"):
        return [str(metric).upper() for metric in metrics]
    value = [f"{body.get('metric')} of {body.get('field')}".upper()]
    return [*([] if body.get("metric") == "count" else value), "COUNT"]


def _row(body: dict[str, Any], group: dict[str, Any]) -> tuple[Any, ...]:
    keys = group["keys"] if "keys" in group else [group.get("key")]
    if "values" in group:
        return (*keys, *group["values"].values())
    value = [] if body.get("metric") == "count" else [group.get("value")]
    return (*keys, *value, group.get("count"))
