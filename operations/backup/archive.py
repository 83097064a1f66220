"""A stream of bytes in sealed pieces: what is read was written with the same key, in this order, to
its end.

The file begins with a line that names the format and a line that says how the key is made; both go
into the key, so that neither can be changed. Pieces of 64 KiB follow, each sealed with
ChaCha20-Poly1305 under its number and whether it is the last (the STREAM construction). The key is
made of a passphrase (scrypt) or of a key file, and of a salt, so that no two files have the same.
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

from operations.backup.errors import BadKey, CutShort, Damaged, NewerFormat, NotABackup, WrongKey

NAME = b"pdpp backup "
FORMAT = 1
PIECE_BYTES = 64 * 1024
TAG_BYTES = 16
LONGEST_LINE = 1_024
LOG_N = 16
"""64 MiB and about a fifth of a second for each guess."""
LOG_N_ALLOWED = range(14, 21)
PASSPHRASE_CHARS = 12
KEY_BYTES = 32


@dataclass(frozen=True, slots=True)
class Secret:
    """What opens a backup; ``kind`` is ``passphrase`` or ``file``."""

    kind: str
    content: bytes

    def __post_init__(self) -> None:
        is_passphrase = self.kind == "passphrase"
        enough = PASSPHRASE_CHARS if is_passphrase else KEY_BYTES
        length = len(self.content.decode()) if is_passphrase else len(self.content)
        if length < enough:
            raise BadKey


class Described(NamedTuple):
    """How the key of a file is made."""

    kind: str
    salt: bytes
    log_n: int

    @property
    def line(self) -> bytes:
        said = {"key": self.kind, "salt": self.salt.hex(), "log_n": self.log_n}
        return orjson.dumps(said) + b"\n"


class Sealer:
    """Writes to ``file``; nothing of it can be read back before ``close``."""

    def __init__(self, file: IO[bytes], secret: Secret) -> None:
        described = Described(secret.kind, secrets.token_bytes(16), LOG_N)
        head = NAME + b"%d\n" % FORMAT + described.line
        file.write(head)
        self._file = file
        self._cipher = ChaCha20Poly1305(_key(secret, described, head))
        self._waiting = bytearray()
        self._number = 0

    def write(self, content: bytes) -> None:
        self._waiting += content
        while len(self._waiting) > PIECE_BYTES:
            self._seal(bytes(self._waiting[:PIECE_BYTES]), last=False)
            del self._waiting[:PIECE_BYTES]

    def close(self) -> None:
        """Seals the last piece; the file itself stays open."""
        self._seal(bytes(self._waiting), last=True)

    def _seal(self, piece: bytes, *, last: bool) -> None:
        self._file.write(self._cipher.encrypt(_nonce(self._number, last=last), piece, None))
        self._number += 1


class Opener:
    """Reads what a ``Sealer`` wrote, piece by piece. Raises the faults of a file that is none, was
    changed, cut short, or made with another key; what was read before is then not to be used."""

    def __init__(self, file: IO[bytes], secret: Secret) -> None:
        head = _line(file)
        if not head.startswith(NAME) or not head[len(NAME) :].strip().isdigit():
            raise NotABackup
        if int(head[len(NAME) :]) > FORMAT:
            raise NewerFormat
        head += (line := _line(file))
        self._file = file
        self._cipher = ChaCha20Poly1305(_key(secret, _described(line), head))
        self._next = file.read(PIECE_BYTES + TAG_BYTES)
        self._number = 0
        self.is_at_end = False

    def read(self) -> bytes:
        """The next piece; empty at the end."""
        if self.is_at_end:
            return b""
        sealed, self._next = self._next, self._file.read(PIECE_BYTES + TAG_BYTES)
        last = not self._next
        piece = self._opened(sealed, last=last)
        self._number += 1
        self.is_at_end = last
        return piece

    def _opened(self, sealed: bytes, *, last: bool) -> bytes:
        piece = self._tried(sealed, last=last)
        if piece is not None:
            return piece
        if last and (not sealed or self._tried(sealed, last=False) is not None):
            raise CutShort
        raise Damaged if self._number else WrongKey

    def _tried(self, sealed: bytes, *, last: bool) -> bytes | None:
        try:
            return self._cipher.decrypt(_nonce(self._number, last=last), sealed, None)
        except InvalidTag:
            return None


def _nonce(number: int, *, last: bool) -> bytes:
    return number.to_bytes(11) + bytes([last])


def _line(file: IO[bytes]) -> bytes:
    line = file.readline(LONGEST_LINE)
    if not line.endswith(b"\n"):
        raise NotABackup
    return line


def _described(line: bytes) -> Described:
    """What a file says of its key. It is not sealed, and so may say anything."""
    try:
        said = orjson.loads(line)
        salt, kind, log_n = bytes.fromhex(said["salt"]), said["key"], said["log_n"]
    except (KeyError, TypeError, ValueError):
        raise WrongKey from None
    if type(log_n) is not int or log_n not in LOG_N_ALLOWED:
        raise WrongKey
    return Described(kind, salt, log_n)


def _key(secret: Secret, described: Described, head: bytes) -> bytes:
    material, salt = secret.content, described.salt
    if described.kind != secret.kind:
        raise WrongKey
    if secret.kind == "passphrase":
        material = Scrypt(salt=salt, length=32, n=2**described.log_n, r=8, p=1).derive(material)
    told = b"pdpp backup" + hashlib.sha256(head).digest()
    return HKDF(algorithm=SHA256(), length=32, salt=salt, info=told).derive(material)


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
