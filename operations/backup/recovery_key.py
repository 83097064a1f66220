"""The owner's recovery key: twelve words that open every backup sealed to its public half.

The words are those of BIP 39 and contain 128 random bits and a checksum. The server stores the public
half alone (X25519), so that a schedule can make backups that nobody opens without the words.
"""

import difflib
import hashlib
import re
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Self

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from mnemonic import Mnemonic

from operations.backup.errors import OtherRecoveryKeyError, RecoveryWordsError, WrongKeyError

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
