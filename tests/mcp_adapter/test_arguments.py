"""Strict arguments: what is wrong is named, in our own words."""

from typing import Any

import pytest

from tests.mcp_adapter.fake_rest import FakeRest
from tests.mcp_adapter.hosts import call, refusal


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
def test_an_unknown_argument_is_refused_with_the_nearest_valid_one(
    tool: str, arguments: dict[str, Any], param: str | None, nearest: str | None
) -> None:
    fake = rest()

    error = refusal(call(fake, tool, **arguments))

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
    ],
)
def test_a_wrong_value_is_refused_with_what_it_must_be(
    tool: str, arguments: dict[str, Any], param: str
) -> None:
    fake = rest()

    error = refusal(call(fake, tool, **arguments))

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
def test_a_missing_argument_is_named(tool: str, arguments: dict[str, Any], param: str) -> None:
    assert refusal(call(rest(), tool, **arguments))["param"] == param


@pytest.mark.parametrize(
    "wanted",
    [
        "subject=Lease",
        {},
        {"filter[subject]": "x"},
        {"subject": {"like": "x"}},
        {"subject": {}},
        {"subject": None},
        {"subject": ["x"]},
        {"size": {"gte": [1]}},
    ],
)
def test_an_untyped_filter_is_refused_before_anything_is_read(wanted: Any) -> None:
    fake = rest()

    error = refusal(call(fake, "query_records", stream="messages", filter=wanted))

    assert error["code"] == "invalid_filter"
    assert fake.calls == []


def test_a_null_is_an_argument_that_was_not_given() -> None:
    fake = rest()

    assert not call(fake, "search", q="lease", limit=None, connection_id=None).is_error
    assert "connection_id" not in fake.calls[0][1]


def test_a_whole_number_may_come_as_a_float() -> None:
    fake = rest()

    assert not call(fake, "search", q="lease", limit=3.0).is_error
    assert fake.calls[0][1]["limit"] == "3"
