"""Test tokens, and that the fast term count agrees with them."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evidence.search.analysis.segmentation import TermFilter, is_cjk
from evidence.search.analysis.tokenizer import WorkLimit, find_tokens, index_text, tokenize
from tests.search.texts import LANGUAGES, MIXED


def test_offsets_count_code_points_of_the_original_text() -> None:
    text = "Zwei 👍🏽 ﬁne Straße\u200b, ﾃﾞｰﾀ!"
    found = {text[t.start : t.end]: t.terms for t in tokenize(text, languages=("de",))}
    assert found["ﬁne"] == ("fine", "fin")
    assert found["Straße"] == ("strasse", "strass")
    assert found["ﾃﾞｰ"] == ("デー",)
    assert found["ｰﾀ"] == ("ータ",)


def test_letter_split_by_invisible_characters_maps_to_the_whole_range() -> None:
    text = "so: na\u200b\u0301me!"
    (token,) = (t for t in tokenize(text, languages=()) if t.terms == ("name",))
    assert text[token.start : token.end] == "na\u200b\u0301me!"


@pytest.mark.parametrize("joint", ["-", ".", "/", "@", "'"])
def test_long_joined_run_is_tokenized_as_words(joint: str) -> None:
    row = joint.join(["running"] * 200)
    counted, length, _ = index_text(row, languages=("en",))
    assert counted == {"running": 200, "run": 200}
    assert length == 200
    assert counted == Counter(term for t in tokenize(row, languages=("en",)) for term in t.terms)


def test_parts_of_a_compound_share_the_positions_of_the_whole() -> None:
    found = [
        (t.terms[0], t.position, t.width) for t in tokenize("the e-mail address", languages=())
    ]
    assert found == [
        ("the", 0, 1),
        ("email", 1, 2),
        ("e", 1, 1),
        ("mail", 2, 1),
        ("address", 3, 1),
    ]


@given(MIXED)
def test_term_frequencies_equal_token_counts(text: str) -> None:
    counted, _, _ = index_text(text, languages=LANGUAGES)
    listed = Counter(term for t in tokenize(text, languages=LANGUAGES) for term in t.terms)
    assert counted == listed


@settings(deadline=None)
@given(MIXED, st.integers(min_value=1, max_value=200))
def test_term_frequencies_of_a_long_chunk_equal_token_counts(text: str, times: int) -> None:
    stretch = "".join(text.split()) * times
    counted, _, _ = index_text(stretch, languages=())
    assert counted == Counter(term for t in tokenize(stretch, languages=()) for term in t.terms)


@given(MIXED)
def test_tokens_are_ordered_and_inside_the_text(text: str) -> None:
    found = list(tokenize(text, languages=LANGUAGES))
    assert all(0 <= t.start < t.end <= len(text) for t in found)
    assert [t.start for t in found] == sorted(t.start for t in found)
    assert [t.position for t in found] == sorted(t.position for t in found)
    assert all(t.terms and len(set(t.terms)) == len(t.terms) for t in found)
    assert all(1 <= len(term) <= 64 for t in found for term in t.terms)


def terms(text: str) -> set[str]:
    return {term for t in tokenize(text, languages=LANGUAGES) for term in t.terms}


@given(MIXED)
def test_text_of_a_token_has_the_terms_of_the_token(text: str) -> None:
    for token in tokenize(text, languages=LANGUAGES):
        # A name torn from its surroundings may be another kind of name, as a URL without its scheme.
        if token.kind != "whole":
            assert set(token.terms) <= terms(text[token.start : token.end])


@given(MIXED)
def test_text_matches_itself_in_any_case(text: str) -> None:
    for token in tokenize(text, languages=LANGUAGES):
        if token.kind != "whole":
            assert set(token.terms) & terms(text[token.start : token.end].lower())


@given(MIXED, st.data())
def test_find_tokens_returns_the_tokens_that_the_filter_accepts(
    text: str, data: st.DataObject
) -> None:
    found = list(tokenize(text, languages=LANGUAGES))
    known = sorted({term for t in found for term in t.terms}) or ["none"]
    prefixes = [term[:2] for term in known if not is_cjk(term)] or ["no"]
    wanted = TermFilter(
        frozenset(data.draw(st.lists(st.sampled_from(known), max_size=4))),
        tuple(data.draw(st.lists(st.sampled_from(prefixes), max_size=2))),
    )
    expected = [t for t in found if wanted.accepts(t.terms)]
    work = WorkLimit()
    assert list(find_tokens(text, languages=LANGUAGES, term_filter=wanted, work=work)) == expected


def test_length_counts_two_cjk_characters_as_one_word() -> None:
    assert index_text("three e-mail words", languages=())[1] == 4
    assert index_text("日本語のテキスト", languages=())[1] == 4
    assert index_text("!!! ...", languages=())[1] == 0


def test_megabytes_without_white_space_are_counted() -> None:
    counted, length, _ = index_text("日本語" * 100_000, languages=())
    assert counted["日"] == counted["本"] == counted["語"] == 100_000
    # Such a stretch is cut every 65,536 code points, and a pair across a cut is not one.
    assert counted["日本"] == 99_998
    assert length == 150_000
