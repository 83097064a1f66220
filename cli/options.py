"""Declare the options that commands share, and convert them to REST parameters."""

import re
from collections.abc import Sequence
from typing import Annotated

import typer

from cli.errors import usage_error

_FILTER = re.compile(r"([^\s<>=!~\[\]]+)(?:\s*(>=|<=|!=|~|>|<|=)\s*|\s+(words)\s+)(.*)", re.DOTALL)
_OPERATORS = {">=": "gte", ">": "gt", "<=": "lte", "<": "lt", "!=": "ne", "~": "contains"}

Stream = Annotated[str, typer.Argument(metavar="STREAM", help="A stream; see pdpp streams.")]
Connection = Annotated[
    str | None, typer.Option("--connection", metavar="ID", help="Only this connection.")
]
Fields = Annotated[
    str | None, typer.Option("--fields", metavar="A,B", help="Only these fields of each record.")
]
View = Annotated[str | None, typer.Option("--view", help="A named view instead of --fields.")]
Filters = Annotated[
    list[str] | None,
    typer.Option(
        "--filter",
        metavar="FIELD=VALUE",
        help="Also FIELD>=VALUE, >, <=, <, != (not), ~ (contains) and 'FIELD words WORDS'. "
        "Repeat it for several filters.",
    ),
]
After = Annotated[
    str | None, typer.Option("--after", metavar="TIME", help="Only from this time or date on.")
]
Before = Annotated[
    str | None, typer.Option("--before", metavar="TIME", help="Only before this time or date.")
]
ExtraParams = Annotated[
    list[str] | None,
    typer.Option("--param", metavar="NAME=VALUE", help="Another parameter of the REST API."),
]
Limit = Annotated[int | None, typer.Option("--limit", min=1, help="Page size, at most 100.")]
Cursor = Annotated[str | None, typer.Option("--cursor", help="next_cursor of the previous page.")]
Expand = Annotated[
    list[str] | None,
    typer.Option("--expand", metavar="RELATION", help="Include the records of a relation."),
]
ExpandLimit = Annotated[
    list[str] | None,
    typer.Option("--expand-limit", metavar="RELATION=N", help="At most N records of a relation."),
]


def query_params(**values: object) -> list[tuple[str, str]]:
    """Return parameters for the values that are not None. A list repeats its name."""
    pairs: list[tuple[str, str]] = []
    for name, value in values.items():
        if isinstance(value, list):
            pairs += [(name, str(item)) for item in value]
        elif value is not None:
            pairs.append((name, str(value)))
    return pairs


def filter_params(filters: Sequence[str] | None) -> list[tuple[str, str]]:
    """Convert `size>=10` to `filter[size][gte]=10`. Raises CliError for an invalid filter."""
    return [_filter_param(text) for text in filters or ()]


def _filter_param(text: str) -> tuple[str, str]:
    match = _FILTER.fullmatch(text)
    if match is None:
        raise usage_error(
            f"{text[:80]!r} is not a filter.",
            param="--filter",
            next_step="Write FIELD=VALUE, FIELD>=VALUE, FIELD!=VALUE, FIELD~PART or "
            "'FIELD words WORDS', quoted for the shell.",
        )
    field, sign, words, value = match.groups()
    operator = words or _OPERATORS.get(sign)
    return (f"filter[{field}][{operator}]" if operator else f"filter[{field}]"), value


def extra_params(values: Sequence[str] | None) -> list[tuple[str, str]]:
    """Return the parameters of `--param NAME=VALUE`."""
    return [_name_and_value(text, "--param") for text in values or ()]


def expand_params(
    relations: Sequence[str] | None, limits: Sequence[str] | None
) -> list[tuple[str, str]]:
    """Return the parameters of `--expand` and `--expand-limit`."""
    pairs = [("expand", relation) for relation in relations or ()]
    limit_pairs = [_name_and_value(text, "--expand-limit") for text in limits or ()]
    return [*pairs, *((f"expand_limit[{relation}]", limit) for relation, limit in limit_pairs)]


def _name_and_value(text: str, option: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not sign or not name:
        raise usage_error(f"{text[:80]!r} is not NAME=VALUE.", param=option)
    return name, value
