"""The MCP surface `/mcp/events`: seven tools, its own resource indicator, none of them at `/mcp`."""

import json
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import httpx2
import pytest
from asgiref.sync import async_to_sync
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

from evidence import limits
from evidence.access.tokens import create_token
from mcp_adapter.inprocess import InProcessRest
from mcp_adapter.server import EVENT_INSTRUCTIONS, EVENT_SURFACE, ServerInfo
from mcp_adapter.streamable_http import McpEndpoint, TransportSettings, build_endpoint
from pdpp_site import asgi_app
from tests.events.receiving import Receiver, deliver_round
from tests.mcp_adapter.real import LEGACY, MODERN, ORIGIN, run_in_test_thread
from tests.mcp_adapter.test_listing import NEVER
from tests.scenarios import scenario
from tests.world import NOW, World

URL = f"{ORIGIN}/mcp/events"
TOOLS = [
    "discover_event_subscription_capabilities",
    "create_event_subscription",
    "list_event_subscriptions",
    "get_event_subscription",
    "update_event_subscription",
    "delete_event_subscription",
    "send_test_event",
]
DETAILS = ("hmac", "webhook-", "signature", "whsec_", "retry", "cloudevents", "at least once")
"""Words that only the capabilities tool may use."""


def endpoint() -> McpEndpoint:
    return build_endpoint(
        InProcessRest(),
        partial(asgi_app.authenticate, resource="/mcp/events"),
        settings=TransportSettings(
            server_info=ServerInfo(public_url=ORIGIN, version="1"),
            surface=EVENT_SURFACE,
            resource_metadata_url=lambda _host: (
                f"{ORIGIN}/.well-known/oauth-protected-resource/mcp/events"
            ),
            offload=run_in_test_thread,
        ),
    )


def ask(bearer: str, work_: Callable[[Client], Awaitable[Any]], *, era: str = MODERN) -> Any:
    async def main() -> Any:
        served = endpoint()
        async with (
            served.lifespan(),
            httpx2.AsyncClient(
                transport=httpx2.ASGITransport(app=served.app),
                headers={"Authorization": f"Bearer {bearer}"},
            ) as http,
            Client(streamable_http_client(URL, http_client=http), mode=era) as client,
        ):
            return await work_(client)

    return async_to_sync(main)()


@pytest.fixture
def bob(world: World) -> str:
    return create_token(world.packages["bob"], resource="/mcp/events", now=NOW)


def call(bearer: str, tool: str, **arguments: Any) -> Any:
    """Call a tool, check that both channels are equal, and return the structured output."""
    result = ask(bearer, lambda client: client.call_tool(tool, arguments))
    assert json.loads(result.content[0].text) == result.structured_content
    return result


def list_tools(bearer: str, era: str = MODERN) -> list[dict[str, Any]]:
    result = ask(bearer, lambda client: client.list_tools(), era=era)
    return [tool.model_dump(by_alias=True, exclude_none=True) for tool in result.tools]


@pytest.mark.parametrize("era", [MODERN, LEGACY])
def test_tools_are_exactly_the_seven_event_tools(bob: str, era: str) -> None:
    assert [tool["name"] for tool in list_tools(bob, era)] == TOOLS


def test_event_tools_are_not_served_at_mcp() -> None:
    assert set(TOOLS) <= NEVER


@scenario("D2")
def test_only_one_tool_explains_signing_and_delivery(bob: str) -> None:
    for tool in list_tools(bob):
        text = json.dumps(tool).lower()
        matches = [word for word in DETAILS if word in text]
        if tool["name"] == "discover_event_subscription_capabilities":
            assert "webhook-signature" in text
        else:
            assert matches == [], tool["name"]
    assert [word for word in DETAILS if word in EVENT_INSTRUCTIONS.lower()] == []


def test_each_description_states_purpose_effect_and_route(bob: str) -> None:
    for tool in list_tools(bob):
        description, hints = tool["description"], tool["annotations"]
        reads = "(read-only; " in description
        assert reads or "(mutating; " in description
        assert hints["readOnlyHint"] is reads
        assert "/v1/event-subscriptions" in description or "oauth-protected-resource" in description
        assert len(description) <= limits.DESCRIPTION_CHARS
        assert tool["inputSchema"]["additionalProperties"] is False
    assert len(json.dumps({"tools": list_tools(bob)}).encode()) <= limits.TOOLS_LIST_BYTES


def test_instructions_lead_with_scope_and_first_call() -> None:
    lead = EVENT_INSTRUCTIONS[: limits.INSTRUCTIONS_LEAD_CHARS]

    for word in ("grant", "schema", "connection_id", "filters", "bounded", TOOLS[0]):
        assert word in lead
    assert len(EVENT_INSTRUCTIONS) <= limits.INSTRUCTIONS_CHARS


def test_subscription_life_cycle_through_the_tools(
    world: World, bob: str, receiver: Receiver
) -> None:
    created = call(
        bob, "create_event_subscription", callback_url=receiver.url, streams=["messages"]
    )
    one = {"subscription_id": created.structured_content["subscription_id"]}
    deliver_round()

    assert call(bob, "get_event_subscription", **one).structured_content["status"] == "active"
    rows = call(bob, "list_event_subscriptions").structured_content["data"]
    assert [row["subscription_id"] for row in rows] == [one["subscription_id"]]
    assert call(bob, "send_test_event", **one).structured_content["event_id"].startswith("evt_")
    deliver_round()
    [arrived] = receiver.of("pdpp.subscription.test")
    assert arrived.verified(created.structured_content["secret"])
    changed = call(bob, "update_event_subscription", enabled=False, rotate_secret=True, **one)
    assert changed.structured_content["subscription"]["status"] == "disabled"
    assert changed.structured_content["secret"].startswith("whsec_")
    assert call(bob, "delete_event_subscription", **one).structured_content == {"done": True}
    deleted = call(bob, "get_event_subscription", **one)
    assert deleted.is_error
    assert deleted.structured_content["error"]["code"] == "not_found"
    assert "list_event_subscriptions" in deleted.structured_content["next_step"]


def test_capabilities_equal_the_rest_document(world: World, bob: str) -> None:
    error = call(bob, "discover_event_subscription_capabilities").structured_content

    metadata = world.get("/.well-known/oauth-protected-resource", None).body
    assert error["capabilities"] == metadata["capabilities"]["client_event_subscriptions"]
    assert "webhook-signature" in error["guidance"]


def test_subscription_is_shared_between_resources_of_a_client(
    world: World, bob: str, receiver: Receiver
) -> None:
    created = call(bob, "create_event_subscription", callback_url=receiver.url).structured_content

    seen = world.get(f"/v1/event-subscriptions/{created['subscription_id']}")

    assert seen.body["subscription_id"] == created["subscription_id"]


@pytest.mark.parametrize("tool", ["schema", "search", "query_records"])
def test_read_tools_are_not_served_at_events(bob: str, tool: str) -> None:
    async def refused(client: Client) -> None:
        with pytest.raises(MCPError, match="Unknown tool"):
            await client.call_tool(tool, {})

    ask(bob, refused)


def test_resources_are_not_served_at_events(bob: str) -> None:
    async def refused(client: Client) -> None:
        with pytest.raises(MCPError, match="No resources"):
            await client.read_resource("pdpp://stream/messages")

    ask(bob, refused)
    templates = ask(bob, lambda client: client.list_resource_templates())
    assert templates.resource_templates == []


@pytest.mark.parametrize("who", ["bob", "bob@mcp", "alice"])
def test_token_of_another_resource_is_refused(world: World, who: str) -> None:
    answer = _post(world.tokens[who])

    assert answer.status_code in {401, 403}
    assert answer.json()["error"]["code"] in {"authentication_error", "permission_error"}


def test_event_token_is_refused_by_rest_and_mcp(world: World, bob: str) -> None:
    assert world.get("/v1/schema", bob).status == 401
    with pytest.raises(asgi_app.TokenRejected):
        asgi_app.authenticate(bob)


def test_request_without_token_names_metadata_url(world: World) -> None:
    answer = _post(None)

    assert answer.status_code == 401
    named = f'resource_metadata="{ORIGIN}/.well-known/oauth-protected-resource/mcp/events"'
    assert named in answer.headers["www-authenticate"]


def test_unknown_and_invalid_arguments_are_refused_by_name(bob: str) -> None:
    for arguments, param in (
        ({"url": "https://a.example"}, "url"),
        ({}, "callback_url"),
        ({"callback_url": "https://a.example", "streams": "messages"}, "streams"),
    ):
        refused = call(bob, "create_event_subscription", **arguments).structured_content
        assert refused["error"]["param"] == param
    refused = call(bob, "update_event_subscription", subscription_id="sub_1", enabled="yes")
    assert refused.structured_content["error"]["param"] == "enabled"


def _post(bearer: str | None) -> httpx2.Response:
    async def main() -> httpx2.Response:
        served = endpoint()
        transport = httpx2.ASGITransport(app=served.app)
        headers = {} if bearer is None else {"Authorization": f"Bearer {bearer}"}
        async with served.lifespan(), httpx2.AsyncClient(transport=transport) as http:
            body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
            return await http.post(
                URL, json=body, headers={"Accept": "application/json", **headers}
            )

    return async_to_sync(main)()
