"""Results fit their budget for any data, offer a next step, and name what is missing."""

import json
from typing import Any

import mcp_types as types
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from evidence import limits
from evidence.page_cutter import json_size, wire_size
from tests.mcp_adapter.fake_rest import FakeRest
from tests.mcp_adapter.hosts import call, parsed_text, structured, text_of
from tests.scenarios import scenario

HOSTILE = st.sampled_from(
    [
        "x" * 100_000,
        "日本語" * 8_000,
        "👩‍👩‍👧‍👦" * 2_000,
        '"\\\n\t' * 4_000,
        "\u202e\U000e0041" * 3_000,
        "ordinary words in a row",
        "",
    ]
)
# The REST API has only floats beyond 64 bits.
INTEGERS = st.integers(-(2**63), 2**63 - 1)
VALUE = st.recursive(
    HOSTILE | INTEGERS | st.none() | st.booleans() | st.text(max_size=40),
    lambda member: st.lists(member, max_size=3) | st.dictionaries(st.text(max_size=8), member, max_size=3),
    max_leaves=6,
)  # fmt: skip
KEY = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=60)
NAME = st.text("abcdefghij_é", min_size=1, max_size=40)
RECORD = st.tuples(
    st.sampled_from(["cin_work", "cin_home"]), KEY, st.dictionaries(NAME, VALUE, max_size=8)
)
WORLD = st.lists(RECORD, min_size=1, max_size=40, unique_by=lambda record: record[:2])
SIZES = st.none() | st.integers(limits.MAX_BYTES_LEAST, limits.MAX_BYTES_MOST)
THOROUGH = settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)  # fmt: skip


def rest_with(world: list[tuple[str, str, dict[str, Any]]]) -> FakeRest:
    return FakeRest(
        records=[(cid, "messages", key, {"body": "lease", **data}) for cid, key, data in world]
    )


def assert_fits(
    result: types.CallToolResult, *, default: tuple[int, int], max_bytes: int | None
) -> None:
    """Assert that each channel fits its default, or `max_bytes`.

    Where the defaults differ, they are also the least: both channels show the same page.
    """
    text, data = wire_size(text_of(result)), json_size(structured(result))
    least = (0, 0) if default[0] == default[1] else default
    assert data <= max(max_bytes or default[0], least[0])
    assert text <= max(max_bytes or default[1], least[1])


@THOROUGH
@given(world=WORLD, max_bytes=SIZES, limit=st.integers(1, 100))
def test_record_page_fits_the_budget_and_names_what_is_missing(
    world: list[tuple[str, str, dict[str, Any]]], max_bytes: int | None, limit: int
) -> None:
    fake = rest_with(world)
    arguments = {
        "stream": "messages",
        "limit": limit,
        **({"max_bytes": max_bytes} if max_bytes else {}),
    }

    result = call(fake, "query_records", **arguments)

    assert len(fake.calls) == 1
    assert_fits(result, default=(limits.STRUCTURED_BYTES, limits.TEXT_BYTES), max_bytes=max_bytes)
    output, data = parsed_text(result), structured(result)["data"]
    assert [item["id"] for item in output["records"]] == structured(result)["handles"]
    assert len(output["records"]) >= 1
    assert output["has_more"] == (len(output["records"]) < len(world))
    assert output.get("next_cursor") == data.get("next_cursor")
    for rendered, (_, _, _, original) in zip(output["records"], fake.records, strict=False):
        _assert_missing_fields_are_counted(rendered, original)


def _assert_missing_fields_are_counted(rendered: dict[str, Any], original: dict[str, Any]) -> None:
    """Assert that each field is unchanged, or counted as cut or omitted."""
    complete = {
        name for name, value in rendered.get("data", {}).items() if original.get(name, 0) == value
    }
    cut = len(rendered.get("cut", [])) + rendered.get("cut_more", 0)
    assert cut + rendered.get("omitted_fields", 0) >= len(original) - len(complete)


@THOROUGH
@given(world=WORLD, max_bytes=SIZES, limit=st.none() | st.integers(1, 100))
def test_search_page_fits_the_budget(
    world: list[tuple[str, str, dict[str, Any]]], max_bytes: int | None, limit: int | None
) -> None:
    arguments: dict[str, Any] = {"q": "lease"}
    if max_bytes:
        arguments["max_bytes"] = max_bytes
    if limit:
        arguments["limit"] = limit

    fake = rest_with(world)
    result = call(fake, "search", **arguments)

    assert len(fake.calls) == 1
    default = (limits.SEARCH_STRUCTURED_BYTES, limits.SEARCH_TEXT_BYTES)
    assert_fits(result, default=default, max_bytes=max_bytes)
    output = parsed_text(result)
    results = structured(result)["results"]
    assert [item["id"] for item in output["results"]] == [item["id"] for item in results]
    assert 1 <= len(results) <= (limit or 100)
    assert output["has_more"] == ("next_cursor" in output)


@THOROUGH
@given(world=WORLD, max_bytes=SIZES)
def test_document_fits_the_budget(
    world: list[tuple[str, str, dict[str, Any]]], max_bytes: int | None
) -> None:
    fake = rest_with(world)
    record_id = parsed_text(call(fake, "query_records", stream="messages", limit=1))["records"][0][
        "id"
    ]

    fake.calls.clear()
    result = call(fake, "fetch", id=record_id, **({"max_bytes": max_bytes} if max_bytes else {}))

    assert len(fake.calls) == 1
    assert_fits(result, default=(limits.READ_BYTES, limits.READ_BYTES), max_bytes=max_bytes)
    document = structured(result)
    assert json.loads(text_of(result)) == document
    if not document["metadata"]["complete"]:
        step = document["metadata"]["next"]
        assert not call(fake, step["tool"], **step["args"]).is_error


def test_fields_that_are_left_out_of_a_document_come_with_the_call_that_fetches_them() -> None:
    fake = rest_with([("cin_work", "m1", {f"field_{n}": "\u202e" * 40 for n in range(30)})])

    metadata = structured(call(fake, "fetch", id="cin_work/messages:m1"))["metadata"]

    step, omitted = metadata["next"], metadata["omitted_fields"]
    assert step["tool"] == "fetch"
    assert step["args"]["fields"] == [f"field_{n}" for n in range(30 - omitted, 30)][:10]
    assert not call(fake, step["tool"], **step["args"]).is_error


@THOROUGH
@given(body=HOSTILE, max_bytes=SIZES, offset=st.integers(0, 50_000))
def test_window_fits_the_budget(body: str, max_bytes: int | None, offset: int) -> None:
    fake = FakeRest(records=[("cin_work", "messages", "m/1", {"body": body})])
    arguments = {
        "connection_id": "cin_work", "stream": "messages", "record_id": "m/1",
        "field_path": "body", "offset_chars": offset, **({"max_bytes": max_bytes} if max_bytes else {}),
    }  # fmt: skip

    result = call(fake, "read_record_field", **arguments)

    assert len(fake.calls) == 1
    assert_fits(result, default=(limits.READ_BYTES, limits.READ_BYTES), max_bytes=max_bytes)
    window = parsed_text(result)["window"]
    assert window["text"] == body[window["start_chars"] : window["end_chars"]]
    assert window["complete"] == (window["text"] == body)
    assert ("next" in parsed_text(result)) == (window["end_chars"] < len(body))


@THOROUGH
@given(
    groups=st.lists(KEY | HOSTILE, min_size=1, max_size=100, unique=True),
    max_bytes=SIZES,
)
def test_aggregate_fits_the_budget(groups: list[str], max_bytes: int | None) -> None:
    fake = FakeRest(
        records=[("cin_work", "messages", str(n), {"by": group}) for n, group in enumerate(groups)]
    )
    arguments = {"stream": "messages", "metric": "count", "group_by": "by", "limit": 100}

    result = call(fake, "aggregate", **arguments, **({"max_bytes": max_bytes} if max_bytes else {}))

    assert_fits(result, default=(limits.STRUCTURED_BYTES, limits.TEXT_BYTES), max_bytes=max_bytes)
    body = structured(result)["data"]
    assert len(body["groups"]) + body.get("groups_left_out", 0) == len(groups)


@scenario("D6")
@pytest.mark.parametrize("max_bytes", [limits.MAX_BYTES_LEAST, limits.MAX_BYTES_MOST])
def test_pages_of_many_hits_fit_the_budget(max_bytes: int) -> None:
    fake = FakeRest(
        records=[
            ("cin_work", "messages", f"m{n}", {"subject": f"S {n}", "body": "the lease " * 9})
            for n in range(10_000)
        ]
    )
    ids: list[str] = []
    extra: dict[str, str] = {}
    for _ in range(3):
        result = call(fake, "search", q="lease", limit=100, max_bytes=max_bytes, **extra)
        default = (limits.SEARCH_STRUCTURED_BYTES, limits.SEARCH_TEXT_BYTES)
        assert_fits(result, default=default, max_bytes=max_bytes)
        output = parsed_text(result)
        ids += [item["id"] for item in output["results"]]
        extra = {"cursor": output["next_cursor"]}

    assert ids == [f"cin_work/messages:m{n}" for n in range(len(ids))]
    assert output["count"]["value"] == 10_000


def test_record_with_many_fields_counts_omitted_fields() -> None:
    fake = FakeRest(
        records=[("cin_work", "messages", "m1", {f"field_{n}": f"v{n}" for n in range(3_000)})]
    )

    result = call(fake, "query_records", stream="messages")

    assert_fits(result, default=(limits.STRUCTURED_BYTES, limits.TEXT_BYTES), max_bytes=None)
    (record,) = parsed_text(result)["records"]
    (full,) = structured(result)["data"]["data"]
    assert record["omitted_fields"] == full["omitted_field_count"] == 3_000 - len(full["data"])
    assert record["data"] == full["data"]
    step = parsed_text(result)["next"]["read"]
    assert step["args"]["fields"] == full["omitted_fields"]
    assert not call(fake, step["tool"], **step["args"]).is_error
