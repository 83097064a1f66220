"""What a query can do without: its function words first, then any of its words."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evidence.search.analysis.query_parser import parse
from evidence.search.analysis.query_relaxation import essential, relax
from evidence.search.analysis.query_tree import QueryError
from tests.search.texts import MIXED

LANGUAGES = ("en", "de", "fr", "es", "zh", "ja")


def content(q: str) -> list[str]:
    return [leaf.text for leaf in essential(parse(q), languages=LANGUAGES).wanted()]


def any_of(q: str) -> list[str]:
    query = essential(parse(q), languages=LANGUAGES)
    return [leaf.text for leaf in relax(query, languages=LANGUAGES).wanted()]


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
def test_function_words_are_not_asked_for(q: str, words: list[str]) -> None:
    assert content(q) == words


@pytest.mark.parametrize(
    "q", ["the who", "was war das", '"the lease"', "the*", "lease OR the", "war museum", "e-mail"]
)
def test_what_stands_alone_is_quoted_or_may_mean_something_stays(q: str) -> None:
    assert essential(parse(q), languages=LANGUAGES) == parse(q)


def test_a_doubtful_word_goes_with_a_function_word_of_its_language() -> None:
    assert content("war das die Miete") == ["Miete"]
    assert content("die hard") == ["die", "hard"]


def test_only_the_languages_of_the_reader_and_english_are_known() -> None:
    query = parse("quando the lease")
    assert [leaf.text for leaf in essential(query, languages=["pt"]).wanted()] == ["lease"]
    assert [leaf.text for leaf in essential(query, languages=[]).wanted()] == ["quando", "lease"]


def test_an_exclusion_stays_and_is_not_all_that_is_left() -> None:
    assert content("the -draft") == ["the"]
    assert list(essential(parse("the lease -the"), languages=["en"]).excluded())


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
def test_any_neighbours_of_a_run_without_spaces_will_do(q: str, pairs: list[str]) -> None:
    assert any_of(q) == pairs


def test_other_spellings_will_do_too() -> None:
    query = relax(parse("leese paris"), spellings={"leese": ["lease", "geese"]})
    assert [leaf.text for leaf in query.wanted()] == ["leese", "lease", "geese", "paris"]


@given(st.one_of(MIXED, st.text(alphabet='the of lease "()-:*|OR語の日本', max_size=40)))
def test_something_is_always_left_and_stands_in_the_query(q: str) -> None:
    try:
        query = parse(q)
    except QueryError:
        return
    for each in (essential(query, languages=LANGUAGES), relax(query, languages=LANGUAGES)):
        assert list(each.wanted())
        assert all(q[leaf.position :].startswith(leaf.text) for leaf in each.wanted())
        assert list(each.excluded()) == list(query.excluded())
