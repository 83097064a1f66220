"""Backup file format: compressed frames in authenticated chunks (ChaCha20-Poly1305, STREAM).

A file starts with a header of two lines, which enter the derivation of its key, so that neither can be
changed (`operations.backup.keys`). Chunks of 64 KiB follow. The nonce of a chunk contains its
number and whether it is the last, so chunks cannot be reordered, dropped or appended.
"""

import zlib
from collections.abc import Iterator
from enum import Enum
from typing import IO, Any, NamedTuple

import orjson
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from operations.backup.errors import DamagedError, TruncatedError, WrongKeyError
from operations.backup.keys import RECOVERY, Recipient, Secret, new_header, read_header

CHUNK_BYTES = 64 * 1024
TAG_BYTES = 16
COMPRESSION_LEVEL = 1
FRAME_MAX_BYTES = 256 * 1024 * 1024
"""Larger than any batch of rows. The key holder could write any length into a file."""
DECOMPRESS_MAX_BYTES = 1024 * 1024


class EncryptedWriter:
    """Encrypts a stream of bytes to `file`. The result is readable only after `close`."""

    def __init__(self, file: IO[bytes], secret: Secret | Recipient) -> None:
        self.header, key = new_header(secret)
        file.write(self.header.lines)
        self._file = file
        self._cipher = ChaCha20Poly1305(key)
        self._buffer = bytearray()
        self._number = 0

    def write(self, content: bytes) -> None:
        self._buffer += content
        while len(self._buffer) > CHUNK_BYTES:
            self._write_chunk(bytes(self._buffer[:CHUNK_BYTES]), last=False)
            del self._buffer[:CHUNK_BYTES]

    def close(self) -> None:
        """Write the last chunk. Leaves the file open."""
        self._write_chunk(bytes(self._buffer), last=True)

    def _write_chunk(self, chunk: bytes, *, last: bool) -> None:
        self._file.write(self._cipher.encrypt(_nonce(self._number, last=last), chunk, None))
        self._number += 1


class EncryptedReader:
    """Decrypts the output of EncryptedWriter chunk by chunk.

    Raises a BackupError when the file is not a backup, was changed, cut short or encrypted with
    another key. The chunks that were already read are then unusable.
    """

    def __init__(self, file: IO[bytes], secret: Secret) -> None:
        header = read_header(file)
        self._file = file
        self._cipher = ChaCha20Poly1305(header.derive_key(secret))
        # The seal of a recovery key has shown that the secret is right.
        self._is_opened = header.kind == RECOVERY
        self._next = file.read(CHUNK_BYTES + TAG_BYTES)
        self._number = 0
        self.is_at_end = False

    def read(self) -> bytes:
        """Return the next chunk, or empty bytes at the end."""
        if self.is_at_end:
            return b""
        ciphertext, self._next = self._next, self._file.read(CHUNK_BYTES + TAG_BYTES)
        last = not self._next
        chunk = self._decrypt(ciphertext, last=last)
        if chunk is None:
            if last and (not ciphertext or self._decrypt(ciphertext, last=False) is not None):
                raise TruncatedError
            raise DamagedError if self._number or self._is_opened else WrongKeyError
        self._number += 1
        self.is_at_end = last
        return chunk

    def _decrypt(self, ciphertext: bytes, *, last: bool) -> bytes | None:
        try:
            return self._cipher.decrypt(_nonce(self._number, last=last), ciphertext, None)
        except InvalidTag:
            return None


def _nonce(number: int, *, last: bool) -> bytes:
    return number.to_bytes(11) + bytes([last])


class FrameKind(Enum):
    """The type of a frame. A table is one TABLE, any number of ROWS and one TABLE_ENDS."""

    MANIFEST = b"M"
    TABLE = b"T"
    ROWS = b"R"
    TABLE_ENDS = b"E"
    CLOSING = b"C"


_KINDS = {kind.value: kind for kind in FrameKind}


class Frame(NamedTuple):
    """One frame: a kind byte, four bytes of length, and the content."""

    kind: FrameKind
    content: bytes

    @property
    def json(self) -> Any:
        return orjson.loads(self.content)


class FrameWriter:
    """Compresses frames into an EncryptedWriter."""

    def __init__(self, writer: EncryptedWriter) -> None:
        self._writer = writer
        self._compressor = zlib.compressobj(COMPRESSION_LEVEL)

    def write(self, kind: FrameKind, content: bytes) -> None:
        for part in (kind.value, len(content).to_bytes(4), content):
            self._writer.write(self._compressor.compress(part))

    def write_json(self, kind: FrameKind, content: object) -> None:
        self.write(kind, orjson.dumps(content))

    def close(self) -> None:
        self._writer.write(self._compressor.flush())
        self._writer.close()


def read_frames(reader: EncryptedReader) -> Iterator[Frame]:
    """Yield the frames in order. Yields the last one only after the file is verified to its end.

    Raises the errors of EncryptedReader, and DamagedError for an invalid frame.
    """
    buffer, pending = bytearray(), None
    for part in _decompress(reader):
        buffer += part
        while len(buffer) >= 5 and len(buffer) >= (size := _frame_size(buffer)):
            if pending is not None:
                yield pending
            pending = Frame(_KINDS[bytes(buffer[:1])], bytes(buffer[5:size]))
            del buffer[:size]
    if buffer or pending is None:
        raise DamagedError
    yield pending


def _frame_size(buffer: bytearray) -> int:
    """Return the size of the first frame. Raises DamagedError before the content is read."""
    size = 5 + int.from_bytes(buffer[1:5])
    if bytes(buffer[:1]) not in _KINDS or size > FRAME_MAX_BYTES:
        raise DamagedError
    return size


def _decompress(reader: EncryptedReader) -> Iterator[bytes]:
    decompressor = zlib.decompressobj()
    while not reader.is_at_end:
        content = reader.read()
        # Limited output: a chunk of zeros would expand to a thousand times its size.
        while content:
            try:
                part = decompressor.decompress(content, DECOMPRESS_MAX_BYTES)
            except zlib.error:
                raise DamagedError from None
            yield part
            content = decompressor.unconsumed_tail
    yield decompressor.flush()
