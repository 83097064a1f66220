"""What the owner pastes elsewhere, letter for letter."""

import pytest

from owner.setup_snippets import EVENTS, MCP, RESOURCE_USES, REST, token_snippets

URL, BEARER = "https://pdpp.example", "pdpp_at_1"


@pytest.mark.parametrize(
    ("resource", "name", "address"),
    [(MCP, "pdpp", f"{URL}/mcp"), (EVENTS, "pdpp-events", f"{URL}/mcp/events")],
)
def test_snippets_for_agents_have_endpoint_and_bearer(
    resource: str, name: str, address: str
) -> None:
    told = {each.app: each.text for each in token_snippets(BEARER, resource=resource, url=URL)}
    assert told == {
        "Claude Code": f"claude mcp add --transport http {name} {address}"
        ' --header "Authorization: Bearer pdpp_at_1"',
        "Codex": "export PDPP_MCP_TOKEN=pdpp_at_1\n"
        f"codex mcp add {name} --url {address} --bearer-token-env-var PDPP_MCP_TOKEN",
    }


def test_snippets_for_programs_have_a_request() -> None:
    [told] = token_snippets(BEARER, resource=REST, url=URL)
    assert (told.app, told.text) == (
        "curl",
        f'curl -H "Authorization: Bearer pdpp_at_1" "{URL}/v1/schema?view=compact"',
    )


def test_each_endpoint_says_what_it_is_for() -> None:
    assert {*RESOURCE_USES} == {MCP, REST, EVENTS}
    assert "subscribe" in RESOURCE_USES[EVENTS]
