"""From options to REST parameters."""

import re
from collections.abc import Sequence
from typing import Annotated

import typer

from cli.errors import usage

_FILTER = re.compile(r"([^\s<>=\[\]]+)\s*(>=|<=|>|<|=)\s*(.*)", re.DOTALL)
_OPERATORS = {">=": "gte", ">": "gt", "<=": "lte", "<": "lt"}

Stream = Annotated[str, typer.Argument(metavar="STREAM", help="As pdpp streams shows it.")]
Connection = Annotated[
    str | None, typer.Option("--connection", metavar="ID", help="Of this connection only.")
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
        help="Also FIELD>=VALUE, >, <= and <. May be given several times.",
    ),
]
Given = Annotated[
    list[str] | None,
    typer.Option("--param", metavar="NAME=VALUE", help="A parameter of the REST API as it is."),
]
Limit = Annotated[int | None, typer.Option("--limit", min=1, help="How many, at most 100.")]
Cursor = Annotated[str | None, typer.Option("--cursor", help="next_cursor of the page before.")]
Expand = Annotated[
    list[str] | None, typer.Option("--expand", metavar="RELATION", help="Include what it leads to.")
]
ExpandLimit = Annotated[
    list[str] | None,
    typer.Option("--expand-limit", metavar="RELATION=N", help="At most N of the relation."),
]


def params(**named: object) -> list[tuple[str, str]]:
    """The parameters that were given; a list repeats its name."""
    pairs: list[tuple[str, str]] = []
    for name, value in named.items():
        if isinstance(value, list):
            pairs += [(name, str(each)) for each in value]
        elif value is not None:
            pairs.append((name, str(value)))
    return pairs


def filters(given: Sequence[str] | None) -> list[tuple[str, str]]:
    """`size>=10` as `filter[size][gte]=10`; a `Failure` of usage for what is no filter."""
    return [_filter(each) for each in given or ()]


def _filter(text: str) -> tuple[str, str]:
    found = _FILTER.fullmatch(text)
    if found is None:
        raise usage(
            f"{text[:80]!r} is no filter.",
            param="--filter",
            next_step="Write FIELD=VALUE or FIELD>=VALUE, quoted for the shell.",
        )
    field, sign, value = found.groups()
    operator = _OPERATORS.get(sign)
    return (f"filter[{field}][{operator}]" if operator else f"filter[{field}]"), value


def given(raw: Sequence[str] | None) -> list[tuple[str, str]]:
    """`--param NAME=VALUE`, passed on as it is."""
    return [_pair(each, "--param") for each in raw or ()]


def expansions(expand: Sequence[str] | None, limits: Sequence[str] | None) -> list[tuple[str, str]]:
    """Relations to include and how much of each."""
    pairs = [("expand", relation) for relation in expand or ()]
    bounds = [_pair(each, "--expand-limit") for each in limits or ()]
    return [*pairs, *((f"expand_limit[{relation}]", most) for relation, most in bounds)]


def _pair(text: str, option: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not sign or not name:
        raise usage(f"{text[:80]!r} has no NAME=VALUE.", param=option)
    return name, value
