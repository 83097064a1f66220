"""Exchange messages with the sandbox: the length of a JSON object, the object, and bytes."""

from collections.abc import Iterable
from typing import IO, Any

import orjson

from importers.core.text import to_storable_json

HEADER_MAX_BYTES = 64 * 1024 * 1024


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
    if not line.strip().isdigit() or int(line) > HEADER_MAX_BYTES:
        raise MessageError("exited" if not line else "sent something else than a message")
    try:
        header = orjson.loads(read_exactly(stream, int(line)))
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
