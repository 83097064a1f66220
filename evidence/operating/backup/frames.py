"""The inside of a backup: frames of a kind and a content, compressed, in a sealed stream."""

import zlib
from collections.abc import Iterator
from enum import Enum
from typing import Any, NamedTuple

import orjson

from evidence.operating.backup.faults import Damaged
from evidence.operating.backup.sealing import Opener, Sealer

LEVEL = 1
FRAME_BYTES = 256 * 1024 * 1024
"""A row or a little more; whoever knows the key could write any length."""


class Kind(Enum):
    MANIFEST = b"M"
    TABLE = b"T"
    ROWS = b"R"
    TABLE_ENDS = b"E"
    CLOSING = b"C"


_KINDS = {kind.value: kind for kind in Kind}


class Frame(NamedTuple):
    kind: Kind
    content: bytes

    @property
    def told(self) -> Any:
        """The content as JSON."""
        return orjson.loads(self.content)


class FrameWriter:
    def __init__(self, sealer: Sealer) -> None:
        self._sealer = sealer
        self._packer = zlib.compressobj(LEVEL)

    def write(self, kind: Kind, content: bytes) -> None:
        for part in (kind.value, len(content).to_bytes(4), content):
            self._sealer.write(self._packer.compress(part))

    def tell(self, kind: Kind, content: object) -> None:
        self.write(kind, orjson.dumps(content))

    def close(self) -> None:
        self._sealer.write(self._packer.flush())
        self._sealer.close()


def frames(opener: Opener) -> Iterator[Frame]:
    """What was written, in order. Raises the faults of ``Opener``; the last frame is only given
    once the stream was read to its end."""
    waiting, held = bytearray(), None
    for part in _unpacked(opener):
        waiting += part
        while len(waiting) >= 5 and len(waiting) >= (size := _size(waiting)):
            if held is not None:
                yield held
            held = Frame(_KINDS[bytes(waiting[:1])], bytes(waiting[5:size]))
            del waiting[:size]
    if waiting or held is None:
        raise Damaged
    yield held


def _size(waiting: bytearray) -> int:
    """Of the frame that begins here; raises ``Damaged`` for what no frame is, before it is there."""
    size = 5 + int.from_bytes(waiting[1:5])
    if bytes(waiting[:1]) not in _KINDS or size > FRAME_BYTES:
        raise Damaged
    return size


def _unpacked(opener: Opener) -> Iterator[bytes]:
    packer = zlib.decompressobj()
    while not opener.is_at_end:
        content = opener.read()
        # A piece of nothing but zeros would come to a thousand times its size.
        while content:
            try:
                part = packer.decompress(content, 1024 * 1024)
            except zlib.error:
                raise Damaged from None
            yield part
            content = packer.unconsumed_tail
    yield packer.flush()
