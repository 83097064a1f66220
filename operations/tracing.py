"""What is told of requests and of calls of tools, and nothing where nobody asked (``collector``)."""

import contextlib
from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import Protocol

from mcp_adapter.metrics import Outcome, unspanned

Headers = Iterable[tuple[bytes, bytes]]


class Answered(Protocol):
    """Says how a request ended: ``method`` and ``route`` by their names, status 0 for no answer."""

    def __call__(self, *, method: str, route: str, status: int) -> None: ...


class Spans(Protocol):
    """What the site and the MCP endpoints tell of themselves."""

    def request(self, headers: Headers) -> AbstractContextManager[Answered]:
        """One request, from its head to the end of its answer."""

    def tool(self, name: str, outcome: Outcome) -> AbstractContextManager[None]:
        """One call of a tool, whose outcome is known at its end."""

    def close(self) -> None:
        """Tell what has not been told yet. Takes a few seconds at most, and may block so long."""


class NoSpans:
    """Nobody asked for any."""

    def request(self, headers: Headers) -> AbstractContextManager[Answered]:
        return contextlib.nullcontext(_unheard)

    def tool(self, name: str, outcome: Outcome) -> AbstractContextManager[None]:
        return unspanned(name, outcome)

    def close(self) -> None:
        pass


def _unheard(*, method: str, route: str, status: int) -> None:
    pass


NONE = NoSpans()
