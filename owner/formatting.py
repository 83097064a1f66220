"""Format times, grant states and counts for the owner's pages."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime

from django.utils.html import format_html
from django.utils.safestring import SafeString

from evidence.access.grant_states import GrantState
from evidence.access.grant_text import StreamDescription, describe_stream, format_day
from evidence.access.scope import StreamTerms
from evidence.declarations.declaration import StreamDeclaration
from owner.record_text import escape_invisible


def format_time(moment: datetime | None, *, never: str = "never") -> str:
    """Return ``21 November 2026, 22:55`` in UTC, or `never` for None."""
    return never if moment is None else f"{format_day(moment)}, {moment:%H:%M}"


def state_badge(state: GrantState) -> SafeString:
    """Return the state's label in its color."""
    return format_html('<span class="state state-{}">{}</span>', state.value, state.label)


def describe_terms(
    terms: StreamTerms, *, stream: StreamDeclaration | None, labels: Mapping[str, str]
) -> StreamDescription:
    """Describe the terms of a stream, with invisible characters in record keys escaped."""
    words = describe_stream(terms, stream=stream, labels=labels)
    if words.record_keys is None:
        return words
    return replace(words, record_keys=tuple(map(escape_invisible, words.record_keys)))


def with_code(text: str, *commands: str) -> SafeString:
    """Replace each ``{}`` in `text` with a command in a code element."""
    return format_html(text, *(format_html("<code>{}</code>", command) for command in commands))


def pluralize(count: int, noun: str) -> str:
    """Return ``1 record`` or ``2,400 records``."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
