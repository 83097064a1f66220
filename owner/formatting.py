"""Times, states and amounts as the pages write them."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime

from django.utils.html import format_html
from django.utils.safestring import SafeString

from evidence.access.grant_states import State
from evidence.access.grant_text import StreamInWords, day, in_words
from evidence.access.scope import StreamTerms
from evidence.declarations.declaration import StreamDeclaration
from owner.record_text import plain


def when(moment: datetime | None, *, never: str = "never") -> str:
    """``21 November 2026, 22:55`` in UTC."""
    return never if moment is None else f"{day(moment)}, {moment:%H:%M}"


def mark(state: State) -> SafeString:
    """The state as a coloured word."""
    return format_html('<span class="state state-{}">{}</span>', state.value, state.label)


def worded(
    terms: StreamTerms, *, stream: StreamDeclaration | None, labels: Mapping[str, str]
) -> StreamInWords:
    """What a grant says of a stream, with record keys that hide nothing."""
    words = in_words(terms, stream=stream, labels=labels)
    if words.record_keys is None:
        return words
    return replace(words, record_keys=tuple(map(plain, words.record_keys)))


def with_code(text: str, *commands: str) -> SafeString:
    """``text`` with each ``{}`` in it a command to type."""
    return format_html(text, *(format_html("<code>{}</code>", each) for each in commands))


def counted(count: int, noun: str) -> str:
    """``1 record``, ``2,400 records``."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
