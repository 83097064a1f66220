"""The tools list and the instructions, and their size."""

import json
import re
from collections import Counter
from typing import Any

import pytest
from mcp import Client

from evidence import limits
from mcp_adapter.surfaces import INSTRUCTIONS
from tests.mcp_adapter.fake_rest import FakeRest
from tests.mcp_adapter.hosts import ERAS, with_client
from tests.scenarios import scenario

TOOLS = ["schema", "query_records", "aggregate", "search", "fetch", "read_record_field"]
NEVER = {
    "list_streams",
    "fetch_blob",
    "discover_event_subscription_capabilities",
    "create_event_subscription",
    "list_event_subscriptions",
    "get_event_subscription",
    "update_event_subscription",
    "delete_event_subscription",
    "send_test_event",
}
ENDPOINTS = {
    "schema": "/v1/schema",
    "query_records": "/v1/streams/{stream}/records",
    "aggregate": "/v1/streams/{stream}/aggregate",
    "search": "/v1/search",
    "fetch": "/v1/streams/{stream}/records/{id}",
    "read_record_field": "/v1/streams/{stream}/records/{id}/field-window",
}


def list_tools(era: str) -> list[dict[str, Any]]:
    result = with_client(FakeRest(), lambda client: client.list_tools(), era=era)
    return [tool.model_dump(by_alias=True, exclude_none=True) for tool in result.tools]


@scenario("C3")
@pytest.mark.parametrize("era", ERAS)
def test_tools_are_exactly_the_six_read_tools(era: str) -> None:
    names = [tool["name"] for tool in list_tools(era)]

    assert names == TOOLS
    assert not NEVER & set(names)


@scenario("C7", "D4")
@pytest.mark.parametrize("era", ERAS)
def test_tools_list_fits_its_byte_budget(era: str) -> None:
    payload = json.dumps({"tools": list_tools(era)}, ensure_ascii=False).encode()

    assert len(payload) <= limits.TOOLS_LIST_BYTES


def test_tools_list_is_equal_in_both_eras() -> None:
    assert list_tools("2026-07-28") == list_tools("legacy")


@scenario("C4")
def test_every_tool_takes_connection_id_but_not_its_deprecated_alias() -> None:
    for tool in list_tools(ERAS[0]):
        schema = tool["inputSchema"]
        assert "connection_id" in schema["properties"], tool["name"]
        assert "connection_id" not in schema.get("required", []), tool["name"]
        assert "connector_instance_id" not in json.dumps(tool), tool["name"]


def test_every_tool_has_a_title_and_read_only_annotations() -> None:
    for tool in list_tools(ERAS[0]):
        assert tool["title"]
        assert tool["annotations"] == {
            "readOnlyHint": True,
            "destructiveHint": False,
            "idempotentHint": True,
            "openWorldHint": False,
        }
        assert "outputSchema" not in tool


def test_schemas_are_closed_without_root_combinators() -> None:
    for tool in list_tools(ERAS[0]):
        schema = tool["inputSchema"]
        assert schema["additionalProperties"] is False
        assert not {"anyOf", "oneOf", "allOf", "not"} & set(schema)


def test_search_takes_q_or_query_and_requires_neither() -> None:
    (search,) = [tool for tool in list_tools(ERAS[0]) if tool["name"] == "search"]

    assert {"q", "query"} <= set(search["inputSchema"]["properties"])
    assert "required" not in search["inputSchema"]


@scenario("D3")
def test_each_description_states_purpose_read_only_and_route() -> None:
    for tool in list_tools(ERAS[0]):
        description = tool["description"]
        assert len(description) <= limits.DESCRIPTION_CHARS
        assert "read-only" in description
        assert f"GET {ENDPOINTS[tool['name']]}" in " ".join(description.split())
    pointing = [tool for tool in list_tools(ERAS[0]) if "schema" in tool["description"].lower()]
    assert len(pointing) >= 3


def descriptions(tool: dict[str, Any]) -> list[str]:
    properties = tool["inputSchema"]["properties"]
    return [argument.get("description", "") for argument in properties.values()]


@scenario("D2", "D4")
def test_tools_do_not_repeat_sentences() -> None:
    sentences = Counter(
        sentence.strip()
        for tool in list_tools(ERAS[0])
        for description in (tool["description"], *descriptions(tool))
        for sentence in re.split(r"(?<=[.;:])\s", description)
        if len(sentence) > 40 and "structured output" not in sentence
    )

    assert [sentence for sentence, count in sentences.items() if count > 1] == []
    assert "event" not in json.dumps(list_tools(ERAS[0])).lower()
    assert "available_connections" not in json.dumps(list_tools(ERAS[0]))


@scenario("D5")
def test_descriptions_mention_structured_output_and_narrowing() -> None:
    description = {tool["name"]: tool["description"] for tool in list_tools(ERAS[0])}

    assert not any("hidden" in text for text in description.values())
    for name in ("query_records", "search", "aggregate"):
        assert "structured output" in description[name]
        assert re.search(r"[Pp]age with cursor|[Nn]arrow", description[name])
    assert "aggregate" in description["query_records"]


@scenario("D6")
def test_every_tool_but_schema_takes_max_bytes() -> None:
    offering = [
        tool["name"]
        for tool in list_tools(ERAS[0])
        if "max_bytes" in tool["inputSchema"]["properties"]
    ]

    assert offering == [name for name in TOOLS if name != "schema"]


def test_descriptions_state_bounds_in_words() -> None:
    for tool in list_tools(ERAS[0]):
        for name, argument in tool["inputSchema"]["properties"].items():
            if argument["type"] == "integer":
                assert re.search(r"\d", argument["description"]), (tool["name"], name)


@scenario("D1")
@pytest.mark.parametrize("era", ERAS)
def test_server_sends_its_instructions(era: str) -> None:
    async def initialized(client: Client) -> str | None:
        return client.instructions

    assert (
        with_client(FakeRest(), initialized, era="auto" if era != "legacy" else era) == INSTRUCTIONS
    )


@scenario("D1")
def test_first_512_characters_of_instructions_stand_alone() -> None:
    lead = INSTRUCTIONS[: limits.INSTRUCTIONS_LEAD_CHARS]

    assert len(INSTRUCTIONS) <= limits.INSTRUCTIONS_CHARS
    for requested in (
        "this grant allows",
        "Start with schema",
        "connection_id",
        "Filters are typed",
    ):
        assert requested in lead
    for requested in ("limit", "cursor", "narrow"):
        assert requested in lead
    assert "owner token" not in INSTRUCTIONS.lower()
    assert "event" not in INSTRUCTIONS.lower()


def test_only_served_features_are_advertised() -> None:
    async def capabilities(client: Client) -> dict[str, Any]:
        return client.server_capabilities.model_dump(by_alias=True, exclude_none=True)

    for era in ("auto", "legacy"):
        initialized = with_client(FakeRest(), capabilities, era=era)
        assert not initialized["tools"].get("listChanged")
        assert not initialized["resources"].get("listChanged")
        assert not initialized["resources"].get("subscribe")
        assert "logging" not in initialized
        assert "completions" not in initialized
