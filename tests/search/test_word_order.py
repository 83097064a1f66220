"""Test that the order of words never excludes a text with the phrase, and excludes most others."""

import pytest
from hypothesis import example, given, reject, settings
from hypothesis import strategies as st

from evidence.search.analysis.matcher import verify
from evidence.search.analysis.query import QueryError, parse
from evidence.search.analysis.tokenizer import BLOCK_CHARS, index_text
from evidence.search.analysis.tsquery import AllOf, AnyOf, Condition, required_pairs
from tests.search.test_verifier import LANGUAGES, queries, records
from tests.search.texts import MIXED

FIELDS = ("subject", "body")
EN = ("en",)


def is_possible(q: str, texts: dict[str, str], languages: tuple[str, ...] = EN) -> bool:
    """Return whether the order of words allows the texts of a record to satisfy a query."""
    condition = required_pairs(parse(q, fields=FIELDS), languages=languages)
    orders = {name: index_text(text, languages=languages).order for name, text in texts.items()}
    return condition is None or _is_met(condition, orders)


def _is_met(condition: Condition, orders: dict[str, bytes]) -> bool:
    if isinstance(condition, AllOf | AnyOf):
        combine = all if isinstance(condition, AllOf) else any
        return combine([_is_met(each, orders) for each in condition.conditions])
    return any(
        all(any(each in order for each in pair) for pair in condition.pairs)
        for name, order in orders.items()
        if condition.field in (None, name)
    )


@given(queries, records, LANGUAGES)
@example('"dies email"', {"body": "die e-mail"}, ("en", "de"))
@example('"mail a"', {"subject": "e-mail - a"}, ())
@example('"1234 x"', {"body": "1\u00a0234 x"}, ())
def test_a_match_is_never_excluded(
    q: str, texts: dict[str, str], languages: tuple[str, ...]
) -> None:
    try:
        query = parse(q, fields=FIELDS)
    except QueryError:
        reject()
    if verify(texts, query, languages=languages):
        assert is_possible(q, texts, languages)


@settings(deadline=None)
@given(MIXED, st.integers(min_value=1, max_value=30), st.data())
def test_two_words_of_any_text_are_never_excluded(
    text: str, times: int, data: st.DataObject
) -> None:
    text = text.replace("\0", "").replace('"', "") * times
    words = text.split()
    if len(words) < 2:
        reject()
    start = data.draw(st.integers(min_value=0, max_value=len(words) - 2))
    q = f'"{" ".join(words[start : start + 2])}"'
    try:
        query = parse(q)
    except QueryError:
        reject()
    if verify({"body": text}, query, languages=("en", "de")):
        assert is_possible(q, {"body": text}, ("en", "de"))


@pytest.mark.parametrize(
    "text",
    [
        "kind regards",
        "Kindly regard!",
        "so (kind - regards)",
        f"{'word ' * (BLOCK_CHARS // 5 - 1)}kind regards",
    ],
)
def test_a_text_with_the_words_in_sequence_is_possible(text: str) -> None:
    assert is_possible('"kind regards"', {"body": text}) is (
        verify({"body": text}, parse('"kind regards"'), languages=EN)
    )


@pytest.mark.parametrize(
    "text",
    [
        "regards kind",
        "kind of regards",
        "kind https://example.com/a/very/long/path/that/is/not/cached?id=1 regards",
        "a kind e-mail with regards",
        "kind 日本 regards",
    ],
)
def test_a_text_with_the_words_apart_is_excluded(text: str) -> None:
    assert not is_possible('"kind regards"', {"body": text})


def test_words_of_two_fields_are_no_neighbors() -> None:
    assert not is_possible('"kind regards"', {"subject": "kind", "body": "regards"})


def test_a_field_of_the_query_is_the_only_one_searched() -> None:
    texts = {"subject": "kind regards", "body": "none"}
    assert is_possible('subject:"kind regards"', texts)
    assert not is_possible('body:"kind regards"', texts)


@pytest.mark.parametrize("q", ["kind regards", '"=kind regards"', '-"kind regards" x', '"東京都 x"'])  # fmt: skip
def test_queries_without_plain_phrases_have_no_condition(q: str) -> None:
    assert required_pairs(parse(q), languages=EN) is None


def test_one_alternative_without_a_condition_allows_every_text() -> None:
    assert required_pairs(parse('"kind regards" OR other'), languages=EN) is None
    assert required_pairs(parse('"kind regards" OR "best wishes"'), languages=EN) is not None
