"""Whatever the data, a result keeps within its budget, keeps a way on, and says what it lacks."""

import json
from typing import Any

import mcp_types as types
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from evidence import limits
from mcp_adapter.json_text import size, wire_size
from tests.mcp_adapter.fake_rest import FakeRest
from tests.mcp_adapter.hosts import call, seen, structured, text_of
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
# Beyond 64 bits the resource server has only floats.
INTEGERS = st.integers(-(2**63), 2**63 - 1)
VALUE = st.recursive(
    HOSTILE | INTEGERS | st.none() | st.booleans() | st.text(max_size=40),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
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


def rest(world: list[tuple[str, str, dict[str, Any]]]) -> FakeRest:
    return FakeRest(
        records=[(cid, "messages", key, {"body": "lease", **data}) for cid, key, data in world]
    )


def within(result: types.CallToolResult, *, default: tuple[int, int], most: int | None) -> None:
    """Each channel within its default, or both together within `max_bytes`."""
    text, data = wire_size(text_of(result)), size(structured(result))
    if most is not None:
        assert text + data <= most
    else:
        assert data <= default[0]
        assert text <= default[1]


@THOROUGH
@given(world=WORLD, most=SIZES, limit=st.integers(1, 100))
def test_a_page_of_records(
    world: list[tuple[str, str, dict[str, Any]]], most: int | None, limit: int
) -> None:
    fake = rest(world)
    arguments = {"stream": "messages", "limit": limit, **({"max_bytes": most} if most else {})}

    result = call(fake, "query_records", **arguments)

    assert len(fake.calls) == 1
    within(result, default=(limits.STRUCTURED_BYTES, limits.TEXT_BYTES), most=most)
    shown, data = seen(result), structured(result)["data"]
    assert [each["id"] for each in shown["records"]] == structured(result)["handles"]
    assert len(shown["records"]) >= 1
    assert shown["has_more"] == (len(shown["records"]) < len(world))
    assert shown.get("next_cursor") == data.get("next_cursor")
    for drawn, (_, _, _, original) in zip(shown["records"], fake.records, strict=False):
        _nothing_is_missing_in_silence(drawn, original)


def _nothing_is_missing_in_silence(drawn: dict[str, Any], original: dict[str, Any]) -> None:
    """A field is there unchanged, or is named as cut, or counted among those that are."""
    whole = {
        name for name, value in drawn.get("data", {}).items() if original.get(name, 0) == value
    }
    cut = len(drawn.get("cut", [])) + drawn.get("cut_more", 0)
    assert cut + drawn.get("omitted_fields", 0) >= len(original) - len(whole)


@THOROUGH
@given(world=WORLD, most=SIZES, limit=st.none() | st.integers(1, 100))
def test_a_page_of_hits(
    world: list[tuple[str, str, dict[str, Any]]], most: int | None, limit: int | None
) -> None:
    arguments: dict[str, Any] = {"q": "lease"}
    if most:
        arguments["max_bytes"] = most
    if limit:
        arguments["limit"] = limit

    fake = rest(world)
    result = call(fake, "search", **arguments)

    assert len(fake.calls) == 1
    text = limits.TEXT_BYTES if limit else limits.SEARCH_TEXT_BYTES
    within(result, default=(limits.STRUCTURED_BYTES, text), most=most)
    shown = seen(result)
    results = structured(result)["results"]
    assert [each["id"] for each in shown["results"]] == [each["id"] for each in results]
    assert 1 <= len(results) <= (limit or 100)
    assert shown["has_more"] == ("next_cursor" in shown)


@THOROUGH
@given(world=WORLD, most=SIZES)
def test_a_document(world: list[tuple[str, str, dict[str, Any]]], most: int | None) -> None:
    fake = rest(world)
    shown = seen(call(fake, "query_records", stream="messages", limit=1))["records"][0]["id"]

    fake.calls.clear()
    result = call(fake, "fetch", id=shown, **({"max_bytes": most} if most else {}))

    assert len(fake.calls) == 1
    within(result, default=(limits.READ_BYTES, limits.READ_BYTES), most=most)
    document = structured(result)
    assert json.loads(text_of(result)) == document
    if not document["metadata"]["complete"]:
        step = document["metadata"]["next"]
        assert not call(fake, step["tool"], **step["args"]).is_error


def test_fields_that_are_left_out_of_a_document_come_with_the_call_that_fetches_them() -> None:
    fake = rest([("cin_work", "m1", {f"field_{n}": "\u202e" * 40 for n in range(30)})])

    metadata = structured(call(fake, "fetch", id="cin_work/messages:m1"))["metadata"]

    step, omitted = metadata["next"], metadata["omitted_fields"]
    assert step["tool"] == "fetch"
    assert step["args"]["fields"] == [f"field_{n}" for n in range(30 - omitted, 30)][:10]
    assert not call(fake, step["tool"], **step["args"]).is_error


@THOROUGH
@given(body=HOSTILE, most=SIZES, offset=st.integers(0, 50_000))
def test_a_window(body: str, most: int | None, offset: int) -> None:
    fake = FakeRest(records=[("cin_work", "messages", "m/1", {"body": body})])
    arguments = {
        "connection_id": "cin_work", "stream": "messages", "record_id": "m/1",
        "field_path": "body", "offset_chars": offset, **({"max_bytes": most} if most else {}),
    }  # fmt: skip

    result = call(fake, "read_record_field", **arguments)

    assert len(fake.calls) == 1
    within(result, default=(limits.READ_BYTES, limits.READ_BYTES), most=most)
    window = seen(result)["window"]
    assert window["text"] == body[window["start_chars"] : window["end_chars"]]
    assert window["complete"] == (window["text"] == body)
    assert ("next" in seen(result)) == (window["end_chars"] < len(body))


@THOROUGH
@given(
    groups=st.lists(KEY | HOSTILE, min_size=1, max_size=100, unique=True),
    most=SIZES,
)
def test_groups(groups: list[str], most: int | None) -> None:
    fake = FakeRest(
        records=[("cin_work", "messages", str(n), {"by": group}) for n, group in enumerate(groups)]
    )
    arguments = {"stream": "messages", "metric": "count", "group_by": "by", "limit": 100}

    result = call(fake, "aggregate", **arguments, **({"max_bytes": most} if most else {}))

    within(result, default=(limits.STRUCTURED_BYTES, limits.TEXT_BYTES), most=most)
    body = structured(result)["data"]
    assert len(body["groups"]) + body.get("groups_left_out", 0) == len(groups)


@scenario("D6")
@pytest.mark.parametrize("most", [limits.MAX_BYTES_LEAST, limits.MAX_BYTES_MOST])
def test_ten_thousand_hits_are_met_page_by_page_within_the_budget(most: int) -> None:
    fake = FakeRest(
        records=[
            ("cin_work", "messages", f"m{n}", {"subject": f"S {n}", "body": "the lease " * 9})
            for n in range(10_000)
        ]
    )
    met: list[str] = []
    more: dict[str, str] = {}
    for _ in range(3):
        result = call(fake, "search", q="lease", limit=100, max_bytes=most, **more)
        within(result, default=(0, 0), most=most)
        shown = seen(result)
        met += [each["id"] for each in shown["results"]]
        more = {"cursor": shown["next_cursor"]}

    assert met == [f"cin_work/messages:m{n}" for n in range(len(met))]
    assert shown["count"]["value"] == 10_000


def test_a_record_of_three_thousand_fields_is_shown_with_what_is_left_out() -> None:
    fake = FakeRest(
        records=[("cin_work", "messages", "m1", {f"field_{n}": f"v{n}" for n in range(3_000)})]
    )

    result = call(fake, "query_records", stream="messages")

    within(result, default=(limits.STRUCTURED_BYTES, limits.TEXT_BYTES), most=None)
    (record,) = seen(result)["records"]
    (full,) = structured(result)["data"]["data"]
    assert record["omitted_fields"] == full["omitted_field_count"] == 3_000 - len(full["data"])
    assert full["omitted_fields"]
    assert len(record["data"]) + len(record["cut"]) + record["cut_more"] == len(full["data"])
