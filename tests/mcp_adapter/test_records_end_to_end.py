"""Expansion, changes and blobs through the real endpoint."""

import base64
from typing import Any

import pytest

from evidence.access.grant_terms import StreamRequest
from evidence.access.grants import GrantRequest
from mcp_adapter.inprocess import InProcessRest
from tests.api.test_blobs import CONTENT, FILES, ONE, keep
from tests.mcp_adapter import real
from tests.mcp_adapter.hosts import refusal, seen, structured
from tests.scenarios import scenario
from tests.world import BANK, PERSONAL, WORK, World

pytestmark = pytest.mark.django_db


@pytest.fixture
def bearer(world: World) -> str:
    return world.tokens["dora@mcp"]


@scenario("D7")
def test_expand_is_passed_on_and_comes_through_unchanged(world: World, bearer: str) -> None:
    result = real.call(
        bearer, "query_records", stream="threads", expand=["messages"], expand_limit={"messages": 1}
    )

    own = world.get("/v1/streams/threads/records", who="dora", expand="messages",
                    expand_limit__messages=1).body  # fmt: skip
    assert structured(result)["data"]["data"] == own["data"]
    (record,) = seen(result)["records"]
    assert record["expanded"]["messages"]["has_more"] is True
    (child,) = record["expanded"]["messages"]["records"]
    assert not real.call(bearer, "fetch", id=child["id"]).is_error


@scenario("D7")
def test_a_document_shows_what_it_was_expanded_by(bearer: str) -> None:
    document = structured(
        real.call(bearer, "fetch", id=f"{PERSONAL}/messages:m1", expand=["thread"])
    )

    thread = document["metadata"]["expanded"]["thread"]
    assert thread["id"] == f"{PERSONAL}/threads:t1"
    assert thread["data"]["topic"] == "The lease"


@scenario("D8")
def test_expand_without_a_relation_is_refused_before_the_records_are_read(
    bearer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    get = InProcessRest.get

    def noting(self: InProcessRest, path: str, *rest: Any, **more: Any) -> Any:
        asked.append(path)
        return get(self, path, *rest, **more)

    monkeypatch.setattr(InProcessRest, "get", noting)

    for tool, arguments in (
        ("query_records", {"stream": "transactions", "expand": ["payee"]}),
        ("query_records", {"stream": "transactions", "expand_limit": {"payee": 1}}),
        ("fetch", {"id": f"{BANK}/transactions:b1", "expand": ["payee"]}),
    ):
        error = refusal(real.call(bearer, tool, **arguments))
        assert error["code"] == "invalid_expand"
        assert "transactions" in error["message"]
    assert set(asked) == {"/v1/schema"}


@scenario("D9")
def test_an_unknown_stream_is_left_to_the_resource_server(bearer: str) -> None:
    error = refusal(real.call(bearer, "query_records", stream="nothing", expand=["payee"]))

    assert error["type"] != "adapter_error"


@scenario("C14", "B11")
def test_changes_are_read_on_from_their_bookmark(world: World, bearer: str) -> None:
    def changes(since: str) -> Any:
        return seen(
            real.ask(
                bearer,
                lambda client: client.call_tool(
                    "query_records",
                    {"stream": "messages", "connection_id": WORK, "changes_since": since},
                ),
            )
        )

    first = changes("beginning")
    world.put((WORK, "messages", {"id": "w9", "subject": "New", "body_text": "A new message."}))
    second = changes(first["next_changes_since"])

    assert [each["id"] for each in first["records"]] == [
        f"{WORK}/messages:m1",
        f"{WORK}/messages:w2",
    ]
    assert [each["id"] for each in second["records"]] == [f"{WORK}/messages:w9"]


@scenario("B8", "B11")
def test_binary_content_is_described_and_read_whole_as_a_resource(world: World) -> None:
    world.declare(FILES)
    world.connect(ONE, "files", "Files")
    keep(world, ONE, "a1", "blb_1", CONTENT, media_type="application/pdf")
    world.grant(
        "ruth", GrantRequest(connection_ids=[ONE], streams=[StreamRequest(name="attachments")])
    )
    bearer = world.tokens["ruth@mcp"]

    shown = seen(
        real.call(bearer, "read_record_field", id=f"{ONE}/attachments:a1", field_path="blob_ref")
    )
    uri = shown["blob"]["uri"]
    (whole,) = real.ask(bearer, lambda client: client.read_resource(uri)).contents

    assert shown["blob"]["total_bytes"] == len(CONTENT)
    assert shown["blob"]["media_type"] == "application/pdf"
    assert base64.b64decode(whole.blob) == CONTENT
