"""Argument errors name the argument and the expected value."""

from typing import Any

import pytest

from tests.mcp_adapter.fake_rest import FakeRest
from tests.mcp_adapter.hosts import call, error_of


def rest() -> FakeRest:
    return FakeRest(records=[("cin_work", "messages", "m1", {"id": "m1", "subject": "Lease"})])


@pytest.mark.parametrize(
    ("tool", "arguments", "param", "nearest"),
    [
        ("search", {"q": "x", "limt": 3}, "limt", "limit"),
        ("search", {"q": "x", "connection": "cin_work"}, "connection", "connection_id"),
        ("fetch", {"id": "messages:m1", "field": ["a"]}, "field", "fields"),
        ("query_records", {"stream": "messages", "filters": {}}, "filters", "filter"),
        ("query_records", {"stream": "messages", "connector_instance_id": "c"}, None, None),
        ("schema", {"zzz": 1}, "zzz", None),
    ],
)
def test_unknown_argument_is_refused_with_nearest_name(
    tool: str, arguments: dict[str, Any], param: str | None, nearest: str | None
) -> None:
    fake = rest()

    error = error_of(call(fake, tool, **arguments))

    assert error["code"] == "unknown_argument"
    assert param is None or error["param"] == param
    assert nearest is None or error["nearest"] == nearest
    assert fake.calls == []


@pytest.mark.parametrize(
    ("tool", "arguments", "param"),
    [
        ("search", {"q": 7}, "q"),
        ("search", {"q": ""}, "q"),
        ("search", {"q": "x", "limit": "7"}, "limit"),
        ("search", {"q": "x", "limit": 0}, "limit"),
        ("search", {"q": "x", "limit": 101}, "limit"),
        ("search", {"q": "x", "limit": True}, "limit"),
        ("search", {"q": "x", "limit": 2.5}, "limit"),
        ("search", {"q": "x", "streams": "messages"}, "streams"),
        ("search", {"q": "x", "streams": []}, "streams"),
        ("search", {"q": "x", "streams": ["a,b"]}, "streams"),
        ("search", {"q": "x", "mode": "fuzzy"}, "mode"),
        ("search", {"q": "x", "max_bytes": 3_999}, "max_bytes"),
        ("search", {"q": "x", "max_bytes": 50_001}, "max_bytes"),
        ("schema", {"detail": "everything"}, "detail"),
        ("query_records", {"stream": "messages", "order": "up"}, "order"),
        ("query_records", {"stream": ["messages"]}, "stream"),
        ("query_records", {"stream": "messages", "expand_limit": {"a": 0}}, "expand_limit"),
        ("aggregate", {"stream": "messages", "metric": "median"}, "metric"),
        ("aggregate", {"stream": "messages", "metric": "count", "group_by": ""}, "group_by"),
    ],
)
def test_invalid_value_is_refused_with_expected_value(
    tool: str, arguments: dict[str, Any], param: str
) -> None:
    fake = rest()

    error = error_of(call(fake, tool, **arguments))

    assert error["param"] == param
    assert error["type"] == "adapter_error"
    assert "pydantic" not in str(error).lower()
    assert error["next_step"]
    assert fake.calls == []


@pytest.mark.parametrize(
    ("tool", "arguments", "param"),
    [
        ("search", {}, "q"),
        ("fetch", {}, "id"),
        ("query_records", {}, "stream"),
        ("aggregate", {"stream": "messages"}, "metric"),
        ("read_record_field", {"id": "messages:m1"}, "field_path"),
        ("read_record_field", {"field_path": "body"}, "id"),
        ("read_record_field", {"field_path": "body", "stream": "messages"}, "id"),
    ],
)
def test_missing_argument_is_named(tool: str, arguments: dict[str, Any], param: str) -> None:
    assert error_of(call(rest(), tool, **arguments))["param"] == param


@pytest.mark.parametrize(
    "requested",
    [
        "subject=Lease",
        {"filter[subject]": "x"},
        {"subject": {"like": "x"}},
        {"subject": {}},
        {"subject": None},
        {"subject": []},
        {"subject": [["x"]]},
        {"subject": {"ne": "x", "in": []}},
        {"size": {"gte": [1]}},
    ],
)
def test_untyped_filter_is_refused_before_reading(requested: Any) -> None:
    fake = rest()

    error = error_of(call(fake, "query_records", stream="messages", filter=requested))

    assert error["code"] == "invalid_filter"
    assert fake.calls == []


def test_an_empty_filter_is_no_filter() -> None:
    fake = rest()

    assert not call(fake, "query_records", stream="messages", filter={}).is_error
    assert not any(name.startswith("filter") for name in fake.calls[0][1])


def test_null_counts_as_not_given() -> None:
    fake = rest()

    assert not call(fake, "search", q="lease", limit=None, connection_id=None).is_error
    assert "connection_id" not in fake.calls[0][1]


def test_integral_float_is_accepted_as_integer() -> None:
    fake = rest()

    assert not call(fake, "search", q="lease", limit=3.0).is_error
    assert fake.calls[0][1]["limit"] == "3"
