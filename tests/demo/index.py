"""The generated life, once for each test process, and how questions and judgements name records."""

import operator
import tomllib
from functools import cache
from typing import Any

from demo import cast, life

Key = tuple[str, str, str]
_COMPARE = {"gte": operator.ge, "gt": operator.gt, "lte": operator.le, "lt": operator.lt}


@cache
def records() -> dict[Key, dict[str, Any]]:
    """(connection_id, stream, key) -> the whole line."""
    return {(line["connection_id"], line["stream"], line["key"]): line for line in life.records()}


@cache
def streams() -> dict[tuple[str, str], dict[str, Any]]:
    """(connector_key, stream) -> the stream's declaration."""
    return {
        (declaration["connector_key"], stream["name"]): stream
        for declaration in life.declarations()
        for stream in declaration["streams"]
    }


@cache
def texts() -> dict[Key, str]:
    """Every record's searchable text, folded for comparing."""
    folded = {}
    for key, line in records().items():
        search = streams()[line["connector_key"], line["stream"]]["query"].get("search", {})
        values = (line["data"].get(name) for name in search.get("lexical_fields", ()))
        folded[key] = "\n".join(value for value in values if value).casefold()
    return folded


def named(reference: dict[str, Any]) -> dict[str, Any]:
    """The record that a question or a judgement points at."""
    key = reference["connection_id"], reference["stream"], reference["record_key"]
    return records()[key]


def toml(name: str) -> dict[str, Any]:
    return tomllib.loads((cast.HERE / name).read_text(encoding="utf-8"))


def aggregated(wanted: dict[str, Any]) -> int | float:
    """count, sum, min or max over the records that pass every filter."""
    rows = [
        line["data"]
        for line in records().values()
        if (line["connection_id"], line["stream"]) == (wanted["connection_id"], wanted["stream"])
        and all(_passes(line["data"].get(name), test) for name, test in wanted["filter"].items())
    ]
    if wanted["metric"] == "count":
        return len(rows)
    values = [row[wanted["field"]] for row in rows if row.get(wanted["field"]) is not None]
    result: int | float = {"sum": sum, "min": min, "max": max}[wanted["metric"]](values)
    return result


def _passes(value: Any, test: Any) -> bool:
    if not isinstance(test, dict):
        return bool(value == test)
    return value is not None and all(_COMPARE[name](value, bound) for name, bound in test.items())
