"""What a budget cuts is said, with a call that goes on, and no answer exceeds its budget."""

import json
from typing import Any

import pytest

from evidence import limits
from evidence.access.grant_terms import StreamRequest
from evidence.access.grants import GrantRequest
from evidence.page_cutter import dumps, json_size
from evidence.record_ids import RecordRef
from tests.mcp_adapter import real
from tests.mcp_adapter.hosts import error_of, parsed_text, structured
from tests.uris import field_window_uri
from tests.world import MAIL, PERSONAL, World, mail

pytestmark = pytest.mark.django_db

WIDE = "cin_wide"
TEXT = {"type": ["string", "null"]}


def wide() -> dict[str, Any]:
    names = [f"metric_number_{n}" for n in range(302)]
    fields = {"id": {"type": "string"}, "tree": {"type": ["object", "null"]}} | dict.fromkeys(
        names, TEXT
    )
    keys = {
        "primary_key": ["id"],
        "semantics": "mutable_state",
        "selection": {"fields": True, "resources": True},
    }
    rows = {
        "name": "rows", "description": "Rows.", **keys,
        "schema": {"type": "object", "required": ["id"], "properties": fields},
        "query": {"aggregations": {"count": True, "group_by": ["metric_number_1"]}},
    }  # fmt: skip
    links = {
        "name": "links", "description": "Links.", **keys,
        "schema": {"type": "object", "required": ["id"], "properties": {"id": {"type": "string"}, "row": TEXT}},
        "relationships": [{"name": "row", "stream": "rows", "foreign_key": "row", "cardinality": "has_one"}],
        "query": {"expand": [{"name": "row"}]},
    }  # fmt: skip
    return MAIL | {
        "connector_id": "https://registry.example/connectors/wide",
        "connector_key": "wide",
        "display_name": "Wide",
        "streams": [rows, links],
    }


@pytest.fixture
def bearer(world: World) -> str:
    world.declare(wide())
    world.connect(WIDE, "wide", "Wide")
    tree = {"a": ["x" * 100] * 90, "b": {"c": "d"}}
    values = {f"metric_number_{n}": f"value {n} " * 12 for n in range(302)}
    world.put((WIDE, "rows", {"id": "r1", "tree": tree, **values}))
    world.put((WIDE, "links", {"id": "l1", "row": "r1"}))
    streams = [StreamRequest(name="rows"), StreamRequest(name="links")]
    world.grant("wide", GrantRequest(connection_ids=[WIDE], streams=streams))
    return world.tokens["wide@mcp"]


def test_groups_with_long_keys_end(world: World, bearer: str) -> None:
    world.put(*(
        (WIDE, "rows", {"id": f"g{n}", "metric_number_1": chr(65 + n) + "k" * 100_000}) for n in range(4)
    ))  # fmt: skip
    step: Any = {"args": {"stream": "rows", "metric": "count", "group_by": "metric_number_1"}}
    keys: list[str] = []
    for _ in range(20):
        output = structured(real.call(bearer, "aggregate", **step["args"]))
        keys += [group["key"][0] for group in output["data"]["groups"]]
        step = output["next"].get("page")
        if not step:
            break

    assert sorted(keys) == ["A", "B", "C", "D", "v"]
    rest = world.get("/v1/streams/rows/aggregate", who="wide", metric="count",
                     group_by="metric_number_1", max_bytes=9_000)  # fmt: skip
    assert json_size(rest.body) <= 9_000
    assert [group.get("cut", False) for group in rest.body["groups"]] == [True] * 4 + [False]


def test_a_count_with_several_warnings_is_shown(world: World) -> None:
    nothing = {
        "from_name": "Nobody Nowhere",
        "subject": "nothing whatsoever",
        "from_email": "x@y.example",
    }

    result = real.call(world.tokens["dora@mcp"], "aggregate", stream="messages", metric="count",
                       connection_id=PERSONAL, filter=nothing)  # fmt: skip

    shown = parsed_text(result)
    assert (shown["value"], shown["warnings"]) == (0, ["filter_matches_nothing"])


def test_long_arguments_leave_room_for_records(world: World) -> None:
    bearer = world.tokens["dora@mcp"]
    world.put(*((PERSONAL, "messages", mail(f"x{n}", "2026-04-01T00:00:00Z", subject="Lease signed"))
                for n in range(3)))  # fmt: skip
    words = [f"word {n} of a long list that goes on" for n in range(60)]
    asked = {"stream": "messages", "connection_id": PERSONAL, "limit": 2,
             "filter": {"subject": {"in": ["Lease signed", *words]}}}  # fmt: skip

    first = real.call(bearer, "query_records", **asked)

    assert [record["data"]["subject"] for record in parsed_text(first)["records"]] == [
        "Lease signed"
    ] * 2
    assert all("omitted_fields" not in record for record in parsed_text(first)["records"])
    step = structured(first)["next"]["page"]
    assert step["with_the_same"] == ["filter"]
    onward = real.call(bearer, step["tool"], **step["args"], filter=asked["filter"])
    assert len(parsed_text(onward)["records"]) == 2
    assert error_of(real.call(bearer, step["tool"], **step["args"]))["code"] == "invalid_cursor"


def test_an_expanded_record_counts_for_the_budget(world: World, bearer: str) -> None:
    answer = world.get("/v1/streams/links/records", who="wide", expand="row", max_bytes=9_000)

    (link,) = answer.body["data"]
    shown = link["expanded"]["row"]
    assert json_size(answer.body) <= 9_000
    assert len(shown["data"]) + shown["omitted_field_count"] == 304
    document = structured(real.call(bearer, "fetch", id=f"{WIDE}/links:l1", expand=["row"]))
    assert document["metadata"]["complete"] is False


def test_a_large_stream_is_a_bounded_resource(bearer: str) -> None:
    uri = f"pdpp://stream/rows?connection_id={WIDE}"

    (content,) = real.ask(bearer, lambda client: client.read_resource(uri)).contents

    assert len(content.text.encode()) <= limits.MAX_BYTES_MOST
    assert "metric_number_301" in content.text


def test_a_cut_tree_shows_its_beginning_type_and_size(bearer: str) -> None:
    result = real.call(bearer, "query_records", stream="rows", fields=["id", "tree"])

    (record,) = parsed_text(result)["records"]
    assert record["data"]["tree"].startswith('{"a": ["xxx')
    tree = structured(result)["data"]["data"][0]["data"]["tree"]
    read = tree["read"]
    window = structured(real.call(bearer, read["tool"], **read["args"]))
    assert window["window"]["text"].startswith(tree["preview"])
    assert (tree["type"], tree["total_bytes"]) == ("object", window["field"]["size_bytes"])
    assert tree["total_chars"] == window["window"]["total_chars"]


def test_omitted_fields_come_with_the_calls_that_name_and_read_them(bearer: str) -> None:
    metadata = structured(real.call(bearer, "fetch", id=f"{WIDE}/rows:r1"))["metadata"]

    assert metadata["omitted_fields"] > 100
    read, names = metadata["fields_left_out"]["read"], metadata["fields_left_out"]["names"]
    assert len(structured(real.call(bearer, read["tool"], **read["args"]))["text"]) > 500
    assert "metric_number_1" in dumps(structured(real.call(bearer, names["tool"], **names["args"])))


def test_expanded_lists_that_show_some_come_with_the_call_that_lists_all(world: World) -> None:
    bearer = world.tokens["dora@mcp"]
    world.put(*((PERSONAL, "messages", mail(f"x{n}", "2026-04-01T00:00:00Z", thread_id="t1"))
                for n in range(6)))  # fmt: skip
    asked = {"expand": ["messages"], "expand_limit": {"messages": 3}}
    listed = real.call(bearer, "query_records", stream="threads", **asked)
    document = structured(real.call(bearer, "fetch", id=f"{PERSONAL}/threads:t1", **asked))

    in_text = parsed_text(listed)["records"][0]["expanded"]["messages"]
    in_data = structured(listed)["data"]["data"][0]["expanded"]["messages"]
    fetched = document["metadata"]["expanded"]["messages"]
    assert document["metadata"]["complete"] is False
    assert in_text["has_more"]
    assert in_text["read"] == in_data["read"] == fetched["read"]
    children = real.call(bearer, in_text["read"]["tool"], **in_text["read"]["args"])
    assert len(parsed_text(children)["records"]) == 8


def test_a_window_that_ends_early_says_how_to_read_on(world: World) -> None:
    bearer = world.tokens["dora@mcp"]
    world.put(
        (PERSONAL, "messages", mail("huge", "2026-04-01T00:00:00Z", body_text="abcde " * 4_000))
    )
    uri = field_window_uri(
        RecordRef(PERSONAL, "messages", "huge"), window={"field_path": "body_text"}
    )

    text, extent = real.ask(bearer, lambda client: client.read_resource(uri)).contents

    told = json.loads(extent.text)
    assert told["window"] == {"start_chars": 0, "end_chars": len(text.text), "total_chars": 24_000}
    onward = structured(real.call(bearer, told["next"]["tool"], **told["next"]["args"]))
    assert onward["window"]["start_chars"] == len(text.text)


@pytest.mark.parametrize(
    ("tool", "asked"),
    [
        ("query_records", {"stream": "messages", "connection_id": PERSONAL}),
        ("query_records", {"stream": "messages", "connection_id": PERSONAL, "changes_since": "beginning"}),
        ("search", {"q": "zither"}),
    ],
)  # fmt: skip
def test_a_page_that_the_budget_ends_says_so(
    world: World, tool: str, asked: dict[str, Any]
) -> None:
    bearer = world.tokens["dora@mcp"]
    world.put(*((PERSONAL, "messages", mail(f"x{n}", "2026-04-01T00:00:00Z", subject=f"Zither {n}",
                 body_text="a zither in a long text " * 40)) for n in range(60)))  # fmt: skip
    few, many = (
        real.call(bearer, tool, **asked, limit=limit, max_bytes=12_000) for limit in (2, 50)
    )

    items = "records" if tool == "query_records" else "results"
    assert "ended_by" not in parsed_text(few)
    assert "ended_by" not in structured(few)["data"]["meta"]
    shown = parsed_text(many)
    assert (shown["ended_by"], shown["left"]) == ("max_bytes", 50 - len(shown[items]))
    assert structured(many)["data"]["meta"]["ended_by"] == "max_bytes"


def test_a_schema_cursor_is_bound_to_its_call(bearer: str) -> None:
    first = structured(real.call(bearer, "schema", stream="rows"))
    cursor = first["data"]["next_cursor"]

    assert not real.call(bearer, "schema", stream="rows", cursor=cursor).is_error
    for wrong in ({"stream": "links"}, {"stream": "rows", "detail": "full"}, {}):
        assert (
            error_of(real.call(bearer, "schema", cursor=cursor, **wrong))["code"]
            == "invalid_cursor"
        )


def test_a_search_for_some_of_the_words_says_so_before_its_hits(world: World) -> None:
    result = real.call(world.tokens["dora@mcp"], "search", q="invoice unicorn")

    for shown in (parsed_text(result), structured(result)):
        assert next(iter(shown.items())) == ("match", "any_word")
        assert len(shown["results"]) == 1
