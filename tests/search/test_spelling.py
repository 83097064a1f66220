"""Which written words a mistyped one may have meant."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evidence.search.analysis.query_tree import Leaf
from evidence.search.analysis.spelling import (
    beginnings,
    can_be_respelt,
    changes,
    is_respelt_run,
    nearest,
    neighbours,
    written_like,
    written_with,
)
from evidence.search.analysis.work_limit import WorkLimit

SHORT = st.text(alphabet="abc", max_size=6)


@pytest.mark.parametrize(
    ("one", "other", "number"),
    [("lease", "lease", 0), ("crackel", "crackle", 1), ("fahrad", "fahrrad", 1), ("abc", "xyz", 3)],
)
def test_changes_count_letters_and_swaps(one: str, other: str, number: int) -> None:
    assert changes(one, other, most=5) == number


@given(SHORT, SHORT, st.integers(0, 3))
def test_changes_are_the_same_both_ways_and_bounded(one: str, other: str, most: int) -> None:
    counted = changes(one, other, most=most)
    assert counted == changes(other, one, most=most)
    assert counted == min(changes(one, other, most=9), most + 1)
    assert (counted == 0) == (one == other)


def test_the_nearest_come_first_and_of_those_the_most_frequent() -> None:
    words = ["garbles", "garbled", "garden", "garbeled", "garbeled"]
    assert nearest("garbeld", words, most=2) == ("garbeled", "garbled")


def test_a_short_word_allows_one_change_only() -> None:
    assert nearest("leaf", ["lead", "loaf", "lamp"], most=3) == ("lead", "loaf")


@pytest.mark.parametrize("text", ["abc", "4711", "a-b-c-d", "京都駅前", "x" * 40])
def test_numbers_names_with_parts_and_dense_scripts_are_not_respelt(text: str) -> None:
    assert not can_be_respelt(Leaf(text, 0))


def test_quoted_words_prefixes_and_words_of_a_field_are_meant_as_they_stand() -> None:
    leaf = Leaf("lease", 0)
    assert can_be_respelt(leaf)
    assert not can_be_respelt(Leaf("lease", 0, phrase=True))
    assert not can_be_respelt(Leaf("lease", 0, prefix=True))
    assert not can_be_respelt(Leaf("lease", 0, field="subject"))


def test_words_are_quoted_as_written_and_looked_for_by_their_beginning() -> None:
    first, second, third, changed = beginnings(Leaf("Résultats", 0))
    assert (first, second, third) == (("result",), ("resu",), ("res",))
    assert {"esulta", "ersult", "besult", "rsulta", "rexult", "xresul"} <= set(changed)
    assert not any(each.startswith("res") for each in changed)
    text = "Les Résultats; résumé, result-set 2x"
    assert list(written_with(text, ("resul",), languages=("fr",), work=WorkLimit())) == [
        "résultats",
        "result",
    ]


def test_a_run_without_spaces_may_have_one_wrong_character() -> None:
    leaf = Leaf("竹里管酒店", 0)
    assert is_respelt_run(leaf)
    assert [pair.text for pair in neighbours(leaf)] == ["竹里", "里管", "管酒", "酒店"]
    text = "预订竹里馆酒店 / 竹里管酒店 / 竹里 酒店 / 竹里x酒店"
    assert list(written_like(text, leaf.text, work=WorkLimit())) == ["竹里馆酒店"]


@pytest.mark.parametrize("text", ["京都", "a京都駅", "京都駅" * 6])
def test_short_mixed_and_long_runs_are_not_respelt(text: str) -> None:
    assert not is_respelt_run(Leaf(text, 0))
