"""Test that hostile texts and queries take bounded work."""

import time
from collections.abc import Callable

import pytest

from evidence.search.analysis.highlighter import best_passages, find_occurrence
from evidence.search.analysis.matcher import verify
from evidence.search.analysis.query import Query, parse
from evidence.search.analysis.segmentation import TermFilter
from evidence.search.analysis.tokenizer import UNITS_PER_TEXT, WorkLimit, find_tokens
from evidence.search.suggestions import similar_runs, words_with_prefix

pytestmark = pytest.mark.slow

LANGUAGES = ("en", "de", "fr")
ONE_CHUNK = 65_536 * 18 * 2
"""What may be spent beyond a limit: a whole chunk, whose characters may fold into eighteen each."""
SIZE = 2 * UNITS_PER_TEXT
PART = 16
"""A text PART times as long takes PART times the CPU time or less; in quadratic time, 256 times."""
SPREAD = 60
NOISE_SECONDS = 1.0
HOSTILE = {
    "elisions": "l'",
    "hyphens": "a-",
    "mail signs": "a@",
    "only signs": "-@.",
    "digits": "1,",
    "combining marks": "e\u0301",
    "combining marks on ideographs": "\u65e5\u0301",
    "ideographs": "\u65e5\u672c",
    "ideographs among letters": "a\u65e5",
    "parentheses": "a(b)",
    "hosts": "a.b/c",
    "fractions": "\u00bd",
    "a letter that folds into eighteen": "\ufdfa",
    "one enormous word": "a",
    "no-break spaces": "1\u00a0",
    "one word again and again": "a ",
}


def hostile(kind: str, size: int = SIZE) -> str:
    written = HOSTILE[kind]
    return written * (size // len(written))


def assert_linear(work: Callable[[int], object]) -> None:
    """Compare the CPU time for a text with that for a part of it, so that no machine is too slow.

    Other programs only ever add to the time, so the shortest of three counts.
    """
    allowed = SPREAD * cpu_seconds(work, SIZE // PART) + NOISE_SECONDS
    assert any(cpu_seconds(work, SIZE) < allowed for _ in range(3))


def cpu_seconds(work: Callable[[int], object], size: int) -> float:
    started = time.thread_time()
    work(size)
    return time.thread_time() - started


@pytest.mark.parametrize("kind", HOSTILE)
def test_work_on_a_hostile_text_is_bounded(kind: str) -> None:
    terms = TermFilter(frozenset({"zzqq", "a", "\u65e5"}))

    def find(size: int) -> None:
        text, work = hostile(kind, size), WorkLimit()
        for _ in find_tokens(text, languages=LANGUAGES, term_filter=terms, work=work):
            pass
        assert work.left > -ONE_CHUNK

    assert_linear(find)


@pytest.mark.parametrize("kind", ["elisions", "a letter that folds into eighteen", "fractions"])
def test_search_of_a_hostile_text_is_bounded(kind: str) -> None:
    def search(size: int) -> None:
        text = hostile(kind, size)
        find_occurrence(text, "zz qq", languages=LANGUAGES)
        verify({"body": text}, parse('"l a zz"'), languages=LANGUAGES)
        best_passages(text, parse("l zz " + "qq " * 20), languages=LANGUAGES, field="body")
        list(words_with_prefix(text, ("zzz",), languages=LANGUAGES, work=WorkLimit()))
        list(similar_runs(text, "\u65e5\u672c\u8a9e", work=WorkLimit()))

    assert_linear(search)


@pytest.mark.parametrize(
    ("query", "text"),
    [
        (lambda half: "b" + "a" * 2 * half, "a"),
        (lambda half: "a" * half + "b" + "a" * half, "a"),
        (lambda half: "a " * half + "b", "a "),
        (lambda half: "\u65e5a" * half, "\u65e5a"),
    ],
)
def test_long_query_takes_linear_time(query: Callable[[int], str], text: str) -> None:
    """The query of a text is 250 times shorter: 8,000 characters for the whole."""

    def find(size: int) -> None:
        whole = text * (size // len(text))
        find_occurrence(whole, query(size // 500), languages=LANGUAGES, occurrence=size)

    assert_linear(find)


def test_three_million_characters_of_prose_fit_the_work_limit() -> None:
    words = "The lease of the flat, and what we paid for it in March, lies here. "
    text = words * (3_000_000 // len(words)) + "crackel"
    found = find_occurrence(text, "crackel", languages=LANGUAGES)
    assert found == (len(text) - 7, len(text))
    [passage] = best_passages(text, parse("crackel"), languages=LANGUAGES, field="body")
    assert passage.end == len(text)


def test_exact_characters_are_found_beyond_the_work_limit() -> None:
    text = "1.5-2/3 " * (UNITS_PER_TEXT // 4) + "Crackel"
    assert find_occurrence(text, "crackel", languages=LANGUAGES) == (len(text) - 7, len(text))
    assert find_occurrence(text, "crackels", languages=LANGUAGES) is None


def test_half_of_a_letter_that_folds_into_two_does_not_match() -> None:
    assert find_occurrence("-\u00df-s-", "s-", languages=()) == (3, 4)
    assert find_occurrence("\u00df" * 3_000 + " xSSy", "x\u00df", languages=()) == (3_001, 3_004)


def test_text_beyond_the_work_limit_is_not_verified() -> None:
    query: Query = parse('lease -"not this"')
    text = "lease " + "1.5-2/3 " * UNITS_PER_TEXT
    assert verify({"body": text}, query, languages=LANGUAGES) is False


def test_shared_work_limit_leaves_units_for_other_texts() -> None:
    work = WorkLimit(100)
    with work.share(max_units=60) as hungry:
        hungry.spend(80)
    with work.share(max_units=60, min_units=30) as modest:
        assert modest.left == 30
    assert work.left == 20
    assert hungry.exhausted
