"""Resource templates and pdpp:// URIs."""

import base64
from typing import Any

import pytest
from mcp import Client, MCPError

from evidence import record_ids
from tests.mcp_adapter.fake_rest import FakeRest
from tests.mcp_adapter.hosts import ERAS, call, error_of, with_client
from tests.scenarios import scenario
from tests.uris import field_window_uri

REF = record_ids.RecordRef("cin_work", "messages", "a/b")


def rest() -> FakeRest:
    return FakeRest(
        records=[("cin_work", "messages", "a/b", {"body": "hello world"})],
        blobs={"b1": ("image/png", b"\x89PNG")},
    )


def read(uri: str, era: str) -> Any:
    (content,) = with_client(rest(), lambda client: client.read_resource(uri), era=era).contents
    return content


def read_error(fake: FakeRest, uri: str, *, era: str = ERAS[0]) -> MCPError:
    async def reading(client: Client) -> MCPError:
        with pytest.raises(MCPError) as refusal:
            await client.read_resource(uri)
        return refusal.value

    error = with_client(fake, reading, era=era)
    assert isinstance(error, MCPError)
    return error


@pytest.mark.parametrize("era", ERAS)
def test_only_the_four_templates_are_listed(era: str) -> None:
    async def lists(client: Client) -> tuple[list[str], int, int]:
        templates = await client.list_resource_templates()
        resources = await client.list_resources()
        prompts = await client.list_prompts()
        return (
            [item.uri_template for item in templates.resource_templates],
            len(resources.resources),
            len(prompts.prompts),
        )

    assert with_client(rest(), lists, era=era) == (
        [
            "pdpp://stream/{name}{?connection_id}",
            "pdpp://record/{handle}",
            "pdpp://field-window/{handle}",
            "pdpp://blob/{handle}",
        ],
        0,
        0,
    )


@scenario("B4", "B5", "B11")
@pytest.mark.parametrize("era", ERAS)
def test_every_kind_of_uri_can_be_read(era: str) -> None:
    window = {"field_path": "body", "q": "world", "before_chars": 2, "after_chars": 0}

    assert '"hello world"' in read(record_ids.record_uri(REF), era).text
    assert "world" in read(field_window_uri(REF, window=window), era).text
    assert '"name":"messages"' in read("pdpp://stream/messages", era).text
    blob = read(record_ids.blob_uri("b1", connection_id="cin_work"), era)
    assert (base64.b64decode(blob.blob), blob.mime_type) == (b"\x89PNG", "image/png")


@pytest.mark.parametrize(("era", "code"), [(ERAS[0], -32602), (ERAS[1], -32002)])
@pytest.mark.parametrize(
    "uri",
    [
        "pdpp://record/nonsense",
        record_ids.record_uri(record_ids.RecordRef("cin_work", "messages", "missing")),
        record_ids.blob_uri("missing", connection_id=None),
        "https://elsewhere.example/x",
    ],
)
def test_missing_resource_returns_error_with_next_step(era: str, code: int, uri: str) -> None:
    error = read_error(rest(), uri, era=era).error

    assert error.code == code
    body = error.data
    assert body["error"].get("next_step") or body["next_step"]


def test_too_large_blob_resource_names_download_command() -> None:
    fake = FakeRest(blobs={"b1": ("image/png", b"x" * 2_000_000)})
    uri = record_ids.blob_uri("b1", connection_id=None)

    error = read_error(fake, uri).error

    assert "pdpp blob" in error.data["error"]["next_step"]


@pytest.mark.parametrize("era", ERAS)
def test_get_prompt_is_refused(era: str) -> None:
    async def getting(client: Client) -> int:
        with pytest.raises(MCPError) as refusal:
            await client.get_prompt("anything")
        return refusal.value.error.code

    assert with_client(rest(), getting, era=era) == -32602


def test_stream_uri_can_carry_a_connection() -> None:
    fake = rest()
    uri = "pdpp://stream/messages?connection_id=cin_work"

    with_client(fake, lambda client: client.read_resource(uri))
    call(fake, "query_records", stream=uri)
    refused = call(fake, "query_records", stream=uri, connection_id="cin_home")

    assert [given.get("connection_id") for _, given in fake.calls] == ["cin_work", "cin_work"]
    assert error_of(refused)["code"] == "conflicting_connection_id"


@pytest.mark.parametrize("query", ["?", "?limit=1", "?connection_id=", "?connection_id=a/b"])
def test_stream_uri_with_another_query_is_refused(query: str) -> None:
    result = call(rest(), "query_records", stream=f"pdpp://stream/messages{query}")

    assert result.is_error is (query != "?")
