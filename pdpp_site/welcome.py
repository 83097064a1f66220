"""What ``make run`` prints when the server answers: where it is and how to connect to it.

Commands are printed as they are to be typed: no frame and no wrapping inside a line.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from rich.console import Console
from rich.text import Text


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoTokens:
    """Two bearers over the demo connections, each good at one door, for 24 hours."""

    rest: str
    mcp: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Welcome:
    """What is known when the server has started."""

    url: str
    set_up_link: str | None
    tokens: DemoTokens | None


def show(welcome: Welcome, *, seconds: float) -> None:
    console = Console(soft_wrap=True, highlight=False)
    for heading, lines in _sections(welcome, seconds):
        console.print(Text(heading, style="bold"))
        for line in lines:
            console.print(Text(f"  {line}"))
    console.print()


def _sections(welcome: Welcome, seconds: float) -> Iterator[tuple[str, list[str]]]:
    yield (
        f"\nPDPP answers at {welcome.url} after {seconds:.1f} s",
        [
            f"Admin  {welcome.url}/admin/",
            f"REST   {welcome.url}/v1",
            f"MCP    {welcome.url}/mcp",
        ],
    )
    if welcome.set_up_link is not None:
        yield "\nSet up your account (works once, for 24 hours)", [welcome.set_up_link]
    if welcome.tokens is not None:
        yield "\nThe demo life only, for 24 hours", _demo_lines(welcome.url, welcome.tokens)


def _demo_lines(url: str, tokens: DemoTokens) -> list[str]:
    return [
        "Claude Code",
        f'  claude mcp add --transport http pdpp {url}/mcp --header "Authorization: Bearer {tokens.mcp}"',
        "Codex",
        f"  export PDPP_TOKEN={tokens.mcp}",
        f"  codex mcp add pdpp --url {url}/mcp --bearer-token-env-var PDPP_TOKEN",
        "curl",
        f'  curl -H "Authorization: Bearer {tokens.rest}" "{url}/v1/search?q=lease"',
    ]
