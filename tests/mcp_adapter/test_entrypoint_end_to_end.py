"""Section C through the real endpoint: how agents start."""

import copy
import json
import re
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from evidence.access.grant_terms import StreamRequest
from evidence.access.grants import GrantRequest
from mcp_adapter.inprocess import InProcessRest
from mcp_adapter.rest import Params
from tests.mcp_adapter import real
from tests.mcp_adapter.hosts import error_of, parsed_text, structured, text_of
from tests.scenarios import scenario
from tests.world import ACCOUNT, CHAT, PERSONAL, WORK, World

pytestmark = pytest.mark.django_db


def _grant_of_connections(world: World, who: str, count: int) -> str:
    """Return a token for ``count`` connections that have a record, and for one of another source."""
    names = [f"cin_{who}_{n}" for n in range(count)]
    for name in names:
        world.connect(name, "mail", name)
    world.put(*((name, "messages", {"id": "same", "subject": "Same"}) for name in names))
    world.grant(
        who,
        GrantRequest(connection_ids=names, streams=[StreamRequest(name="messages")]),
        GrantRequest(connection_ids=[CHAT], streams=[StreamRequest(name="messages")]),
    )
    return world.tokens[f"{who}@mcp"]


def _count_requests(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that grows by the path of each request to the REST API."""
    paths: list[str] = []
    get = InProcessRest.get

    def counted(rest: InProcessRest, path: str, params: Params, *rest_of: Any, **named: Any) -> Any:
        paths.append(path)
        return get(rest, path, params, *rest_of, **named)

    monkeypatch.setattr(InProcessRest, "get", counted)
    return paths


@pytest.fixture
def bearer(world: World) -> str:
    return world.tokens["dora@mcp"]


@scenario("C2", "C3")
def test_stdio_and_http_serve_the_same_tools(bearer: str) -> None:
    lists = [
        real.ask(bearer, lambda client: client.list_tools(), way=way, era=era).tools
        for way, era in real.SURFACES
    ]

    assert [tool.name for tool in lists[0]] == [
        "schema", "query_records", "aggregate", "search", "fetch", "read_record_field",
    ]  # fmt: skip
    assert all(tools == lists[0] for tools in lists)


@scenario("C5")
def test_tools_never_exceed_the_grant(world: World) -> None:
    charlie, bob = world.tokens["charlie@mcp"], world.tokens["bob@mcp"]

    assert parsed_text(real.call(charlie, "search", q="lease"))["results"] == []
    assert error_of(real.call(charlie, "fetch", id=f"{PERSONAL}/messages:m1"))["code"] in {
        "not_found",
        "connection_not_found",
    }
    before_the_grant = error_of(real.call(bob, "fetch", id=f"{PERSONAL}/messages:m0"))
    missing = error_of(real.call(bob, "fetch", id=f"{PERSONAL}/messages:nothing"))
    assert {**before_the_grant, "request_id": 0} == {**missing, "request_id": 0}


@scenario("C8")
def test_schema_without_arguments_is_an_index(bearer: str) -> None:
    result = real.call(bearer, "schema")

    assert parsed_text(result)["streams"] == {
        "account": "transactions",
        "mail": "messages threads",
        "workspace": "messages",
    }
    assert parsed_text(result)["connections"]["mail"] == {
        PERSONAL: "Personal mail",
        WORK: "Work mail",
    }
    assert "field_capabilities" not in json.dumps(structured(result))


@scenario("C9", "C11")
def test_schema_of_shared_stream_lists_every_source(bearer: str) -> None:
    output = parsed_text(real.call(bearer, "schema", stream="messages"))

    assert {row["connector_key"] for row in output["streams"]} == {"mail", "workspace"}
    mail = next(row for row in output["streams"] if row["connector_key"] == "mail")
    assert mail["connections"] == {PERSONAL: "Personal mail", WORK: "Work mail"}
    assert mail["fields"]["size_bytes"].split(",")[1:] == ["eq", "r=gte|lt", "a=sum|avg|min|max"]
    assert {"t", "eq", "r", "lex", "a"} <= set(output["legend"])


@scenario("C9")
def test_schema_of_shared_stream_shows_the_fields_and_aggregations_of_every_source(
    bearer: str,
) -> None:
    rows = parsed_text(real.call(bearer, "schema", stream="messages"))["streams"]

    assert {row["connector_key"]: set(row["fields"]) for row in rows} == {
        "mail": {"id", "thread_id", "subject", "from_name", "from_email", "received_at", "labels",
                 "is_seen", "size_bytes", "body_text"},
        "workspace": {"id", "channel", "author", "sent_at", "text"},
    }  # fmt: skip
    for row in rows:
        connection = min(row["connections"])
        target = {"stream": "messages", "connection_id": connection}
        for name, summary in row["fields"].items():
            flags = summary.split(",")
            groups = next((flag[2:].split("|") for flag in flags if flag.startswith("a=")), [])
            if "group_by" in groups:
                call = {**target, "metric": "count", "group_by": name}
                assert not real.call(bearer, "aggregate", **call).is_error, (row["label"], name)
            if "eq" in flags and "t=string" in summary:
                value = "2026-05-01T00:00:00Z" if "role=event-time" in flags else "x"
                call = {**target, "filter": {name: value}, "fields": [name], "sort": row["sort"][0]}
                assert not real.call(bearer, "query_records", **call).is_error, (row["label"], name)


@scenario("C9")
def test_compact_schema_suffices_for_valid_calls(bearer: str) -> None:
    rows = parsed_text(real.call(bearer, "schema", stream="messages"))["streams"]
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

    listed = parsed_text(queried)["records"]
    assert [(item["id"].partition(":")[2], item["data"]) for item in listed] == [
        ("m3", {"subject": "Dinner on Friday?", "size_bytes": 700}),
        ("m1", {"subject": "Lease signed", "size_bytes": 2000}),
    ]
    assert parsed_text(queried)["count"] == {"kind": "exact", "value": 2}
    assert parsed_text(counted)["value"] == 3310
    assert ["Alice", 2] in parsed_text(grouped)["groups"]


@scenario("C9")
def test_each_group_shows_the_requested_metric(bearer: str) -> None:
    result = real.call(
        bearer, "aggregate", stream="transactions", metric="sum", field="amount", group_by="name"
    )

    groups = structured(result)["data"]["groups"]
    assert parsed_text(result)["groups"] == [[item["key"], item["value"]] for item in groups]
    assert all(item["value"] != item["count"] for item in groups)


@scenario("C10")
def test_schema_of_stream_and_connection_suffices_for_next_read(
    bearer: str,
) -> None:
    text = parsed_text(real.call(bearer, "schema", stream="messages", connection_id=WORK))
    (row,) = text["streams"]

    assert "Any field shown can stand in fields" in text["hint"]
    projected = real.call(
        bearer, "query_records", stream="messages", connection_id=WORK, fields=[*row["fields"]]
    )
    assert not projected.is_error
    assert row["connections"] == {WORK: "Work mail"}
    assert (row["connector_key"], row["stream"], row["label"]) == (
        "mail",
        "messages",
        "Your messages",
    )
    assert row["sort"] == ["received_at", "size_bytes"]
    assert row["count"] == ["exact", "estimated"]
    assert row["search_modes"] == ["lexical"]
    assert row["expand"][0]["name"] == "thread"
    assert row["views"] == ["envelope", "sizes"]
    assert row["fields"]["from_name"].endswith("a=count_distinct|group_by")


@scenario("C12")
def test_full_schema_without_stream_is_refused_before_reading(
    bearer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(InProcessRest, "get")

    error = error_of(real.call(bearer, "schema", detail="full"))

    assert "schema(stream, connection_id, detail='full')" in error["next_step"]


@scenario("C13", "C20")
def test_full_schema_of_shared_stream_needs_connection_id(bearer: str) -> None:
    error = error_of(real.call(bearer, "schema", stream="messages", detail="full"))

    assert error["code"] == "ambiguous_schema_detail"
    assert error["retry_with"] == "connection_id"
    assert {item["connection_id"] for item in error["available_connections"]} == {
        PERSONAL,
        WORK,
        CHAT,
    }


@scenario("C13")
def test_full_schema_has_no_duplicate_rows(bearer: str) -> None:
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
def test_text_shows_cursor_bookmark_and_count(world: World, bearer: str) -> None:
    listed = real.call(bearer, "query_records", stream="transactions", limit=1, count="exact")
    searched = real.call(bearer, "search", q="lease", limit=1)

    for result in (listed, searched):
        assert parsed_text(result)["next_cursor"] == structured(result)["data"]["next_cursor"]
    assert parsed_text(listed)["count"] == {"kind": "exact", "value": 3}
    assert parsed_text(searched)["count"]["value"] == 3


@pytest.mark.slow
def test_full_schema_of_451_fields_takes_at_most_ten_calls(world: World) -> None:
    declaration = copy.deepcopy(ACCOUNT) | {"connector_key": "wide"}
    fields = declaration["streams"][0]["schema"]["properties"]
    for number in range(451 - len(fields)):
        fields[f"a_field_name_{number}"] = {"type": ["string", "null"]}
    world.declare(declaration)
    world.connect("cin_wide", "wide", "Wide")
    request = GrantRequest(
        connection_ids=["cin_wide"], streams=[StreamRequest(name="transactions")]
    )
    world.grant("wally", request)
    arguments: dict[str, Any] = {"stream": "transactions", "detail": "full"}
    seen: list[str] = []
    calls = 0
    while arguments:
        page = structured(real.call(world.tokens["wally@mcp"], "schema", **arguments))
        (row,) = page["data"]["connectors"][0]["streams"]
        seen += row["field_capabilities"]
        assert row["schema"]["properties"].keys() == row["field_capabilities"].keys()
        calls, arguments = calls + 1, page["next"].get("page", {}).get("args")

    assert seen == list(fields)
    assert calls <= 10


@scenario("C15")
def test_search_merges_limits_and_labels_all_sources(bearer: str) -> None:
    result = real.call(bearer, "search", q="budget OR lease OR canal OR salary", limit=3)

    results = structured(result)["results"]
    assert len(results) == 3
    for item in results:
        assert {"connection_id", "connector_key", "stream", "record_key", "display_name"} <= set(
            item
        )
        assert item["snippet"].count("<mark>") == item["snippet"].count("</mark>")
        assert item["title"] != item["snippet"]


@scenario("C15")
@pytest.mark.parametrize(
    "text",
    [
        "a </mark> numbat <mark> b",
        "<mark>numbat",
        "numbat</mark> and <MARK> again",
        "<mark><mark>numbat</mark>",
        "a < b, <marker> numbat </mark >",
    ],
)
def test_marks_are_balanced_around_texts_with_tags(world: World, bearer: str, text: str) -> None:
    """A tag of a record never looks like the mark of a match."""
    world.put(
        (
            WORK,
            "messages",
            {
                "id": "n1",
                "subject": text,
                "from_name": text.replace("numbat", "Ida"),
                "body_text": f"x {text} y",
            },
        ),
        (CHAT, "messages", {"id": "n2", "text": text}),
    )

    result = real.call(bearer, "search", q="numbat")

    hits = parsed_text(result)["results"]
    excerpts = [
        excerpt["preview_text"]
        for hit in structured(result)["data"]["data"]
        for excerpt in hit["evidence_excerpts"]
    ]
    shown = [
        *(item["snippet"] for item in structured(result)["results"]),
        *(hit["match"] for hit in hits),
        *excerpts,
    ]
    assert len(hits) == 2
    assert len(shown) >= 3 * 2
    for entry in (*structured(result)["results"], *hits):
        named = f"{entry['title']} {entry.get('actor')}"
        assert not re.search(r"</?mark\b", named, re.IGNORECASE), named
    for each in shown:
        marked = re.findall(r"<mark>([^<]*)</mark>", each)
        assert marked == ["numbat"], each
        assert not re.search(r"</?mark\b", re.sub(r"<mark>numbat</mark>", "", each), re.IGNORECASE)


@scenario("C15")
def test_text_counts_hits_by_source(bearer: str) -> None:
    output = parsed_text(real.call(bearer, "search", q="budget OR canal", max_bytes=20_000))

    assert {item["source"]: item["hits"] for item in output["sources"]} == {
        "Personal mail (mail)": 1,
        "Work mail (mail)": 1,
        "Workspace (workspace)": 2,
    }


@scenario("C15")
def test_generated_title_names_source_stream_and_time(world: World, bearer: str) -> None:
    world.put((WORK, "messages", {"id": "n1", "subject": None, "body_text": "a numbat",
                                  "received_at": "2026-04-01T00:00:00Z"}))  # fmt: skip

    (hit,) = parsed_text(real.call(bearer, "search", q="numbat"))["results"]

    assert hit["title"] == "Work mail / messages / 2026-04-01T00:00:00Z"


@scenario("C16")
def test_search_of_one_connection_returns_no_other(bearer: str) -> None:
    result = real.call(bearer, "search", q="canal OR budget", connection_id=CHAT, limit=1)

    assert [item["connection_id"] for item in structured(result)["results"]] == [CHAT]
    assert structured(result)["data"]["meta"]["count"] == 2


@scenario("C17")
def test_document_has_five_members_in_both_channels(bearer: str) -> None:
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
def test_projected_document_shows_only_those_fields(bearer: str) -> None:
    result = real.call(
        bearer, "fetch", id=f"{PERSONAL}/messages:m1", fields=["from_name", "size_bytes"]
    )

    everything = text_of(result) + json.dumps(structured(result), ensure_ascii=False)
    for elsewhere in ("Lease", "deposit", "2026-01-10", "eva@example.org", "t1"):
        assert elsewhere not in everything
    assert structured(result)["text"] == "id: m1\nfrom_name: Eva Lang\nsize_bytes: 2000"
    assert structured(result)["metadata"]["connector_key"] == "mail"


@scenario("C19")
def test_projected_query_returns_only_fields_and_identity(bearer: str) -> None:
    result = real.call(
        bearer, "query_records", stream="messages", connection_id=WORK, fields=["subject"]
    )

    for record in structured(result)["data"]["data"]:
        assert set(record["data"]) == {"subject", "id"}
        assert {"id", "stream", "connection_id", "version", "emitted_at"} <= set(record)
    assert "invoice by the end" not in text_of(result)


@scenario("C20")
def test_ambiguous_read_lists_connections_to_choose(world: World) -> None:
    sources = {PERSONAL: "mail", WORK: "mail", CHAT: "workspace"}
    messages = [StreamRequest(name="messages")]
    world.grant("gil", *(GrantRequest(connection_ids=[id_], streams=messages) for id_ in sources))
    bearer = world.tokens["gil@mcp"]
    grants = (grant.grant_id for grant in world.grants["gil"])
    granted = {
        (*source, grant_id) for source, grant_id in zip(sources.items(), grants, strict=True)
    }
    calls: list[tuple[str, dict[str, Any]]] = [
        ("query_records", {"stream": "messages"}),
        ("aggregate", {"stream": "messages", "metric": "count"}),
        ("fetch", {"id": "messages:m1"}),
        ("read_record_field", {"stream": "messages", "record_id": "m1", "field_path": "subject"}),
    ]
    for tool, arguments in calls:
        result = real.call(bearer, tool, **arguments)

        error = error_of(result)
        assert error["code"] == "ambiguous_connection"
        assert error["retry_with"] == "connection_id"
        candidates = [
            (item["connection_id"], item["connector_key"], item["grant_id"])
            for item in error["available_connections"]
        ]
        assert sorted(candidates) == sorted(granted), tool
        assert "schema" in structured(result)["next_step"]
        for chosen in (PERSONAL, WORK):
            assert not real.call(bearer, tool, **arguments, connection_id=chosen).is_error


@scenario("C20")
@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("query_records", {"stream": "messages"}),
        ("aggregate", {"stream": "messages", "metric": "count"}),
        ("fetch", {"id": "messages:same"}),
        ("read_record_field", {"stream": "messages", "record_id": "same", "field_path": "subject"}),
    ],
)
def test_candidates_are_listed_without_reading_each(
    world: World, monkeypatch: pytest.MonkeyPatch, tool: str, arguments: dict[str, Any]
) -> None:
    """One REST request, and as many statements for twenty candidates as for two."""
    few, many = (
        _grant_of_connections(world, name, count) for name, count in (("eric", 2), ("fay", 20))
    )
    requests = _count_requests(monkeypatch)
    statements = []
    for bearer_token, count in ((few, 2), (many, 20)):
        with CaptureQueriesContext(connection) as captured:
            error = error_of(real.call(bearer_token, tool, **arguments))
        assert error["available_connection_count"] >= count
        statements.append(len(captured))

    assert len(requests) == 2 * len(real.SURFACES)
    assert statements[0] == statements[1]


@scenario("C20")
def test_many_candidates_are_limited_and_counted(world: World) -> None:
    result = real.call(_grant_of_connections(world, "eric", 20), "query_records", stream="messages")

    error = error_of(result)
    assert len(error["available_connections"]) == 12
    assert error["available_connection_count"] == 21
    assert error["available_connections_truncated"] is True
    assert "schema" in error["discovery_hint"]
    assert len(text_of(result)) < 4_000
