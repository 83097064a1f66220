"""Tokens and the fast count: where terms stand, and that both ways to them agree."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evidence.search.analysis.segmentation import is_dense
from evidence.search.analysis.tokenizer import occurrences, term_frequencies, tokens
from evidence.search.analysis.tokens import Wanted
from evidence.search.analysis.work_limit import WorkLimit
from tests.search.texts import LANGUAGES, MIXED


def test_offsets_count_code_points_of_the_text_as_it_was_written() -> None:
    text = "Zwei 👍🏽 ﬁne Straße\u200b, ﾃﾞｰﾀ!"
    found = {text[t.start : t.end]: t.terms for t in tokens(text, languages=("de",))}
    assert found["ﬁne"] == ("fine", "fin")
    assert found["Straße"] == ("strasse", "strass")
    assert found["ﾃﾞｰ"] == ("デー",)
    assert found["ｰﾀ"] == ("ータ",)


def test_a_letter_taken_apart_by_something_invisible_is_shown_with_all_that_surrounds_it() -> None:
    text = "so: na\u200b\u0301me!"
    (token,) = (t for t in tokens(text, languages=()) if t.terms == ("name",))
    assert text[token.start : token.end] == "na\u200b\u0301me!"


@pytest.mark.parametrize("joint", ["-", ".", "/", "@", "'"])
def test_a_long_row_of_joined_words_is_counted_as_its_words(joint: str) -> None:
    row = joint.join(["running"] * 200)
    counted, length = term_frequencies(row, languages=("en",))
    assert counted == {"running": 200, "run": 200}
    assert length == 200
    assert counted == Counter(term for t in tokens(row, languages=("en",)) for term in t.terms)


def test_parts_of_a_name_take_the_positions_that_the_whole_spans() -> None:
    found = [(t.terms[0], t.position, t.width) for t in tokens("the e-mail address", languages=())]
    assert found == [
        ("the", 0, 1),
        ("email", 1, 2),
        ("e", 1, 1),
        ("mail", 2, 1),
        ("address", 3, 1),
    ]


@given(MIXED)
def test_the_fast_count_is_the_count_of_the_tokens(text: str) -> None:
    counted, _ = term_frequencies(text, languages=LANGUAGES)
    listed = Counter(term for t in tokens(text, languages=LANGUAGES) for term in t.terms)
    assert counted == listed


@settings(deadline=None)
@given(MIXED, st.integers(min_value=1, max_value=200))
def test_the_fast_count_of_a_long_stretch_is_the_count_of_its_tokens(text: str, times: int) -> None:
    stretch = "".join(text.split()) * times
    counted, _ = term_frequencies(stretch, languages=())
    assert counted == Counter(term for t in tokens(stretch, languages=()) for term in t.terms)


@given(MIXED)
def test_tokens_come_in_order_and_lie_inside_the_text(text: str) -> None:
    found = list(tokens(text, languages=LANGUAGES))
    assert all(0 <= t.start < t.end <= len(text) for t in found)
    assert [t.start for t in found] == sorted(t.start for t in found)
    assert [t.position for t in found] == sorted(t.position for t in found)
    assert all(t.terms and len(set(t.terms)) == len(t.terms) for t in found)
    assert all(1 <= len(term) <= 64 for t in found for term in t.terms)


def terms(text: str) -> set[str]:
    return {term for t in tokens(text, languages=LANGUAGES) for term in t.terms}


@given(MIXED)
def test_what_a_token_points_at_is_found_by_its_terms(text: str) -> None:
    for token in tokens(text, languages=LANGUAGES):
        # A name torn from its surroundings may be another kind of name, as a URL without its scheme.
        if token.kind != "whole":
            assert set(token.terms) <= terms(text[token.start : token.end])


@given(MIXED)
def test_a_text_matches_itself_in_any_case(text: str) -> None:
    for token in tokens(text, languages=LANGUAGES):
        if token.kind != "whole":
            assert set(token.terms) & terms(text[token.start : token.end].lower())


@given(MIXED, st.data())
def test_occurrences_are_the_tokens_that_have_a_wanted_term(text: str, data: st.DataObject) -> None:
    found = list(tokens(text, languages=LANGUAGES))
    known = sorted({term for t in found for term in t.terms}) or ["none"]
    prefixes = [term[:2] for term in known if not is_dense(term)] or ["no"]
    wanted = Wanted(
        frozenset(data.draw(st.lists(st.sampled_from(known), max_size=4))),
        tuple(data.draw(st.lists(st.sampled_from(prefixes), max_size=2))),
    )
    expected = [t for t in found if wanted.has(t.terms)]
    work = WorkLimit()
    assert list(occurrences(text, languages=LANGUAGES, wanted=wanted, work=work)) == expected


def test_the_length_counts_words_and_two_dense_characters_as_one() -> None:
    assert term_frequencies("three e-mail words", languages=())[1] == 4
    assert term_frequencies("日本語のテキスト", languages=())[1] == 4
    assert term_frequencies("!!! ...", languages=())[1] == 0


def test_white_space_less_megabytes_are_counted_like_any_text() -> None:
    counted, length = term_frequencies("日本語" * 100_000, languages=())
    assert counted["日"] == counted["本"] == counted["語"] == 100_000
    # Such a stretch is cut every 65,536 code points, and a pair across a cut is not one.
    assert counted["日本"] == 99_998
    assert length == 150_000
