"""Twelve words are a recovery key; mistakes in them are found and named."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operations.backup.keys import (
    BackupError,
    FileKey,
    OtherRecoveryKeyError,
    RecoveryKey,
    RecoveryWordsError,
    WrongKeyError,
    open_file_key,
    parse_identity,
)

pytestmark = pytest.mark.slow

KEY = RecoveryKey(bytes(range(16)))
WORDS = [
    "abandon",
    "amount",
    "liar",
    "amount",
    "expire",
    "adjust",
    "cage",
    "candy",
    "arch",
    "gather",
    "drum",
    "buyer",
]


def fits(key: RecoveryKey) -> bool:
    return key == KEY


def text(words: list[str]) -> str:
    return " ".join(words)


@given(st.binary(min_size=16, max_size=16))
def test_words_give_the_same_key(entropy: bytes) -> None:
    key = RecoveryKey(entropy)

    assert len(key.words) == 12
    assert RecoveryKey.parse(text(key.words)) == key


def test_words_are_those_of_bip_39() -> None:
    assert KEY.words == WORDS
    assert RecoveryKey(bytes(16)).words == [*["abandon"] * 11, "about"]


def test_case_numbers_and_lines_do_not_matter() -> None:
    numbered = "\n".join(f"{n}. {word.upper()}," for n, word in enumerate(WORDS, 1))

    assert RecoveryKey.parse(numbered, fits=fits) == KEY


def test_new_keys_differ_and_show_no_secret_in_their_text() -> None:
    key = RecoveryKey.generate()

    assert key != RecoveryKey.generate()
    assert len(key.entropy) * 8 >= 128
    assert repr(key) == "RecoveryKey()"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (WORDS[:-1], r"It has 12 words; got 11\."),
        ([*WORDS, "about"], r"It has 12 words; got 13\."),
        ([], r"It has 12 words; got 0\."),
        ([*WORDS[:4], "expyre", *WORDS[5:]], r"Word 5, “expyre”, is in no .*Similar words: expire"),
        ([*WORDS[:-1], "about"], r"Word 12, “about”, is wrong\."),
        ([*WORDS[:4], "legal", *WORDS[5:]], r"Word 5, “legal”, is wrong\."),
        ([WORDS[1], WORDS[0], *WORDS[2:]], r"Words 1 and 2 have changed places\."),
        pytest.param(
            [*WORDS[:4], "legal", "winner", *WORDS[6:]],
            r"checksum fails|another recovery key",
            marks=pytest.mark.slow,  # tries every pair
        ),
    ],
)
def test_mistake_is_named(words: list[str], message: str) -> None:
    with pytest.raises(BackupError, match=message):
        RecoveryKey.parse(text(words), fits=fits)


@pytest.mark.slow
def test_every_single_mistake_is_found() -> None:
    """The checksum has four bits: one mistake in sixteen gives another key."""
    for wrong in ("zoo", "legal", "winner"):
        with pytest.raises(RecoveryWordsError, match="Word 3, “"):
            RecoveryKey.parse(text([*WORDS[:2], wrong, *WORDS[3:]]), fits=fits)


def test_words_of_another_key_name_it() -> None:
    other = RecoveryKey(bytes(16))

    with pytest.raises(OtherRecoveryKeyError, match=f"these words are {other.fingerprint}"):
        RecoveryKey.parse(text(other.words), fits=fits)


def test_without_a_backup_only_the_checksum_is_known() -> None:
    with pytest.raises(RecoveryWordsError, match="checksum fails: a word is wrong, or in another"):
        RecoveryKey.parse(text([*WORDS[:-1], "about"]))


@given(st.binary(min_size=16, max_size=16))
def test_line_for_age_is_the_same_key(entropy: bytes) -> None:
    key = RecoveryKey(entropy)

    assert str(parse_identity(f"# created today\n{key.secret_line}\n")) == key.secret_line


def test_words_give_the_same_line_for_age_forever() -> None:
    """Or the words on paper would open nothing."""
    assert KEY.secret_line == (
        "AGE-SECRET-KEY-1Q028D0RQUQZTAFZSDRKGFL83KT3JKAADR464SX35U0X3MEY43Y4QUU337T"
    )


def test_key_of_one_file_opens_with_the_recovery_key_alone() -> None:
    key = FileKey.generate(KEY.recipient)

    assert str(parse_identity(open_file_key(key.sealed, KEY)).to_public()) == str(key.recipients[1])
    with pytest.raises(WrongKeyError):
        open_file_key(key.sealed, RecoveryKey(bytes(16)))
