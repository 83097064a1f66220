"""Section C through the real endpoint: one way in for agents."""

import json
from typing import Any

import pytest

from tests.mcp_adapter import real
from tests.mcp_adapter.hosts import refusal, seen, structured, text_of
from tests.scenarios import scenario
from tests.world import CHAT, PERSONAL, WORK, World

pytestmark = pytest.mark.django_db


@pytest.fixture
def bearer(world: World) -> str:
    return world.tokens["dora@mcp"]


@scenario("C2", "C3")
def test_stdio_serves_the_very_tools_of_the_hosted_endpoint(bearer: str) -> None:
    lists = [
        real.ask(bearer, lambda client: client.list_tools(), way=way, era=era).tools
        for way, era in real.SURFACES
    ]

    assert [tool.name for tool in lists[0]] == [
        "schema", "query_records", "aggregate", "search", "fetch", "read_record_field",
    ]  # fmt: skip
    assert all(tools == lists[0] for tools in lists)


@scenario("C5")
def test_a_grant_is_never_broadened(world: World) -> None:
    charlie, bob = world.tokens["charlie@mcp"], world.tokens["bob@mcp"]

    assert seen(real.call(charlie, "search", q="lease"))["results"] == []
    assert refusal(real.call(charlie, "fetch", id=f"{PERSONAL}/messages:m1"))["code"] in {
        "not_found",
        "connection_not_found",
    }
    before_the_grant = refusal(real.call(bob, "fetch", id=f"{PERSONAL}/messages:m0"))
    missing = refusal(real.call(bob, "fetch", id=f"{PERSONAL}/messages:nothing"))
    assert {**before_the_grant, "request_id": 0} == {**missing, "request_id": 0}


@scenario("C8")
def test_schema_alone_is_an_index_of_every_stream_by_connector(bearer: str) -> None:
    result = real.call(bearer, "schema")

    assert seen(result)["streams"] == {
        "account": "transactions",
        "mail": "messages threads",
        "workspace": "messages",
    }
    assert seen(result)["connections"]["mail"] == {
        PERSONAL: "Personal mail",
        WORK: "Work mail",
    }
    assert "field_capabilities" not in json.dumps(structured(result))


@scenario("C9", "C11")
def test_schema_of_a_shared_stream_summarises_every_match(bearer: str) -> None:
    shown = seen(real.call(bearer, "schema", stream="messages"))

    assert {row["connector_key"] for row in shown["streams"]} == {"mail", "workspace"}
    mail = next(row for row in shown["streams"] if row["connector_key"] == "mail")
    assert mail["connections"] == {PERSONAL: "Personal mail", WORK: "Work mail"}
    assert mail["fields"]["size_bytes"].split(",")[1:] == ["eq", "r=gte|lt", "a=sum|min|max"]
    assert {"t", "eq", "r", "lex", "a"} <= set(shown["legend"])


@scenario("C9")
def test_the_summary_is_enough_to_write_valid_calls(bearer: str) -> None:
    rows = seen(real.call(bearer, "schema", stream="messages"))["streams"]
    mail = next(row for row in rows if row["connector_key"] == "mail")
    connection = min(mail["connections"])

    queried = real.call(
        bearer, "query_records", stream="messages", connection_id=connection,
        filter={"size_bytes": {"gte": 600}, "is_seen": True}, fields=["subject", "size_bytes"],
        sort=f"-{mail['sort'][0]}", count=mail["count"][0],
    )  # fmt: skip
    counted = real.call(
        bearer, "aggregate", stream="messages", connection_id=connection, metric="sum",
        field="size_bytes",
    )  # fmt: skip
    grouped = real.call(
        bearer, "aggregate", stream="messages", connection_id=connection, metric="count",
        group_by="from_name",
    )  # fmt: skip

    assert [each["data"] for each in seen(queried)["records"]] == [
        {"id": "m3", "subject": "Dinner on Friday?", "size_bytes": 700},
        {"id": "m1", "subject": "Lease signed", "size_bytes": 2000},
    ]
    assert seen(queried)["count"] == {"kind": "exact", "value": 2}
    assert seen(counted)["value"] == 3310
    assert ["Alice", 2] in seen(grouped)["groups"]


@scenario("C9")
def test_each_group_shows_what_was_asked_of_it(bearer: str) -> None:
    result = real.call(
        bearer, "aggregate", stream="transactions", metric="sum", field="amount", group_by="name"
    )

    groups = structured(result)["data"]["groups"]
    assert seen(result)["groups"] == [[each["key"], each["value"]] for each in groups]
    assert all(each["value"] != each["count"] for each in groups)


@scenario("C10")
def test_schema_of_a_stream_and_a_connection_has_all_that_the_next_read_needs(
    bearer: str,
) -> None:
    (row,) = seen(real.call(bearer, "schema", stream="messages", connection_id=WORK))["streams"]

    assert row["connections"] == {WORK: "Work mail"}
    assert (row["connector_key"], row["stream"], row["label"]) == (
        "mail",
        "messages",
        "Your messages",
    )
    assert row["sort"] == ["received_at"]
    assert row["count"] == ["exact", "estimated"]
    assert row["search_modes"] == ["lexical"]
    assert row["expand"][0]["name"] == "thread"
    assert row["views"] == ["envelope", "sizes"]
    assert row["fields"]["from_name"].endswith("a=count_distinct|group_by")


@scenario("C12")
def test_the_full_schema_of_everything_is_refused_before_it_is_read(
    bearer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mcp_adapter.inprocess import InProcessRest

    monkeypatch.delattr(InProcessRest, "get")

    error = refusal(real.call(bearer, "schema", detail="full"))

    assert "schema(stream, connection_id, detail='full')" in error["next_step"]


@scenario("C13", "C20")
def test_the_full_schema_asks_which_source_where_there_are_several(bearer: str) -> None:
    error = refusal(real.call(bearer, "schema", stream="messages", detail="full"))

    assert error["code"] == "ambiguous_schema_detail"
    assert error["retry_with"] == "connection_id"
    assert {each["connection_id"] for each in error["available_connections"]} == {
        PERSONAL,
        WORK,
        CHAT,
    }


@scenario("C13")
def test_the_full_schema_lies_directly_under_data_without_a_row_twice(bearer: str) -> None:
    result = real.call(bearer, "schema", stream="messages", connection_id=PERSONAL, detail="full")

    document = structured(result)["data"]
    (connector,) = document["connectors"]
    (row,) = connector["streams"]
    assert document["object"] == "schema"
    assert "data" not in document
    assert "streams" not in document
    assert row["name"] == "messages"
    assert row["schema"]["properties"]["size_bytes"] == {"type": ["integer", "null"]}


@scenario("C14")
def test_cursors_bookmarks_and_counts_are_in_the_text(world: World, bearer: str) -> None:
    listed = real.call(bearer, "query_records", stream="transactions", limit=1, count="exact")
    searched = real.call(bearer, "search", q="lease", limit=1)

    for result in (listed, searched):
        assert seen(result)["next_cursor"] == structured(result)["data"]["next_cursor"]
    assert seen(listed)["count"] == {"kind": "exact", "value": 3}
    assert seen(searched)["count"]["value"] == 3


@scenario("C15")
def test_a_search_over_everything_is_merged_limited_and_labelled(bearer: str) -> None:
    result = real.call(bearer, "search", q="budget OR lease OR canal OR salary", limit=3)

    results = structured(result)["results"]
    assert len(results) == 3
    for each in results:
        assert {"connection_id", "connector_key", "stream", "record_key", "display_name"} <= set(
            each
        )
        assert each["snippet"].count("<mark>") == each["snippet"].count("</mark>")
        assert each["title"] != each["snippet"]


@scenario("C15")
def test_the_text_has_a_source_mix_where_several_connections_answered(bearer: str) -> None:
    shown = seen(real.call(bearer, "search", q="budget OR canal", max_bytes=20_000))

    assert {each["source"]: each["hits"] for each in shown["sources"]} == {
        "Personal mail (mail)": 1,
        "Work mail (mail)": 1,
        "Workspace (workspace)": 2,
    }


@scenario("C15")
def test_a_title_made_here_names_source_stream_and_time_of_writing(
    world: World, bearer: str
) -> None:
    world.put((WORK, "messages", {"id": "n1", "subject": None, "body_text": "a numbat",
                                  "received_at": "2026-04-01T00:00:00Z"}))  # fmt: skip

    (hit,) = seen(real.call(bearer, "search", q="numbat"))["results"]

    assert hit["title"] == "Work mail / messages / 2026-04-01T00:00:00Z"


@scenario("C16")
def test_a_search_of_one_connection_stays_there(bearer: str) -> None:
    result = real.call(bearer, "search", q="canal OR budget", connection_id=CHAT, limit=1)

    assert [each["connection_id"] for each in structured(result)["results"]] == [CHAT]
    assert structured(result)["data"]["meta"]["count"] == 2


@scenario("C17")
def test_a_document_has_five_members_and_the_text_is_the_same(bearer: str) -> None:
    result = real.call(bearer, "fetch", id=f"{PERSONAL}/messages:m1")

    document = structured(result)
    assert set(document) == {"id", "title", "text", "url", "metadata"}
    assert json.loads(text_of(result)) == document
    assert document["url"] == f"{real.ORIGIN}/records/{PERSONAL}/messages/m1"
    assert document["metadata"]["connection_id"] == PERSONAL
    assert document["metadata"]["display_name"] == "Personal mail"
    for name in ("data", "provider_url", "request_id"):
        assert name not in document["metadata"]


@scenario("C18")
def test_a_projected_document_shows_nothing_else_of_the_record(bearer: str) -> None:
    result = real.call(
        bearer, "fetch", id=f"{PERSONAL}/messages:m1", fields=["from_name", "size_bytes"]
    )

    everything = text_of(result) + json.dumps(structured(result), ensure_ascii=False)
    for elsewhere in ("Lease", "deposit", "2026-01-10", "eva@example.org", "t1"):
        assert elsewhere not in everything
    assert json.loads(structured(result)["text"]) == {
        "id": "m1",
        "from_name": "Eva Lang",
        "size_bytes": 2000,
    }
    assert structured(result)["metadata"]["connector_key"] == "mail"


@scenario("C19")
def test_a_projected_query_returns_those_fields_and_identity_alone(bearer: str) -> None:
    result = real.call(
        bearer, "query_records", stream="messages", connection_id=WORK, fields=["subject"]
    )

    for record in structured(result)["data"]["data"]:
        assert set(record["data"]) == {"subject", "id"}
        assert {"id", "stream", "connection_id", "version", "emitted_at"} <= set(record)
    assert "invoice by the end" not in text_of(result)


@scenario("C20")
def test_a_read_that_must_know_the_source_offers_candidates_to_pass_on(bearer: str) -> None:
    calls: list[tuple[str, dict[str, Any]]] = [
        ("query_records", {"stream": "messages"}),
        ("aggregate", {"stream": "messages", "metric": "count"}),
        ("fetch", {"id": "messages:m1"}),
        ("read_record_field", {"stream": "messages", "record_id": "m1", "field_path": "subject"}),
    ]
    for tool, arguments in calls:
        result = real.call(bearer, tool, **arguments)

        error = refusal(result)
        assert error["code"] == "ambiguous_connection"
        assert error["retry_with"] == "connection_id"
        for each in error["available_connections"]:
            assert {"grant_id", "connector_key", "connection_id"} <= set(each)
        assert "schema" in structured(result)["next_step"]
        chosen = error["available_connections"][0]["connection_id"]
        assert not real.call(bearer, tool, **arguments, connection_id=chosen).is_error


@scenario("C20")
def test_many_candidates_are_capped_and_counted(world: World) -> None:
    from evidence.access.grant_terms import StreamRequest
    from evidence.access.grants import GrantRequest

    names = [f"cin_more_{n}" for n in range(20)]
    for name in names:
        world.connect(name, "workspace", name)
    world.grant(
        "eric",
        GrantRequest(connection_ids=names, streams=[StreamRequest(name="messages")]),
        GrantRequest(connection_ids=[PERSONAL], streams=[StreamRequest(name="messages")]),
    )

    result = real.call(world.tokens["eric@mcp"], "query_records", stream="messages")

    error = refusal(result)
    assert len(error["available_connections"]) == 12
    assert error["available_connection_count"] == 21
    assert error["available_connections_truncated"] is True
    assert "schema" in error["discovery_hint"]
    assert len(text_of(result)) < 4_000
