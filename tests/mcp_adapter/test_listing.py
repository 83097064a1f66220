"""What a client is told before it calls anything: tools, instructions, and how little that takes."""

import json
import re
from collections import Counter
from typing import Any

import pytest
from mcp import Client

from evidence import limits
from mcp_adapter.surfaces import INSTRUCTIONS
from tests.mcp_adapter.fake_rest import FakeRest
from tests.mcp_adapter.hosts import ERAS, ask
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


def listed(era: str) -> list[dict[str, Any]]:
    result = ask(FakeRest(), lambda client: client.list_tools(), era=era)
    return [tool.model_dump(by_alias=True, exclude_none=True) for tool in result.tools]


@scenario("C3")
@pytest.mark.parametrize("era", ERAS)
def test_the_tools_are_exactly_the_six_read_tools(era: str) -> None:
    names = [tool["name"] for tool in listed(era)]

    assert names == TOOLS
    assert not NEVER & set(names)


@scenario("C7", "D4")
@pytest.mark.parametrize("era", ERAS)
def test_the_list_stays_within_its_budget_of_bytes(era: str) -> None:
    payload = json.dumps({"tools": listed(era)}, ensure_ascii=False).encode()

    assert len(payload) <= limits.TOOLS_LIST_BYTES


def test_the_list_is_the_same_in_both_eras() -> None:
    assert listed("2026-07-28") == listed("legacy")


@scenario("C4")
def test_every_tool_takes_an_optional_connection_id_and_none_the_deprecated_alias() -> None:
    for tool in listed(ERAS[0]):
        schema = tool["inputSchema"]
        assert "connection_id" in schema["properties"], tool["name"]
        assert "connection_id" not in schema.get("required", []), tool["name"]
        assert "connector_instance_id" not in json.dumps(tool), tool["name"]


def test_every_tool_is_marked_as_read_only_and_titled() -> None:
    for tool in listed(ERAS[0]):
        assert tool["title"]
        assert tool["annotations"] == {
            "readOnlyHint": True,
            "destructiveHint": False,
            "idempotentHint": True,
            "openWorldHint": False,
        }
        assert "outputSchema" not in tool


def test_schemas_are_closed_and_have_no_combinators_at_the_root() -> None:
    for tool in listed(ERAS[0]):
        schema = tool["inputSchema"]
        assert schema["additionalProperties"] is False
        assert not {"anyOf", "oneOf", "allOf", "not"} & set(schema)


def test_search_advertises_both_names_of_its_words_and_requires_neither() -> None:
    (search,) = [tool for tool in listed(ERAS[0]) if tool["name"] == "search"]

    assert {"q", "query"} <= set(search["inputSchema"]["properties"])
    assert "required" not in search["inputSchema"]


@scenario("D3")
def test_each_description_says_what_it_does_that_it_reads_and_what_is_behind_it() -> None:
    for tool in listed(ERAS[0]):
        said = tool["description"]
        assert len(said) <= limits.DESCRIPTION_CHARS
        assert "read-only" in said
        assert f"GET {ENDPOINTS[tool['name']]}" in " ".join(said.split())
    pointing = [tool for tool in listed(ERAS[0]) if "schema" in tool["description"].lower()]
    assert len(pointing) >= 3


def descriptions(tool: dict[str, Any]) -> list[str]:
    properties = tool["inputSchema"]["properties"]
    return [argument.get("description", "") for argument in properties.values()]


@scenario("D2", "D4")
def test_no_sentence_of_guidance_is_repeated_from_tool_to_tool() -> None:
    sentences = Counter(
        sentence.strip()
        for tool in listed(ERAS[0])
        for said in (tool["description"], *descriptions(tool))
        for sentence in re.split(r"(?<=[.;:])\s", said)
        if len(sentence) > 40 and "structured output" not in sentence
    )

    assert [sentence for sentence, count in sentences.items() if count > 1] == []
    assert "event" not in json.dumps(listed(ERAS[0])).lower()
    assert "available_connections" not in json.dumps(listed(ERAS[0]))


@scenario("D5")
def test_descriptions_call_the_structured_output_visible_and_advise_to_narrow() -> None:
    said = {tool["name"]: tool["description"] for tool in listed(ERAS[0])}

    assert not any("hidden" in text for text in said.values())
    for name in ("query_records", "search", "aggregate"):
        assert "structured output" in said[name]
        assert re.search(r"[Pp]age with cursor|[Nn]arrow", said[name])
    assert "aggregate" in said["query_records"]


@scenario("D6")
def test_every_tool_but_schema_lets_the_caller_choose_the_size_of_its_result() -> None:
    offering = [
        tool["name"] for tool in listed(ERAS[0]) if "max_bytes" in tool["inputSchema"]["properties"]
    ]

    assert offering == [name for name in TOOLS if name != "schema"]


def test_bounds_are_said_in_words() -> None:
    for tool in listed(ERAS[0]):
        for name, argument in tool["inputSchema"]["properties"].items():
            if argument["type"] == "integer":
                assert re.search(r"\d", argument["description"]), (tool["name"], name)


@scenario("D1")
@pytest.mark.parametrize("era", ERAS)
def test_the_server_introduces_itself_with_its_instructions(era: str) -> None:
    async def told(client: Client) -> str | None:
        return client.instructions

    assert ask(FakeRest(), told, era="auto" if era != "legacy" else era) == INSTRUCTIONS


@scenario("D1")
def test_the_first_512_characters_stand_alone() -> None:
    lead = INSTRUCTIONS[: limits.INSTRUCTIONS_LEAD_CHARS]

    assert len(INSTRUCTIONS) <= limits.INSTRUCTIONS_CHARS
    for wanted in ("this grant allows", "Start with schema", "connection_id", "Filters are typed"):
        assert wanted in lead
    for wanted in ("limit", "cursor", "narrow"):
        assert wanted in lead
    assert "owner token" not in INSTRUCTIONS.lower()
    assert "event" not in INSTRUCTIONS.lower()


def test_nothing_is_advertised_that_is_not_served() -> None:
    async def capabilities(client: Client) -> dict[str, Any]:
        return client.server_capabilities.model_dump(by_alias=True, exclude_none=True)

    for era in ("auto", "legacy"):
        told = ask(FakeRest(), capabilities, era=era)
        assert not told["tools"].get("listChanged")
        assert not told["resources"].get("listChanged")
        assert not told["resources"].get("subscribe")
        assert "logging" not in told
        assert "completions" not in told
