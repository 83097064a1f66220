"""What the owner pastes elsewhere to make a new bearer work there. Pure text."""

from dataclasses import dataclass

REST, MCP, EVENTS = "/v1", "/mcp", "/mcp/events"
WHERE = {
    MCP: "for AI agents, over MCP",
    REST: "for programs, over REST",
    EVENTS: "for AI agents that subscribe to changes, over MCP",
}


@dataclass(frozen=True, slots=True)
class Recipe:
    """Lines for one program, to be typed as they stand."""

    program: str
    lines: tuple[str, ...]

    @property
    def text(self) -> str:
        return "\n".join(self.lines)


def recipes(bearer: str, *, resource: str, url: str) -> tuple[Recipe, ...]:
    """How to use ``bearer`` at ``resource`` of the server that answers at ``url``."""
    if resource in (MCP, EVENTS):
        name = "pdpp" if resource == MCP else "pdpp-events"
        address = f"{url}{resource}"
        return (_claude_code(bearer, name, address), _codex(bearer, name, address))
    return (_curl(bearer, url),)


def _claude_code(bearer: str, name: str, address: str) -> Recipe:
    line = (
        f"claude mcp add --transport http {name} {address}"
        f' --header "Authorization: Bearer {bearer}"'
    )
    return Recipe("Claude Code", (line,))


def _codex(bearer: str, name: str, address: str) -> Recipe:
    return Recipe(
        "Codex",
        (
            f"export PDPP_TOKEN={bearer}",
            f"codex mcp add {name} --url {address} --bearer-token-env-var PDPP_TOKEN",
        ),
    )


def _curl(bearer: str, url: str) -> Recipe:
    line = f'curl -H "Authorization: Bearer {bearer}" "{url}{REST}/schema?view=compact"'
    return Recipe("curl", (line,))
