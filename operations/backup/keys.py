"""The key of one backup file, derived from a passphrase, a key file or a secret sealed in its header.

The owner's recovery key is twelve words that open every backup sealed to its public half. The words
are those of BIP 39 and contain 128 random bits and a checksum. The server stores the public half alone
(X25519), so that a schedule can make backups that nobody opens without the words.
"""

import difflib
import hashlib
import re
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import IO, NamedTuple, Self

import orjson
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt
from mnemonic import Mnemonic

from operations.backup.errors import (
    NewerFormatError,
    NotABackupError,
    OtherRecoveryKeyError,
    RecoveryWordsError,
    WeakKeyError,
    WrongKeyError,
)

KEY_BYTES = 16
WORD_COUNT = 12
SUGGESTIONS = 3
SUITE = Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.CHACHA20_POLY1305)
SEALED_FOR = b"pdpp backup file"

_BIP39 = Mnemonic("english")


@dataclass(frozen=True, slots=True)
class RecoveryKey:
    """A recovery key. Only the owner keeps it."""

    entropy: bytes = field(repr=False)

    @classmethod
    def generate(cls) -> Self:
        return cls(secrets.token_bytes(KEY_BYTES))

    @classmethod
    def parse(cls, text: str, *, expected: str = "") -> Self:
        """Return the key of twelve words; numbers and punctuation between them do not matter.

        `expected` is the fingerprint of the key that a backup needs. Raises RecoveryWordsError, which
        names the wrong word where it can be found, and OtherRecoveryKeyError.
        """
        words = re.findall(r"[^\W\d_]+", text.lower())
        _require_known(words)
        if _BIP39.check(" ".join(words)):
            key = cls(bytes(_BIP39.to_entropy(words)))
            found = fingerprint(key.public_key)
            if not expected or found == expected:
                return key
            wrong = _find_mistake(words, expected)
            if not wrong:
                raise OtherRecoveryKeyError(f"It needs {expected}; these words are {found}.")
            raise RecoveryWordsError(wrong)
        raise RecoveryWordsError(
            _find_mistake(words, expected)
            or "Their checksum fails: a word is wrong, or in another place."
        )

    @property
    def words(self) -> list[str]:
        return _BIP39.to_mnemonic(self.entropy).split()

    @property
    def public_key(self) -> bytes:
        return self._private_key.public_key().public_bytes_raw()

    def open(self, sealed: bytes) -> bytes:
        """Return what was sealed to this key. Raises WrongKeyError."""
        try:
            return SUITE.decrypt(sealed, self._private_key, SEALED_FOR)
        except (InvalidTag, ValueError):
            raise WrongKeyError from None

    @property
    def _private_key(self) -> X25519PrivateKey:
        derived = HKDF(algorithm=SHA256(), length=32, salt=None, info=b"pdpp recovery key")
        return X25519PrivateKey.from_private_bytes(derived.derive(self.entropy))


def seal(content: bytes, public_key: bytes) -> bytes:
    """Encrypt for the owner of a recovery key (HPKE, RFC 9180)."""
    return SUITE.encrypt(content, X25519PublicKey.from_public_bytes(public_key), SEALED_FOR)


def fingerprint(public_key: bytes) -> str:
    """Return the name of a key, such as `1a2b-3c4d`, which tells keys apart and proves nothing."""
    digest = hashlib.sha256(public_key).hexdigest()
    return f"{digest[:4]}-{digest[4:8]}"


def _require_known(words: Sequence[str]) -> None:
    """Raise RecoveryWordsError for another number of words, or for one that is not in the list."""
    for position, word in enumerate(words, start=1):
        if word not in _BIP39.wordlist:
            similar = difflib.get_close_matches(word, _BIP39.wordlist, n=SUGGESTIONS)
            hint = f" Similar words: {', '.join(similar)}." if similar else ""
            raise RecoveryWordsError(f"Word {position}, “{word}”, is in no recovery key.{hint}")
    if len(words) != WORD_COUNT:
        raise RecoveryWordsError(f"It has {WORD_COUNT} words; got {len(words)}.")


def _find_mistake(words: Sequence[str], expected: str) -> str:
    """Return which word is wrong, or which two changed places, if that alone gives the expected key.

    Takes about a second. Without the backup's fingerprint, the checksum fits too many keys.
    """
    for message, candidate in _single_mistakes(words) if expected else ():
        if _BIP39.check(" ".join(candidate)):
            key = RecoveryKey(bytes(_BIP39.to_entropy(candidate)))
            if fingerprint(key.public_key) == expected:
                return message
    return ""


def _single_mistakes(words: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    for first, second in combinations(range(len(words)), 2):
        swapped = list(words)
        swapped[first], swapped[second] = swapped[second], swapped[first]
        yield f"Words {first + 1} and {second + 1} have changed places.", swapped
    for position, wrong in enumerate(words):
        for word in _BIP39.wordlist:
            message = f"Word {position + 1}, “{wrong}”, is wrong."
            yield message, [*words[:position], word, *words[position + 1 :]]


MAGIC = b"pdpp backup "
FORMAT_VERSION = 1
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
        return MAGIC + b"%d\n" % FORMAT_VERSION + orjson.dumps(members) + b"\n"

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
        header = FileHeader(secret.kind, salt)
        return header, header.derive_key(secret)
    content = secrets.token_bytes(32)
    header = FileHeader(
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
        header = _parse(orjson.loads(parameters))
    except (KeyError, TypeError, ValueError):
        raise WrongKeyError from None
    if header.log_n not in SCRYPT_LOG_N_ALLOWED or header.lines != line + parameters:
        raise WrongKeyError
    return header


def _parse(members: dict[str, str]) -> FileHeader:
    kind, salt = str(members["key"]), bytes.fromhex(members["salt"])
    if kind == RECOVERY:
        sealed = bytes.fromhex(members["sealed"])
        return FileHeader(kind, salt, fingerprint=str(members["fingerprint"]), sealed=sealed)
    return FileHeader(kind, salt, log_n=int(members["log_n"]))


def _read_line(file: IO[bytes]) -> bytes:
    line = file.readline(HEADER_LINE_MAX_BYTES)
    if not line.endswith(b"\n"):
        raise NotABackupError
    return line
