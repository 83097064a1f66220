"""What the owner pastes elsewhere to make a new bearer work there. Pure text."""

from dataclasses import dataclass

REST, MCP = "/v1", "/mcp"
WHERE = {
    MCP: "for AI agents, over MCP",
    REST: "for programs, over REST",
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
    if resource == MCP:
        return (_claude_code(bearer, url), _codex(bearer, url))
    return (_curl(bearer, url),)


def _claude_code(bearer: str, url: str) -> Recipe:
    line = (
        f'claude mcp add --transport http pdpp {url}{MCP} --header "Authorization: Bearer {bearer}"'
    )
    return Recipe("Claude Code", (line,))


def _codex(bearer: str, url: str) -> Recipe:
    return Recipe(
        "Codex",
        (
            f"export PDPP_TOKEN={bearer}",
            f"codex mcp add pdpp --url {url}{MCP} --bearer-token-env-var PDPP_TOKEN",
        ),
    )


def _curl(bearer: str, url: str) -> Recipe:
    line = f'curl -H "Authorization: Bearer {bearer}" "{url}{REST}/schema?view=compact"'
    return Recipe("curl", (line,))
