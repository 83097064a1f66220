"""Commands that connect an app with a token, to copy unchanged."""

from dataclasses import dataclass

REST, MCP, EVENTS = "/v1", "/mcp", "/mcp/events"
RESOURCE_USES = {
    MCP: "for AI agents, over MCP",
    REST: "for apps and scripts, over REST",
    EVENTS: "for AI agents that subscribe to changes, over MCP",
}


@dataclass(frozen=True, slots=True)
class Snippet:
    """Commands for one app, to copy unchanged."""

    app: str
    lines: tuple[str, ...]

    @property
    def text(self) -> str:
        return "\n".join(self.lines)


def token_snippets(bearer: str, *, resource: str, url: str) -> tuple[Snippet, ...]:
    """Return the commands that use `bearer` for `resource` of the server at `url`."""
    if resource not in (MCP, EVENTS):
        line = f'curl -H "Authorization: Bearer {bearer}" "{url}{REST}/schema?view=compact"'
        return (Snippet("curl", (line,)),)
    name = "pdpp" if resource == MCP else "pdpp-events"
    endpoint = f"{url}{resource}"
    return (
        Snippet(
            "Claude Code",
            (
                f"claude mcp add --transport http {name} {endpoint}"
                f' --header "Authorization: Bearer {bearer}"',
            ),
        ),
        Snippet(
            "Codex",
            (
                f"export PDPP_MCP_TOKEN={bearer}",
                f"codex mcp add {name} --url {endpoint} --bearer-token-env-var PDPP_MCP_TOKEN",
            ),
        ),
    )
