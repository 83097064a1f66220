"""Indexes of the demo records, cached for the test process."""

import operator
import tomllib
from functools import cache
from typing import Any

from demo import life, people

Key = tuple[str, str, str]
_COMPARE = {"gte": operator.ge, "gt": operator.gt, "lte": operator.le, "lt": operator.lt}


@cache
def records() -> dict[Key, dict[str, Any]]:
    """Return the records by connection_id, stream and key."""
    return {(line["connection_id"], line["stream"], line["key"]): line for line in life.records()}


@cache
def streams() -> dict[tuple[str, str], dict[str, Any]]:
    """Return the stream declarations by connector_key and stream name."""
    return {
        (declaration["connector_key"], stream["name"]): stream
        for declaration in life.declarations()
        for stream in declaration["streams"]
    }


@cache
def texts() -> dict[Key, str]:
    """Return the case-folded searchable text of each record."""
    folded = {}
    for key, line in records().items():
        search = streams()[line["connector_key"], line["stream"]]["query"].get("search", {})
        values = (line["data"].get(name) for name in search.get("lexical_fields", ()))
        folded[key] = "\n".join(value for value in values if value).casefold()
    return folded


def find_record(reference: dict[str, Any]) -> dict[str, Any]:
    """Return the record that a question or a judgment refers to."""
    key = reference["connection_id"], reference["stream"], reference["record_key"]
    return records()[key]


def toml(name: str) -> dict[str, Any]:
    return tomllib.loads((people.HERE / name).read_text(encoding="utf-8"))


def compute_aggregate(aggregate: dict[str, Any]) -> int | float:
    """Return count, sum, min or max of the records that pass every filter."""
    rows = [
        line["data"]
        for line in records().values()
        if (line["connection_id"], line["stream"])
        == (aggregate["connection_id"], aggregate["stream"])
        and all(_passes(line["data"].get(name), test) for name, test in aggregate["filter"].items())
    ]
    if aggregate["metric"] == "count":
        return len(rows)
    values = [row[aggregate["field"]] for row in rows if row.get(aggregate["field"]) is not None]
    result: int | float = {"sum": sum, "min": min, "max": max}[aggregate["metric"]](values)
    return result


def _passes(value: Any, test: Any) -> bool:
    if not isinstance(test, dict):
        return bool(value == test)
    return value is not None and all(_COMPARE[name](value, bound) for name, bound in test.items())
