"""Lines of a stream of bytes, without ever holding one that is too long."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from evidence import limits

LINE_BYTES = limits.INGEST_MAX_BYTES
"""The longest line that is read unless the caller says otherwise."""
_SKIPPED_AT_ONCE = 64 * 1024
_BOM = b"\xef\xbb\xbf"


class Readable(Protocol):
    """A file, standard input or the body of a request."""

    def readline(self, size: int = -1, /) -> bytes: ...


@dataclass(frozen=True, slots=True)
class Line:
    """``number`` counts from 1, blank lines included; ``content`` is None for a line too long."""

    number: int
    content: bytes | None


def read_lines(stream: Readable, *, longest: int = LINE_BYTES) -> Iterator[Line]:
    """Every line that is not blank, without its end."""
    number = 0
    while content := stream.readline(longest + 1):
        number += 1
        if len(content) > longest and not content.endswith(b"\n"):
            _skip(stream)
            yield Line(number, None)
            continue
        if number == 1:
            content = content.removeprefix(_BOM)
        if content := content.strip(b" \t\r\n"):
            yield Line(number, content)


def _skip(stream: Readable) -> None:
    """Reads on to the end of the line that has begun."""
    while rest := stream.readline(_SKIPPED_AT_ONCE):
        if rest.endswith(b"\n"):
            return
