"""schema against a fake REST API: indexes and pages of any size."""

from typing import Any

import pytest

from evidence import limits
from evidence.page_cutter import dumps, json_size, wire_size
from mcp_adapter.rest import RestResponse
from tests.mcp_adapter.fake_rest import FakeRest
from tests.mcp_adapter.hosts import call, error_of, parsed_text, structured, text_of
from tests.scenarios import scenario


def rest_with_streams(*, connectors: int, streams: int, connections: int) -> FakeRest:
    """Return a REST API with a number of streams and connections per connector."""
    return FakeRest(
        connections=[
            (f"cin_{c:03}_{n:03}", f"Account {n} of {c}", f"connector_{c:03}")
            for c in range(connectors)
            for n in range(connections)
        ],
        fields={
            f"connector_{c:03}/stream_{c:03}_{s:03}": {"id": "t=string,eq"}
            for c in range(connectors)
            for s in range(streams)
        },
    )


def read_pages(fake: FakeRest, **arguments: Any) -> list[dict[str, Any]]:
    """Return the text of every page, asserting that each fits the budget."""
    pages, extra = [], {}
    while True:
        result = call(fake, "schema", **arguments, **extra)
        pages.append(parsed_text(result))
        names = "" if extra else text_of(result).partition('"streams":')[2].partition("}")[0]
        assert wire_size(text_of(result)) - wire_size(names) <= limits.TEXT_BYTES
        assert json_size(structured(result)) - 2 * wire_size(names) <= limits.STRUCTURED_BYTES
        if "next_cursor" not in pages[-1]:
            return pages
        extra = {"cursor": pages[-1]["next_cursor"]}


@scenario("C8")
@pytest.mark.parametrize(
    ("connectors", "streams", "connections"), [(1, 1, 1), (40, 25, 1), (1, 1_000, 3), (4, 5, 200)]
)
def test_index_names_all_streams_on_first_page_and_pages_connections(
    connectors: int, streams: int, connections: int
) -> None:
    fake = rest_with_streams(connectors=connectors, streams=streams, connections=connections)

    pages = read_pages(fake)

    named = {name for names in pages[0]["streams"].values() for name in names.split()}
    assert named == {name.partition("/")[2] for name in fake.fields}
    all_names = [
        connection
        for page in pages
        for mine in page.get("connections", {}).values()
        for connection in mine
    ]
    assert sorted(all_names) == sorted(connection for connection, _, _ in fake.connections)


@scenario("C8")
def test_names_with_spaces_are_a_list() -> None:
    fake = FakeRest(fields={"mailbox/sent items": {}, "mailbox/inbox": {}})

    assert parsed_text(call(fake, "schema"))["streams"] == {"mailbox": ["sent items", "inbox"]}


@scenario("C9")
def test_stream_with_many_fields_is_paged() -> None:
    flags = {f"field_{n:03}": "t=string|null,role=secondary,eq,r=gte|lt,lex" for n in range(400)}
    fake = FakeRest(fields={"mailbox/messages": flags})

    pages = read_pages(fake, stream="messages")

    all_names: dict[str, str] = {}
    for page in pages:
        (row,) = page["streams"]
        assert row["stream"] == "messages"
        assert page["legend"]
        all_names |= row.get("fields", {})
    assert all_names == flags
    assert len(pages) > 3


@scenario("C9")
def test_stream_of_many_connectors_is_paged() -> None:
    fake = FakeRest(
        connections=[(f"cin_{n}", f"Box {n}", f"mail_{n:03}") for n in range(100)],
        fields={f"mail_{n:03}/messages": {"id": "t=string"} for n in range(100)},
    )

    pages = read_pages(fake, stream="messages")

    rows = {row["connector_key"] for page in pages for row in page["streams"]}
    assert rows == {f"mail_{n:03}" for n in range(100)}


@scenario("C13")
def test_pages_of_full_schema_contain_every_field() -> None:
    properties = {
        f"field_{n:03}": {"type": "string", "description": f"What field {n} means. " * 8}
        for n in range(60)
    }
    nested = {"type": "object", "properties": {f"p{n}": {"type": "string"} for n in range(900)}}
    row = {
        "name": "messages",
        "schema": {"type": "object", "required": ["id"], "properties": {**properties, "deep": nested}},
        "views": [{"id": "all", "fields": list(properties)}],
        "field_capabilities": {name: {"granted": True} for name in (*properties, "deep")},
        "granted_connections": [{"connection_id": "cin_work", "display_name": "Work mail"}],
    }  # fmt: skip
    body = {"object": "schema", "connectors": [{"connector_key": "mailbox", "streams": [row]}]}
    fake = FakeRest(answers={"/v1/schema": RestResponse(200, body)})

    all_names: dict[str, Any] = {}
    parts: dict[int, str] = {}
    extra: dict[str, str] = {}
    for _ in range(200):
        result = call(fake, "schema", stream="messages", detail="full", **extra)
        document = structured(result)["data"]
        (output,) = document["connectors"][0]["streams"]
        all_names |= output.get("schema", {}).get("properties", {})
        parts |= {
            item["part"]: item["json"] for item in output.get("parts", []) if item["of"] == "deep"
        }
        assert json_size(structured(result)) <= limits.SEARCH_STRUCTURED_BYTES
        assert wire_size(text_of(result)) <= limits.SEARCH_TEXT_BYTES
        if "next_cursor" not in document:
            break
        extra = {"cursor": document["next_cursor"]}

    assert all_names == properties
    complete = "".join(parts[number] for number in sorted(parts))
    assert complete == dumps({"schema": nested, "capability": {"granted": True}})


@scenario("C12")
def test_full_schema_without_stream_is_refused_before_reading() -> None:
    fake = FakeRest()

    error = error_of(call(fake, "schema", detail="full"))

    assert error["code"] == "schema_detail_needs_stream"
    assert fake.calls == []


@pytest.mark.parametrize("cursor", ["schema:x", "c5", "schema:-1", "schema:99999999999"])
def test_foreign_cursor_is_refused(cursor: str) -> None:
    fake = FakeRest()

    assert error_of(call(fake, "schema", cursor=cursor))["code"] == "invalid_cursor"


def test_unknown_stream_names_the_index_as_next_step() -> None:
    output = parsed_text(call(FakeRest(), "schema", stream="nothing"))

    assert output["streams"] == []
    assert output["next"] == {"schema": {"tool": "schema", "args": {}}}


@scenario("C10", "C11")
def test_each_schema_form_requests_its_rest_view() -> None:
    fake = FakeRest(fields={"mailbox/messages": {"id": "t=string"}})

    call(fake, "schema")
    call(fake, "schema", stream="messages", connection_id="cin_work")
    call(fake, "schema", stream="messages", connection_id="cin_work", detail="full")

    scoped = {"stream": "messages", "connection_id": "cin_work"}
    assert [query for _, query in fake.calls] == [
        {"view": "index"},
        {"view": "compact", **scoped},
        {"detail": "full", **scoped},
    ]


def test_sources_with_equal_connector_key_are_separate() -> None:
    body = {
        "object": "schema",
        "detail": "index",
        "connectors": [
            {"connector_key": "mail", "stream_names": ["inbox"], "granted_connections": []},
            {"connector_key": "mail", "stream_names": ["letters"], "granted_connections": []},
        ],
    }
    fake = FakeRest(answers={"/v1/schema": RestResponse(200, body)})

    assert parsed_text(call(fake, "schema"))["streams"] == {"mail": "inbox", "mail #2": "letters"}


def test_full_schema_of_many_fields_takes_at_most_ten_calls() -> None:
    off = {"declared": False, "usable": False}
    names = [f"a_field_name_{number}" for number in range(451)]
    capability = {
        "type": "string|null", "schema": {"type": ["string", "null"]}, "granted": True,
        "exact_filter": {"declared": True, "usable": True}, "lexical_search": off,
        "semantic_search": off, "aggregation": dict.fromkeys(("sum", "min", "max", "group_by"), off),
    }  # fmt: skip
    row = {
        "name": "messages",
        "schema": {"type": "object", "properties": dict.fromkeys(names, capability["schema"])},
        "field_capabilities": dict.fromkeys(names, capability),
    }
    body = {"detail": "full", "connectors": [{"connector_key": "mail", "streams": [row]}]}
    fake = FakeRest(answers={"/v1/schema": RestResponse(200, body)})
    seen: list[str] = []
    cursor: dict[str, Any] = {}

    for _ in range(10):
        page = structured(call(fake, "schema", stream="messages", detail="full", **cursor))["data"]
        seen += page["connectors"][0]["streams"][0]["field_capabilities"]
        cursor = {"cursor": page.get("next_cursor")}
        if cursor["cursor"] is None:
            break

    assert seen == names


@scenario("C10")
@pytest.mark.parametrize("detail", ["compact", "full"])
def test_every_next_step_of_schema_can_be_called(detail: str) -> None:
    fake = FakeRest(records=[("cin_work", "messages", "m1", {"subject": "Lease"})])

    index = parsed_text(call(fake, "schema"))
    stream = call(fake, "schema", **index["next"]["stream"]["args"], detail=detail)
    steps = parsed_text(stream)["next"]

    assert steps == structured(stream)["next"]
    assert len(parsed_text(call(fake, "query_records", **steps["records"]["args"]))["records"]) == 1
    assert parsed_text(call(fake, "aggregate", **steps["count"]["args"]))["value"] == 1


def test_a_stream_of_two_sources_is_listed_with_a_connection() -> None:
    fake = FakeRest(
        connections=[("cin_a", "A", "mailbox"), ("cin_b", "B", "chat")],
        fields={"mailbox/messages": {"id": "t=string"}, "chat/messages": {"id": "t=string"}},
    )

    steps = parsed_text(call(fake, "schema", stream="messages"))["next"]

    assert steps["records"]["args"] == {"stream": "messages", "connection_id": "cin_a"}
