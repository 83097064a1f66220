"""Parse the conditions of a request, and warn about what they leave out or let in."""

from collections.abc import Sequence

from evidence.access.records import VisibleRecords
from evidence.access.sql import SQL
from evidence.api.query_parameters import ApiWarning, QueryParameters
from evidence.reading.filters import Filter, parameter_name, parse_filters, parse_period

MAX_VALUE_CHARS = 100


def parse_conditions(visible: VisibleRecords, query: QueryParameters) -> list[SQL]:
    """Return the conditions of `filter`, `after` and `before`."""
    period = parse_period(visible, query.text("after"), query.text("before"))
    return [*parse_filters(visible, query.nested("filter")), *period]


def unmatched_warnings(unmatched: Sequence[Filter]) -> list[ApiWarning]:
    """Name each filter that alone leaves no visible record."""
    return [
        ApiWarning(
            "filter_matches_nothing",
            f"No visible record meets {parameter_name(keys)}={value[:MAX_VALUE_CHARS]!r} alone.",
            parameter_name(keys),
        )
        for keys, value in unmatched
    ]


def future_warning(count: int, tomorrow: str) -> ApiWarning:
    """Say how many records of a list are dated in the future, which puts them first."""
    records = "1 record lies" if count == 1 else f"{count} records lie"
    return ApiWarning(
        "records_in_future",
        f"{records} in the future and come first; before={tomorrow} leaves them out.",
        "before",
        {"count": count, "before": tomorrow},
    )
