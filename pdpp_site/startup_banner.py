"""What ``make run`` prints when the server answers: where it is and how to connect to it.

Commands are printed as they are to be typed: no frame and no wrapping inside a line.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from rich.console import Console
from rich.text import Text

from operations.demo_data import DemoTokens
from owner.setup_snippets import MCP, REST, recipes


@dataclass(frozen=True, slots=True, kw_only=True)
class Welcome:
    """What is known when the server has started; ``set_up`` is a link or how to get one."""

    url: str
    set_up: str | None
    tokens: DemoTokens | None


def show(welcome: Welcome, *, seconds: float) -> None:
    console = Console(soft_wrap=True, highlight=False)
    for heading, lines in _sections(welcome, seconds):
        console.print(Text(f"\n{heading}", style="bold"))
        for line in lines:
            console.print(Text(f"  {line}"))
    console.print()


def _sections(welcome: Welcome, seconds: float) -> Iterator[tuple[str, list[str]]]:
    url = welcome.url
    yield (
        f"PDPP answers after {seconds:.1f} s. Ctrl-C stops it.",
        [f"Admin  {url}/admin/", f"REST   {url}{REST}", f"MCP    {url}{MCP}"],
    )
    if welcome.set_up is not None:
        yield "Set up your account (the link works once, for 24 hours)", [welcome.set_up]
    if welcome.tokens is not None:
        yield "Try the demo life (these tokens see nothing else and end in 24 hours)", []
        for resource, bearer in ((MCP, welcome.tokens.mcp), (REST, welcome.tokens.rest)):
            for recipe in recipes(bearer, resource=resource, url=url):
                yield recipe.program, list(recipe.lines)
