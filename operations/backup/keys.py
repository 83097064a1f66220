"""The recovery key: twelve words that open every backup which is encrypted to their public half.

The words are those of BIP 39 and contain 128 random bits and a checksum. The key of age is derived from
them. The server stores its public half alone, so that a schedule makes backups which nobody opens
without the words.
"""

import difflib
import hashlib
import re
import secrets
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Self

import pyrage
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from mnemonic import Mnemonic
from pyrage.x25519 import Identity, Recipient

KEY_BYTES = 16
WORD_COUNT = 12
SUGGESTIONS = 3
SECRET_LINE = re.compile(r"AGE-SECRET-KEY-1[A-Z0-9]+")
KEY_FILE_MAX_CHARS = 64 * 1024
BECH32 = "qpzry9x8gf2tvdw0s3jn54khce6mua7l"  # pragma: allowlist secret
BECH32_GENERATORS = (0x3B6A57B2, 0x26508E6D, 0x1EA119FA, 0x3D4233DD, 0x2A1462B3)

_BIP39 = Mnemonic("english")


class BackupError(Exception):
    """The backup cannot be used. The docstring of a class is its message, with a detail as {}."""

    def __init__(self, detail: str = "") -> None:
        super().__init__(" ".join((self.__doc__ or "").split()).format(detail))


class WrongKeyError(BackupError):
    """The key does not open this backup. Use the one that the backup was made with."""


class InvalidKeyFileError(BackupError):
    """The key file has no line AGE-SECRET-KEY-1…. Create one with: --key-file KEY --make-key"""


class RecoveryWordsError(BackupError):
    """These words are not a recovery key. {} Compare them with what you wrote down."""


class OtherRecoveryKeyError(BackupError):
    """The backup needs another recovery key; these words are {}. Use the words of that key, or a
    backup that was made with this one."""


@dataclass(frozen=True, slots=True)
class RecoveryKey:
    """A recovery key. Only the owner keeps it."""

    entropy: bytes = field(repr=False)

    @classmethod
    def generate(cls) -> Self:
        return cls(secrets.token_bytes(KEY_BYTES))

    @classmethod
    def parse(cls, text: str, *, fits: Callable[[Self], bool] | None = None) -> Self:
        """Return the key of twelve words; numbers and punctuation between them do not matter.

        `fits` returns whether a key is the one that a backup needs. Raises RecoveryWordsError, which
        names the wrong word where it can be found, and OtherRecoveryKeyError.
        """
        words = re.findall(r"[^\W\d_]+", text.lower())
        _require_known(words)
        key = cls(bytes(_BIP39.to_entropy(words))) if _BIP39.check(" ".join(words)) else None
        if key is not None and (fits is None or fits(key)):
            return key
        # Without a backup, the checksum fits too many keys to tell which word is wrong.
        if fits is not None and (mistake := cls._find_mistake(words, fits)):
            raise RecoveryWordsError(mistake)
        if key is not None:
            raise OtherRecoveryKeyError(key.fingerprint)
        raise RecoveryWordsError("Their checksum fails: a word is wrong, or in another place.")

    @classmethod
    def _find_mistake(cls, words: Sequence[str], fits: Callable[[Self], bool]) -> str:
        """Return which word is wrong, or which two changed places, if that alone gives the key.

        Takes some seconds.
        """
        for message, candidate in _single_mistakes(words):
            if _BIP39.check(" ".join(candidate)) and fits(cls(bytes(_BIP39.to_entropy(candidate)))):
                return message
        return ""

    @property
    def words(self) -> list[str]:
        return _BIP39.to_mnemonic(self.entropy).split()

    @property
    def secret_line(self) -> str:
        """Return the line that age reads in a key file."""
        derived = HKDF(algorithm=SHA256(), length=32, salt=None, info=b"pdpp recovery key")
        return _bech32("age-secret-key-", derived.derive(self.entropy)).upper()

    @property
    def identity(self) -> Identity:
        return Identity.from_str(self.secret_line)

    @property
    def recipient(self) -> str:
        """Return the public half as age writes it."""
        return str(self.identity.to_public())

    @property
    def fingerprint(self) -> str:
        return fingerprint(self.recipient)


def fingerprint(recipient: str) -> str:
    """Return the name of a key, such as `1a2b-3c4d`, which tells keys apart and proves nothing."""
    digest = hashlib.sha256(recipient.encode()).hexdigest()
    return f"{digest[:4]}-{digest[4:8]}"


def parse_identity(line: str) -> Identity:
    """Return the first secret key of a text in age's format. Raises InvalidKeyFileError."""
    found = SECRET_LINE.search(line)
    try:
        return Identity.from_str(found[0] if found else "")
    except pyrage.IdentityError:
        raise InvalidKeyFileError from None


def read_key_file(path: Path) -> Identity:
    """Raises InvalidKeyFileError and OSError."""
    with path.open(encoding="utf-8", errors="replace") as file:
        return parse_identity(file.read(KEY_FILE_MAX_CHARS))


@dataclass(frozen=True, slots=True)
class FileKey:
    """A key of one backup file alone, so that a drill of it needs no key that opens others.

    ``sealed`` is its secret half, encrypted to the recovery key.
    """

    recipients: Sequence[Recipient]
    sealed: bytes

    @classmethod
    def generate(cls, recovery_recipient: str) -> Self:
        recovery, key = Recipient.from_str(recovery_recipient), Identity.generate()
        return cls([recovery, key.to_public()], pyrage.encrypt(str(key).encode(), [recovery]))


def open_file_key(sealed: bytes, key: RecoveryKey) -> str:
    """Return the secret line of a file's own key. Raises WrongKeyError."""
    try:
        return pyrage.decrypt(sealed, [key.identity]).decode()
    except pyrage.DecryptError:
        raise WrongKeyError from None


def _require_known(words: Sequence[str]) -> None:
    """Raise RecoveryWordsError for another number of words, or for one that is not in the list."""
    for position, word in enumerate(words, start=1):
        if word not in _BIP39.wordlist:
            similar = difflib.get_close_matches(word, _BIP39.wordlist, n=SUGGESTIONS)
            hint = f" Similar words: {', '.join(similar)}." if similar else ""
            raise RecoveryWordsError(f"Word {position}, “{word}”, is in no recovery key.{hint}")
    if len(words) != WORD_COUNT:
        raise RecoveryWordsError(f"It has {WORD_COUNT} words; got {len(words)}.")


def _single_mistakes(words: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    for first, second in combinations(range(len(words)), 2):
        swapped = list(words)
        swapped[first], swapped[second] = swapped[second], swapped[first]
        yield f"Words {first + 1} and {second + 1} have changed places.", swapped
    for position, wrong in enumerate(words):
        for word in _BIP39.wordlist:
            message = f"Word {position + 1}, “{wrong}”, is wrong."
            yield message, [*words[:position], word, *words[position + 1 :]]


def _bech32(prefix: str, content: bytes) -> str:
    """Encode a key as text with a checksum (BIP 173), as age writes it."""
    count = -(-8 * len(content) // 5)
    number = int.from_bytes(content) << (5 * count - 8 * len(content))
    values = [number >> 5 * place & 31 for place in reversed(range(count))]
    high, low = ([ord(char) >> 5 for char in prefix], [ord(char) & 31 for char in prefix])
    remainder = 1
    for value in [*high, 0, *low, *values, *[0] * 6]:
        top = remainder >> 25
        remainder = (remainder & 0x1FFFFFF) << 5 ^ value
        for bit, generator in enumerate(BECH32_GENERATORS):
            remainder ^= generator if top >> bit & 1 else 0
    checksum = [(remainder ^ 1) >> 5 * place & 31 for place in reversed(range(6))]
    return f"{prefix}1{''.join(BECH32[value] for value in values + checksum)}"
