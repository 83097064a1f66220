"""Resource templates, and every URI that is shown."""

import base64
from typing import Any

import pytest
from mcp import Client, MCPError

from mcp_adapter import ids
from tests.mcp_adapter.fake_rest import FakeRest
from tests.mcp_adapter.hosts import ERAS, ask
from tests.scenarios import scenario

REF = ids.RecordRef("cin_work", "messages", "a/b")


def rest() -> FakeRest:
    return FakeRest(
        records=[("cin_work", "messages", "a/b", {"body": "hello world"})],
        blobs={"b1": ("image/png", b"\x89PNG")},
    )


def read(uri: str, era: str) -> Any:
    (content,) = ask(rest(), lambda client: client.read_resource(uri), era=era).contents
    return content


def refused(fake: FakeRest, uri: str, *, era: str = ERAS[0]) -> MCPError:
    async def reading(client: Client) -> MCPError:
        with pytest.raises(MCPError) as refusal:
            await client.read_resource(uri)
        return refusal.value

    error = ask(fake, reading, era=era)
    assert isinstance(error, MCPError)
    return error


@pytest.mark.parametrize("era", ERAS)
def test_the_four_templates_are_listed_and_no_resources_or_prompts(era: str) -> None:
    async def lists(client: Client) -> tuple[list[str], int, int]:
        templates = await client.list_resource_templates()
        resources = await client.list_resources()
        prompts = await client.list_prompts()
        return (
            [each.uri_template for each in templates.resource_templates],
            len(resources.resources),
            len(prompts.prompts),
        )

    assert ask(rest(), lists, era=era) == (
        [
            "pdpp://stream/{name}",
            "pdpp://record/{handle}",
            "pdpp://field-window/{handle}",
            "pdpp://blob/{handle}",
        ],
        0,
        0,
    )


@scenario("B4", "B5", "B11")
@pytest.mark.parametrize("era", ERAS)
def test_every_uri_that_can_be_made_can_be_read(era: str) -> None:
    window = {"field_path": "body", "q": "world", "before_chars": 2, "after_chars": 0}

    assert '"hello world"' in read(ids.record_uri(REF), era).text
    assert "world" in read(ids.field_window_uri(REF, window=window), era).text
    assert '"name":"messages"' in read(ids.stream_uri("messages"), era).text
    blob = read(ids.blob_uri("b1", connection_id="cin_work"), era)
    assert (base64.b64decode(blob.blob), blob.mime_type) == (b"\x89PNG", "image/png")


@pytest.mark.parametrize(("era", "code"), [(ERAS[0], -32602), (ERAS[1], -32002)])
@pytest.mark.parametrize(
    "uri",
    [
        "pdpp://record/nonsense",
        ids.record_uri(ids.RecordRef("cin_work", "messages", "missing")),
        ids.blob_uri("missing", connection_id=None),
        "https://elsewhere.example/x",
    ],
)
def test_a_resource_that_is_not_there_is_an_error_with_the_next_step(
    era: str, code: int, uri: str
) -> None:
    error = refused(rest(), uri, era=era).error

    assert error.code == code
    body = error.data
    assert body["error"].get("next_step") or body["next_step"]


def test_a_blob_too_large_for_one_resource_says_how_to_take_it() -> None:
    fake = FakeRest(blobs={"b1": ("image/png", b"x" * 2_000_000)})
    uri = ids.blob_uri("b1", connection_id=None)

    error = refused(fake, uri).error

    assert "pdpp blob" in error.data["error"]["next_step"]


@pytest.mark.parametrize("era", ERAS)
def test_no_prompt_can_be_got(era: str) -> None:
    async def getting(client: Client) -> int:
        with pytest.raises(MCPError) as refusal:
            await client.get_prompt("anything")
        return refusal.value.error.code

    assert ask(rest(), getting, era=era) == -32602
