"""Backup file format: compressed frames in authenticated chunks (ChaCha20-Poly1305, STREAM).

A file starts with one line that names the format and one with the key parameters. Both enter the
key derivation, so neither can be changed. Chunks of 64 KiB follow. The nonce of a chunk contains its
number and whether it is the last, so chunks cannot be reordered, dropped or appended. The key comes
from a passphrase (scrypt) or a key file, and from a salt, so that no two files share a key.
"""

import hashlib
import secrets
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import IO, Any, NamedTuple

import orjson
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

from operations.backup.errors import (
    DamagedError,
    NewerFormatError,
    NotABackupError,
    TruncatedError,
    WeakKeyError,
    WrongKeyError,
)

MAGIC = b"pdpp backup "
FORMAT_VERSION = 1
CHUNK_BYTES = 64 * 1024
TAG_BYTES = 16
HEADER_LINE_MAX_BYTES = 1_024
SCRYPT_LOG_N = 16
"""64 MiB and about 0.2 seconds for each guess."""
SCRYPT_LOG_N_ALLOWED = range(14, 21)
PASSPHRASE_MIN_CHARS = 12
KEY_FILE_MIN_BYTES = 32
COMPRESSION_LEVEL = 1
FRAME_MAX_BYTES = 256 * 1024 * 1024
"""Larger than any batch of rows. The key holder could write any length into a file."""
DECOMPRESS_MAX_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Secret:
    """The secret of a backup. `kind` is `passphrase` or `file`. Raises WeakKeyError if too short."""

    kind: str
    content: bytes

    def __post_init__(self) -> None:
        is_passphrase = self.kind == "passphrase"
        minimum = PASSPHRASE_MIN_CHARS if is_passphrase else KEY_FILE_MIN_BYTES
        length = len(self.content.decode()) if is_passphrase else len(self.content)
        if length < minimum:
            raise WeakKeyError


class KeyParameters(NamedTuple):
    """The parameters of the key derivation."""

    kind: str
    salt: bytes
    log_n: int

    @property
    def header_line(self) -> bytes:
        members = {"key": self.kind, "salt": self.salt.hex(), "log_n": self.log_n}
        return orjson.dumps(members) + b"\n"


class EncryptedWriter:
    """Encrypts a stream of bytes to `file`. The result is readable only after `close`."""

    def __init__(self, file: IO[bytes], secret: Secret) -> None:
        parameters = KeyParameters(secret.kind, secrets.token_bytes(16), SCRYPT_LOG_N)
        header = MAGIC + b"%d\n" % FORMAT_VERSION + parameters.header_line
        file.write(header)
        self._file = file
        self._cipher = ChaCha20Poly1305(_derive_key(secret, parameters, header))
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
        header = _read_header_line(file)
        version = header.removeprefix(MAGIC).strip()
        if not header.startswith(MAGIC) or not version.isdigit():
            raise NotABackupError
        if int(version) > FORMAT_VERSION:
            raise NewerFormatError
        line = _read_header_line(file)
        self._file = file
        self._cipher = ChaCha20Poly1305(
            _derive_key(secret, _parse_key_parameters(line), header + line)
        )
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
            raise DamagedError if self._number else WrongKeyError
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


def _read_header_line(file: IO[bytes]) -> bytes:
    line = file.readline(HEADER_LINE_MAX_BYTES)
    if not line.endswith(b"\n"):
        raise NotABackupError
    return line


def _parse_key_parameters(line: bytes) -> KeyParameters:
    """Parse the header line, which is not authenticated yet. Raises WrongKeyError."""
    try:
        members = orjson.loads(line)
        salt, kind, log_n = bytes.fromhex(members["salt"]), members["key"], members["log_n"]
    except (KeyError, TypeError, ValueError):
        raise WrongKeyError from None
    if type(log_n) is not int or log_n not in SCRYPT_LOG_N_ALLOWED:
        raise WrongKeyError
    return KeyParameters(kind, salt, log_n)


def _derive_key(secret: Secret, parameters: KeyParameters, header: bytes) -> bytes:
    material, salt = secret.content, parameters.salt
    if parameters.kind != secret.kind:
        raise WrongKeyError
    if secret.kind == "passphrase":
        material = Scrypt(salt=salt, length=32, n=2**parameters.log_n, r=8, p=1).derive(material)
    info = b"pdpp backup" + hashlib.sha256(header).digest()
    return HKDF(algorithm=SHA256(), length=32, salt=salt, info=info).derive(material)


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
