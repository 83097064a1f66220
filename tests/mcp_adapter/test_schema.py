"""schema, against a resource server in memory: indexes and pages, whatever the size."""

from typing import Any

import pytest

from evidence import limits
from mcp_adapter.json_text import dumps, size, wire_size
from mcp_adapter.rest import RestAnswer
from tests.mcp_adapter.fake_rest import FakeRest
from tests.mcp_adapter.hosts import call, refusal, seen, structured, text_of
from tests.scenarios import scenario


def wide(*, connectors: int, streams: int, connections: int) -> FakeRest:
    """Connectors with so many streams and connections each."""
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


def pages(fake: FakeRest, **arguments: Any) -> list[dict[str, Any]]:
    """Every page, as the text shows it, each within the budgets."""
    found, more = [], {}
    while True:
        result = call(fake, "schema", **arguments, **more)
        found.append(seen(result))
        names = "" if more else text_of(result).partition('"streams":')[2].partition("}")[0]
        assert wire_size(text_of(result)) - wire_size(names) <= limits.TEXT_BYTES
        assert size(structured(result)) - 2 * wire_size(names) <= limits.STRUCTURED_BYTES
        if "next_cursor" not in found[-1]:
            return found
        more = {"cursor": found[-1]["next_cursor"]}


@scenario("C8")
@pytest.mark.parametrize(
    ("connectors", "streams", "connections"), [(1, 1, 1), (40, 25, 1), (1, 1_000, 3), (4, 5, 200)]
)
def test_the_index_names_every_stream_at_once_and_every_connection_by_pages(
    connectors: int, streams: int, connections: int
) -> None:
    fake = wide(connectors=connectors, streams=streams, connections=connections)

    found = pages(fake)

    named = {name for names in found[0]["streams"].values() for name in names.split()}
    assert named == {name.partition("/")[2] for name in fake.fields}
    met = [
        connection
        for page in found
        for mine in page.get("connections", {}).values()
        for connection in mine
    ]
    assert sorted(met) == sorted(connection for connection, _, _ in fake.connections)


@scenario("C8")
def test_names_with_spaces_are_listed_one_by_one() -> None:
    fake = FakeRest(fields={"mailbox/sent items": {}, "mailbox/inbox": {}})

    assert seen(call(fake, "schema"))["streams"] == {"mailbox": ["sent items", "inbox"]}


@scenario("C9")
def test_a_stream_with_many_fields_is_paged_by_field() -> None:
    flags = {f"field_{n:03}": "t=string|null,role=secondary,eq,r=gte|lt,lex" for n in range(400)}
    fake = FakeRest(fields={"mailbox/messages": flags})

    found = pages(fake, stream="messages")

    met: dict[str, str] = {}
    for page in found:
        (row,) = page["streams"]
        assert row["stream"] == "messages"
        assert page["legend"]
        met |= row.get("fields", {})
    assert met == flags
    assert len(found) > 3


@scenario("C9")
def test_a_name_shared_by_many_connectors_is_paged_by_row() -> None:
    fake = FakeRest(
        connections=[(f"cin_{n}", f"Box {n}", f"mail_{n:03}") for n in range(100)],
        fields={f"mail_{n:03}/messages": {"id": "t=string"} for n in range(100)},
    )

    found = pages(fake, stream="messages")

    rows = {row["connector_key"] for page in found for row in page["streams"]}
    assert rows == {f"mail_{n:03}" for n in range(100)}


@scenario("C13")
def test_the_full_schema_is_paged_by_field_and_nothing_of_it_is_lost() -> None:
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
    fake = FakeRest(answers={"/v1/schema": RestAnswer(200, body)})

    met: dict[str, Any] = {}
    parts: dict[int, str] = {}
    more: dict[str, str] = {}
    for _ in range(200):
        result = call(fake, "schema", stream="messages", detail="full", **more)
        document = structured(result)["data"]
        (shown,) = document["connectors"][0]["streams"]
        met |= shown.get("schema", {}).get("properties", {})
        parts |= {
            each["part"]: each["json"] for each in shown.get("parts", []) if each["of"] == "deep"
        }
        assert size(structured(result)) <= limits.STRUCTURED_BYTES
        assert wire_size(text_of(result)) <= limits.TEXT_BYTES
        if "next_cursor" not in document:
            break
        more = {"cursor": document["next_cursor"]}

    assert met == properties
    whole = "".join(parts[number] for number in sorted(parts))
    assert whole == dumps({"schema": nested, "capability": {"granted": True}})


@scenario("C12")
def test_the_full_schema_of_everything_is_refused_before_it_is_read() -> None:
    fake = FakeRest()

    error = refusal(call(fake, "schema", detail="full"))

    assert error["code"] == "schema_detail_needs_stream"
    assert fake.calls == []


@pytest.mark.parametrize("cursor", ["schema:x", "c5", "schema:-1", "schema:99999999999"])
def test_a_cursor_that_schema_did_not_give_is_refused(cursor: str) -> None:
    fake = FakeRest()

    assert refusal(call(fake, "schema", cursor=cursor))["code"] == "invalid_cursor"


def test_a_stream_that_is_not_there_sends_back_to_the_index() -> None:
    shown = seen(call(FakeRest(), "schema", stream="nothing"))

    assert shown["streams"] == []
    assert "schema()" in shown["next"]


@scenario("C10", "C11")
def test_schema_forms_ask_for_the_matching_rest_view() -> None:
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


def test_two_sources_of_one_connector_key_stay_apart() -> None:
    body = {
        "object": "schema",
        "detail": "index",
        "connectors": [
            {"connector_key": "mail", "stream_names": ["inbox"], "granted_connections": []},
            {"connector_key": "mail", "stream_names": ["letters"], "granted_connections": []},
        ],
    }
    fake = FakeRest(answers={"/v1/schema": RestAnswer(200, body)})

    assert seen(call(fake, "schema"))["streams"] == {"mail": "inbox", "mail #2": "letters"}
