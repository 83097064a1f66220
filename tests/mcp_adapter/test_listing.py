"""The tools list and the instructions, and their size."""

import json
import re
import tomllib
from collections import Counter
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from mcp import Client

from evidence import limits
from mcp_adapter.server import INSTRUCTIONS, ServerInfo
from tests.mcp_adapter.fake_rest import FakeRest
from tests.mcp_adapter.hosts import ERAS, with_client
from tests.mcp_adapter.http import modern
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
CREDENTIAL = re.compile(
    r"token|bearer|credential|secret|password|passphrase|api.?key|authori[sz]ation|pdpp_\w+",
    re.IGNORECASE,
)
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
    pointing = {
        tool["name"]
        for tool in list_tools(ERAS[0])
        if re.search(r"\bschema\b", tool["description"])
    }
    assert pointing - {"schema"} == {*TOOLS} - {"schema"}


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
        if len(sentence) > 40 and "structured output" not in sentence.lower()
    )

    assert [sentence for sentence, count in sentences.items() if count > 1] == []
    assert "event" not in json.dumps(list_tools(ERAS[0])).lower()
    assert "available_connections" not in json.dumps(list_tools(ERAS[0]))


@scenario("D5")
def test_descriptions_mention_structured_output_and_narrowing() -> None:
    description = {tool["name"]: tool["description"] for tool in list_tools(ERAS[0])}

    for name, text in description.items():
        assert "structured output" in text.lower(), name
        assert "hidden" not in text, name
        assert re.search(r"[Pp]age with cursor|[Nn]arrow", text), name
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


def instructions_of(era: str) -> str:
    async def initialized(client: Client) -> str | None:
        return client.instructions

    text = with_client(FakeRest(), initialized, era="auto" if era != "legacy" else era)
    assert isinstance(text, str)
    return text


@scenario("D1")
def test_server_sends_the_same_instructions_in_both_eras() -> None:
    assert [instructions_of(era) for era in ERAS] == [INSTRUCTIONS, INSTRUCTIONS]


@scenario("D1")
@pytest.mark.parametrize("era", ERAS)
def test_first_512_characters_of_instructions_are_complete(era: str) -> None:
    instructions = instructions_of(era)
    lead = instructions[: limits.INSTRUCTIONS_LEAD_CHARS]

    assert len(instructions) <= limits.INSTRUCTIONS_CHARS
    for requested in (
        "this grant allows",
        "Start with schema",
        "connection_id",
        "Filters are typed",
    ):
        assert requested in lead
    for requested in ("limit", "cursor", "narrow"):
        assert requested in lead
    assert lead.rstrip().endswith(".") or "\n" in lead
    assert "event" not in instructions.lower()


@scenario("D1")
@pytest.mark.parametrize("era", ERAS)
def test_no_text_asks_for_a_credential(era: str) -> None:
    """Not for an owner token and not for any other: the client has signed in already."""
    texts = [instructions_of(era), *(json.dumps(tool) for tool in list_tools(era))]

    for text in texts:
        allowed = text.replace("Do not ask for other credentials", "")
        assert CREDENTIAL.findall(allowed) == []


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


def test_server_info_has_the_version_of_the_project() -> None:
    project = tomllib.loads(Path("pyproject.toml").read_text())["project"]

    info = modern("server/discover").body["result"]["_meta"][types.SERVER_INFO_META_KEY]

    assert ServerInfo(public_url="https://records.example").version == project["version"]
    assert info["version"]
