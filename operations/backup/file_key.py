"""The key of one backup file, derived from a passphrase, a key file or a secret sealed in its header."""

import hashlib
import secrets
from dataclasses import dataclass, field
from typing import IO, NamedTuple

import orjson
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

from operations.backup.errors import (
    NewerFormatError,
    NotABackupError,
    OtherRecoveryKeyError,
    WeakKeyError,
    WrongKeyError,
)
from operations.backup.recovery_key import RecoveryKey, fingerprint, seal

MAGIC = b"pdpp backup "
FORMAT_VERSION = 2
"""Version 1 had no recovery keys; otherwise it is the same."""
HEADER_LINE_MAX_BYTES = 1_024
SCRYPT_LOG_N = 16
"""64 MiB and about 0.2 seconds for each guess."""
SCRYPT_LOG_N_ALLOWED = range(14, 21)
PASSPHRASE_MIN_CHARS = 12
KEY_FILE_MIN_BYTES = 32
RECOVERY = "recovery"
NEEDS = {
    "passphrase": "a passphrase",
    "file": "a key file (--key-file)",
    RECOVERY: "the words of recovery key {fingerprint}",
}


@dataclass(frozen=True, slots=True)
class Secret:
    """What opens a backup. Raises WeakKeyError if a passphrase or key file is too short.

    `kind` is `passphrase`, `file`, or `recovery`: what a recovery key has opened, for one file alone.
    """

    kind: str
    content: bytes = field(repr=False)

    def __post_init__(self) -> None:
        is_passphrase = self.kind == "passphrase"
        length = len(self.content.decode()) if is_passphrase else len(self.content)
        minimum = PASSPHRASE_MIN_CHARS if is_passphrase else KEY_FILE_MIN_BYTES
        if self.kind in ("passphrase", "file") and length < minimum:
            raise WeakKeyError


@dataclass(frozen=True, slots=True)
class Recipient:
    """The public half of a recovery key, to which a backup is sealed without any secret."""

    public_key: bytes


class FileHeader(NamedTuple):
    """The two lines before the chunks: the format, and how to derive the key.

    `sealed` is the secret of the file, sealed to the recovery key with this fingerprint.
    """

    version: int
    kind: str
    salt: bytes
    log_n: int = SCRYPT_LOG_N
    fingerprint: str = ""
    sealed: bytes = b""

    @property
    def lines(self) -> bytes:
        members: dict[str, object] = {"key": self.kind, "salt": self.salt.hex()}
        if self.kind == RECOVERY:
            members |= {"fingerprint": self.fingerprint, "sealed": self.sealed.hex()}
        else:
            members["log_n"] = self.log_n
        return MAGIC + b"%d\n" % self.version + orjson.dumps(members) + b"\n"

    def derive_key(self, secret: Secret) -> bytes:
        """Return the key of the file. Raises WrongKeyError."""
        if self.kind != secret.kind:
            raise WrongKeyError(self.needs)
        material = secret.content
        if self.kind == "passphrase":
            material = Scrypt(salt=self.salt, length=32, n=2**self.log_n, r=8, p=1).derive(material)
        info = b"pdpp backup" + hashlib.sha256(self.lines).digest()
        return HKDF(algorithm=SHA256(), length=32, salt=self.salt, info=info).derive(material)

    def unlock(self, key: RecoveryKey) -> Secret:
        """Open the secret of this file. Raises WrongKeyError and OtherRecoveryKeyError."""
        if self.kind != RECOVERY:
            raise WrongKeyError(self.needs)
        if (found := fingerprint(key.public_key)) != self.fingerprint:
            raise OtherRecoveryKeyError(f"It needs {self.fingerprint}; these words are {found}.")
        return Secret(RECOVERY, key.open(self.sealed))

    @property
    def needs(self) -> str:
        """Return a sentence that names what opens the file."""
        needed = NEEDS.get(self.kind, "something else").format(fingerprint=self.fingerprint)
        return f"It needs {needed}."


def new_header(secret: Secret | Recipient) -> tuple[FileHeader, bytes]:
    """Return the header of a new file, and its key."""
    salt = secrets.token_bytes(16)
    if isinstance(secret, Secret):
        header = FileHeader(FORMAT_VERSION, secret.kind, salt)
        return header, header.derive_key(secret)
    content = secrets.token_bytes(32)
    header = FileHeader(
        FORMAT_VERSION,
        RECOVERY,
        salt,
        fingerprint=fingerprint(secret.public_key),
        sealed=seal(content, secret.public_key),
    )
    return header, header.derive_key(Secret(RECOVERY, content))


def read_header(file: IO[bytes]) -> FileHeader:
    """Read the header, which is not authenticated yet.

    Raises NotABackupError, NewerFormatError and WrongKeyError.
    """
    line = _read_line(file)
    version = line.removeprefix(MAGIC).strip()
    if not line.startswith(MAGIC) or not version.isdigit():
        raise NotABackupError
    if int(version) > FORMAT_VERSION:
        raise NewerFormatError
    parameters = _read_line(file)
    try:
        header = _parse(int(version), orjson.loads(parameters))
    except (KeyError, TypeError, ValueError):
        raise WrongKeyError from None
    if header.log_n not in SCRYPT_LOG_N_ALLOWED or header.lines != line + parameters:
        raise WrongKeyError
    return header


def _parse(version: int, members: dict[str, str]) -> FileHeader:
    kind, salt = str(members["key"]), bytes.fromhex(members["salt"])
    if kind == RECOVERY:
        sealed = bytes.fromhex(members["sealed"])
        return FileHeader(
            version, kind, salt, fingerprint=str(members["fingerprint"]), sealed=sealed
        )
    return FileHeader(version, kind, salt, log_n=int(members["log_n"]))


def _read_line(file: IO[bytes]) -> bytes:
    line = file.readline(HEADER_LINE_MAX_BYTES)
    if not line.endswith(b"\n"):
        raise NotABackupError
    return line
