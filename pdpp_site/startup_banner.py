"""The banner that `make run` prints: addresses, set-up link and demo tokens.

Commands are printed without frames or wrapping, so that they can be copied.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from rich.console import Console
from rich.text import Text

from operations.demo_data import DemoTokens
from owner.setup_snippets import MCP, REST, token_snippets


@dataclass(frozen=True, slots=True, kw_only=True)
class StartupInfo:
    """What the banner shows; `set_up` is a set-up link or the command that creates one."""

    url: str
    set_up: str | None
    tokens: DemoTokens | None


def show(info: StartupInfo, *, seconds: float) -> None:
    console = Console(soft_wrap=True, highlight=False)
    for heading, lines in _sections(info, seconds):
        console.print(Text(f"\n{heading}", style="bold"))
        for line in lines:
            console.print(Text(f"  {line}"))
    console.print()


def _sections(info: StartupInfo, seconds: float) -> Iterator[tuple[str, list[str]]]:
    url = info.url
    yield (
        f"PDPP is ready after {seconds:.1f} s. Press Ctrl-C to stop.",
        [f"Admin  {url}/admin/", f"REST   {url}{REST}", f"MCP    {url}{MCP}"],
    )
    if info.set_up is not None:
        yield "Set up your account (the link works once, for 24 hours)", [info.set_up]
    if info.tokens is not None:
        yield "Try the demo data (these tokens read only demo data and expire in 24 hours)", []
        for resource, bearer in ((MCP, info.tokens.mcp), (REST, info.tokens.rest)):
            for recipe in token_snippets(bearer, resource=resource, url=url):
                yield recipe.app, list(recipe.lines)
