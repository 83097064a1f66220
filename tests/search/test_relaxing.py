"""Test query relaxation: stop words, then any word."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evidence.search.analysis.query import QueryError, parse
from evidence.search.analysis.query_relaxation import match_any_word, without_stop_words
from tests.search.texts import MIXED

LANGUAGES = ("en", "de", "fr", "es", "zh", "ja")


def content(q: str) -> list[str]:
    return [
        leaf.text for leaf in without_stop_words(parse(q), languages=LANGUAGES).positive_leaves()
    ]


def any_of(q: str) -> list[str]:
    query = without_stop_words(parse(q), languages=LANGUAGES)
    return [leaf.text for leaf in match_any_word(query, languages=LANGUAGES).positive_leaves()]


@pytest.mark.parametrize(
    ("q", "words"),
    [
        ("When does the warranty of my headphones end?", ["warranty", "headphones", "end?"]),
        ("Wie viel zahlt die Versicherung", ["zahlt", "Versicherung"]),
        ("Quand l'expert vient-il voir le parquet ?", ["expert", "vient", "voir", "parquet"]),
        ("¿Cuándo es la comida de la abuela?", ["comida", "abuela?"]),
        ("somebody's coffee", ["somebody", "coffee"]),
    ],
)
def test_stop_words_are_removed(q: str, words: list[str]) -> None:
    assert content(q) == words


@pytest.mark.parametrize(
    "q", ["the who", "was war das", '"the lease"', "the*", "lease OR the", "war museum", "e-mail"]
)
def test_quoted_single_and_meaningful_words_are_not_removed(q: str) -> None:
    assert without_stop_words(parse(q), languages=LANGUAGES) == parse(q)


def test_doubtful_word_next_to_a_stop_word_is_removed() -> None:
    assert content("war das die Miete") == ["Miete"]
    assert content("die hard") == ["die", "hard"]


def test_stop_words_are_of_the_given_languages_and_english() -> None:
    query = parse("quando the lease")
    assert [
        leaf.text for leaf in without_stop_words(query, languages=["pt"]).positive_leaves()
    ] == ["lease"]
    assert [leaf.text for leaf in without_stop_words(query, languages=[]).positive_leaves()] == [
        "quando",
        "lease",
    ]


def test_exclusion_remains_with_a_positive_word() -> None:
    assert content("the -draft") == ["the"]
    assert list(without_stop_words(parse("the lease -the"), languages=["en"]).negative_leaves())


@pytest.mark.parametrize(
    ("q", "pairs"),
    [
        ("月华的婚礼几点开始", ["月华", "婚礼", "开始"]),
        ("猫はどこで見つかりましたか", ["猫", "見つ", "つか", "かり"]),
        ("HSK三级", ["HSK", "三级"]),
        ("为什么", ["为什", "什么"]),
        ("むぎ", ["むぎ"]),
    ],
)
def test_relaxed_cjk_run_matches_any_bigram(q: str, pairs: list[str]) -> None:
    assert any_of(q) == pairs


def test_relaxed_query_matches_other_spellings() -> None:
    query = match_any_word(parse("leese paris"), spellings={"leese": ["lease", "geese"]})
    assert [leaf.text for leaf in query.positive_leaves()] == ["leese", "lease", "geese", "paris"]


@given(st.one_of(MIXED, st.text(alphabet='the of lease "()-:*|OR語の日本', max_size=40)))
def test_relaxed_query_keeps_positive_leaves_of_the_query(q: str) -> None:
    try:
        query = parse(q)
    except QueryError:
        return
    for each in (
        without_stop_words(query, languages=LANGUAGES),
        match_any_word(query, languages=LANGUAGES),
    ):
        assert list(each.positive_leaves())
        assert all(q[leaf.position :].startswith(leaf.text) for leaf in each.positive_leaves())
        assert list(each.negative_leaves()) == list(query.negative_leaves())
