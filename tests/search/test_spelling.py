"""Test spelling suggestions."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evidence.search.analysis.query import Leaf
from evidence.search.analysis.tokenizer import WorkLimit
from evidence.search.suggestions import (
    bigrams,
    candidate_prefixes,
    closest_words,
    edit_distance,
    is_correctable_cjk,
    is_correctable_word,
    similar_runs,
    words_with_prefix,
)

SHORT = st.text(alphabet="abc", max_size=6)


@pytest.mark.parametrize(
    ("one", "other", "number"),
    [("lease", "lease", 0), ("crackel", "crackle", 1), ("fahrad", "fahrrad", 1), ("abc", "xyz", 3)],
)
def test_edit_distance_counts_letters_and_transpositions(one: str, other: str, number: int) -> None:
    assert edit_distance(one, other, limit=5) == number


@given(SHORT, SHORT, st.integers(0, 3))
def test_edit_distance_is_symmetric_and_bounded(one: str, other: str, most: int) -> None:
    counted = edit_distance(one, other, limit=most)
    assert counted == edit_distance(other, one, limit=most)
    assert counted == min(edit_distance(one, other, limit=9), most + 1)
    assert (counted == 0) == (one == other)


def test_closest_words_come_first_then_most_frequent() -> None:
    words = ["garbles", "garbled", "garden", "garbeled", "garbeled"]
    assert closest_words("garbeld", words, limit=2) == ("garbeled", "garbled")


def test_short_word_allows_one_edit() -> None:
    assert closest_words("leaf", ["lead", "loaf", "lamp"], limit=3) == ("lead", "loaf")


@pytest.mark.parametrize("text", ["abc", "4711", "a-b-c-d", "京都駅前", "x" * 40])
def test_numbers_compounds_and_cjk_words_are_not_correctable(text: str) -> None:
    assert not is_correctable_word(Leaf(text, 0))


def test_quoted_prefix_and_field_words_are_not_correctable() -> None:
    leaf = Leaf("lease", 0)
    assert is_correctable_word(leaf)
    assert not is_correctable_word(Leaf("lease", 0, phrase=True))
    assert not is_correctable_word(Leaf("lease", 0, prefix=True))
    assert not is_correctable_word(Leaf("lease", 0, field="subject"))


def test_candidate_words_share_a_prefix_and_keep_accents() -> None:
    own, changed = candidate_prefixes(Leaf("Résultats", 0))
    assert own == ("result", "resu", "res")
    assert {"esulta", "ersult", "besult", "rsulta", "rexult", "xresul"} <= set(changed)
    assert not any(each.startswith("res") for each in changed)
    text = "Les Résultats; résumé, result-set 2x"
    assert list(words_with_prefix(text, ("resul",), languages=("fr",), work=WorkLimit())) == [
        "résultats",
        "result",
    ]


def test_cjk_run_with_one_wrong_character_is_correctable() -> None:
    leaf = Leaf("竹里管酒店", 0)
    assert is_correctable_cjk(leaf)
    assert [pair.text for pair in bigrams(leaf)] == ["竹里", "里管", "管酒", "酒店"]
    text = "预订竹里馆酒店 / 竹里管酒店 / 竹里 酒店 / 竹里x酒店"
    assert list(similar_runs(text, leaf.text, work=WorkLimit())) == ["竹里馆酒店"]


@pytest.mark.parametrize("text", ["京都", "a京都駅", "京都駅" * 6])
def test_short_mixed_and_long_runs_are_not_correctable(text: str) -> None:
    assert not is_correctable_cjk(Leaf(text, 0))
