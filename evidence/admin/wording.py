"""Times, states and amounts as the pages write them."""

from datetime import datetime

from django.utils.html import format_html
from django.utils.safestring import SafeString

from evidence.access.describing import day
from evidence.access.held import State


def when(moment: datetime | None, *, never: str = "never") -> str:
    """``21 November 2026, 22:55`` in UTC."""
    return never if moment is None else f"{day(moment)}, {moment:%H:%M}"


def mark(state: State) -> SafeString:
    """The state as a coloured word."""
    return format_html('<span class="state state-{}">{}</span>', state.value, state.label)


def with_code(text: str, *commands: str) -> SafeString:
    """``text`` with each ``{}`` in it a command to type."""
    return format_html(text, *(format_html("<code>{}</code>", each) for each in commands))


def counted(count: int, noun: str) -> str:
    """``1 record``, ``2,400 records``."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
