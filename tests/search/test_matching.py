"""Test phrase verification and finding a quote in a text."""

import pytest

from evidence.search.analysis.highlighter import find_occurrence
from evidence.search.analysis.matcher import needs_verification, verify
from evidence.search.analysis.query import parse

TEXT = "We signed the lease by e-mail on 2024-03-05. 東京出張の資料。 Häuser, l'hôtel de ville."


@pytest.mark.parametrize(
    ("q", "matches"),
    [
        ('"signed the lease"', True),
        ('"SIGNED  the, leases"', True),
        ('"the signed lease"', False),
        ('"lease by email"', True),
        ('"by e mail on 5.3.2024"', True),
        ('"東京出張"', True),
        ('"出張東京"', False),
        ('"haus l\'hotel"', True),
        ('"hotel de ville"', True),
        ('lease -"signed lease"', True),
        ('lease -"the lease"', False),
        ('lease -"rocket science"', True),
        ('rocket OR "the lease"', True),
        ("lease -e-mail", False),
        ("lease -(signed -rocket)", False),
        ("lease -(rocket -signed)", True),
        ("sign* lea*", True),
        ("lea* -sign*", False),
        ("lease -mail-by", True),
    ],
)
def test_phrase_matches_words_in_order(q: str, matches: bool) -> None:
    assert verify({"body": TEXT}, parse(q), languages=("en", "de")) is matches


def test_words_match_across_fields_and_phrases_within_one() -> None:
    texts = {"subject": "signed", "body": "the lease"}
    assert verify(texts, parse("signed lease"), languages=())
    assert not verify(texts, parse('"signed the lease"'), languages=())


def test_field_restriction_excludes_other_fields() -> None:
    texts = {"subject": "signed", "body": "the lease"}
    fields = {"subject", "body"}
    assert verify(texts, parse("subject:signed", fields=fields), languages=())
    assert not verify(texts, parse("body:signed", fields=fields), languages=())


@pytest.mark.parametrize(
    ("q", "needed"),
    [
        ("signed lease", False),
        ("e-mail", False),
        ('"lease"', False),
        ("lease -draft", False),
        ('"the lease"', True),
        ("lease -e-mail", True),
        ("lease -日本語", True),
    ],
)
def test_only_word_order_needs_verification(q: str, needed: bool) -> None:
    assert needs_verification(parse(q), languages=()) is needed


@pytest.mark.parametrize(
    ("quoted", "found"),
    [
        ("signed the lease", "signed the lease"),
        ("LEASES", "lease"),
        ("email", "e-mail"),
        ("2024-03-05", "2024-03-05"),
        ("haus", "Häuser"),
        ("hotel de ville", "hôtel de ville"),
        ("l'hotel de ville", "l'hôtel de ville"),
        ("東京出張", "東京出張"),
        ("資", "資"),
        ("lease by", "lease by"),
        ("ease", "ease"),
        ("。", "。"),
        ('"lease"', "lease"),
    ],
)
def test_quote_matches_any_case_accent_and_inflection(quoted: str, found: str) -> None:
    match = find_occurrence(TEXT, quoted, languages=("en", "de"))
    assert match is not None
    assert TEXT[slice(*match)] == found


def test_occurrences_are_counted_from_one() -> None:
    text = "lease, Leases; leased"
    starts = [
        find_occurrence(text, "lease", languages=("en",), occurrence=n) for n in (1, 2, 3, 4, 0)
    ]
    assert starts == [(0, 5), (7, 13), (15, 21), None, None]


def test_parts_of_words_match_as_characters() -> None:
    assert find_occurrence("abcabc", "BC", languages=(), occurrence=2) == (4, 6)


@pytest.mark.parametrize("quoted", ["rocket", "", "   ", "lease the signed"])
def test_missing_text_has_no_occurrence(quoted: str) -> None:
    assert find_occurrence(TEXT, quoted, languages=("en",)) is None


def test_overlapping_occurrences_count_once() -> None:
    assert find_occurrence("ha ha ha", "ha ha", languages=(), occurrence=2) is None
