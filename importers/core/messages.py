"""Exchange messages with the sandbox: the length of a JSON object, the object, and bytes."""

from collections.abc import Iterable
from typing import IO, Any

import orjson

from importers.core.text import to_storable_json

HEADER_MAX_BYTES = 32 * 1024 * 1024
HEADER_MAX_VALUES = 1_000_000
"""A value takes up to thirty times the memory of its text, such as each list of `[[],[],[]]`."""

TOO_LONG = "sent too long a message"


class MessageError(Exception):
    """The other side exited or sent something else than a message."""


def write_message(stream: IO[bytes], header: dict[str, Any], payload: Iterable[bytes] = ()) -> None:
    try:
        content = orjson.dumps(header)
    except TypeError:  # such as a lone surrogate
        content = orjson.dumps(to_storable_json(header))
    stream.write(b"%d\n" % len(content))
    stream.write(content)
    for part in payload:
        stream.write(part)
    stream.flush()


def read_message(stream: IO[bytes]) -> dict[str, Any]:
    """Return the object; the bytes that follow it remain in the stream. Raises ``MessageError``."""
    line = stream.readline(20)
    if not line.strip().isdigit():
        raise MessageError("exited" if not line else "sent something else than a message")
    if int(line) > HEADER_MAX_BYTES:
        raise MessageError(TOO_LONG)
    content = read_exactly(stream, int(line))
    if sum(map(content.count, (b",", b"[", b"{"))) > HEADER_MAX_VALUES:
        raise MessageError(TOO_LONG)
    try:
        header = orjson.loads(content)
    except orjson.JSONDecodeError:
        raise MessageError("sent something else than a message") from None
    if not isinstance(header, dict):
        raise MessageError("sent something else than a message")
    return header


def read_exactly(stream: IO[bytes], size: int) -> bytes:
    """Raises ``MessageError`` at the end of the stream."""
    content = stream.read(size)
    if len(content) < size:
        raise MessageError("exited")
    return content
