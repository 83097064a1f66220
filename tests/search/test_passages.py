"""Test passages: exact offsets and readable excerpts."""

import re

import pytest
import regex
from hypothesis import given, settings
from hypothesis import strategies as st

from evidence.page_cutter import grapheme_ceil, grapheme_floor
from evidence.search.analysis.highlighter import (
    Passage,
    best_passages,
    excerpt_text,
    excerpt_with_marks,
)
from evidence.search.analysis.query import QueryError, parse
from evidence.search.embedding import MAX_PASSAGE_CHARS, split_passages
from tests.search.texts import LANGUAGES, MIXED

FILLER = "Nothing of interest is said in this sentence at all. " * 8


def found(text: str, q: str, *, width: int = 160, limit: int = 3) -> list[Passage]:
    query = parse(q, fields={"subject", "body"})
    return best_passages(text, query, languages=LANGUAGES, field="body", limit=limit, width=width)


def marks(text: str, passage: Passage) -> list[str]:
    return [text[start:end] for start, end in passage.marks]


def test_passage_with_most_query_words_comes_first() -> None:
    text = f"{FILLER}A lease. {FILLER}We signed the lease in Lyon. {FILLER}Lease, lease, lease."
    first, second, third = found(text, "signed lease lyon")
    assert marks(text, first) == ["signed", "lease", "Lyon"]
    assert marks(text, second) == ["Lease", "lease", "lease"]
    assert marks(text, third) == ["lease"]


def test_passage_ends_at_words_with_ellipses() -> None:
    text = f"{FILLER}We signed the lease. {FILLER}"
    (passage,) = found(text, "lease")
    shown = excerpt_with_marks(text, passage)
    assert re.fullmatch(r"…(\w.*\w|\w.*\.)…", shown)
    assert "We signed the <mark>lease</mark>. Nothing" in shown
    assert excerpt_text(text, passage) == re.sub("</?mark>", "", shown)
    assert 120 <= passage.end - passage.start <= 160


def test_short_text_has_no_ellipses() -> None:
    text = "We signed the lease."
    (passage,) = found(text, "lease")
    assert excerpt_with_marks(text, passage) == "We signed the <mark>lease</mark>."


def test_phrase_has_one_mark() -> None:
    text = "The lease. We signed the lease in Lyon."
    (passage,) = found(text, '"signed the lease"')
    assert marks(text, passage) == ["signed the lease"]


def test_compound_is_marked_as_a_whole_or_by_its_parts() -> None:
    text = f"Invoice INV-2024/0017 came. {FILLER} In 2024 the INV series ended with 0017."
    assert [marks(text, passage) for passage in found(text, "INV-2024/0017")] == [["INV-2024/0017"]]
    rest = text[30:]
    assert marks(rest, found(rest, "INV-2024/0017")[0]) == ["2024", "INV", "0017"]


def test_cjk_text_is_marked_by_the_longest_run() -> None:
    text = (
        "先日の会議の資料を拝見しました。来週の東京出張の際にご相談させていただければ幸いです。" * 3
    )
    passage = found(text, "東京出張", width=40)[0]
    assert marks(text, passage)[0] == "東京出張"
    assert passage.start > 0
    assert passage.end - passage.start <= 48


def test_word_restricted_to_another_field_has_no_passage() -> None:
    assert found("the lease", "subject:lease") == []
    assert len(found("the lease", "body:lease")) == 1


def test_prefix_marks_matching_words() -> None:
    text = "Signed leases and leaseholders, but no lea."
    assert [marks(text, passage) for passage in found(text, "lease*")] == [
        ["leases", "leaseholders"]
    ]


def test_excluded_words_have_no_passage() -> None:
    text = "the lease and the draft"
    assert [marks(text, passage) for passage in found(text, "lease -draft")] == [["lease"]]


def test_mark_tags_in_records_are_escaped() -> None:
    text = "<mark>fake</mark> lease </MARK>"
    (passage,) = found(text, "lease")
    assert (
        excerpt_with_marks(text, passage) == "&lt;mark>fake&lt;/mark> <mark>lease</mark> &lt;/MARK>"
    )
    assert excerpt_text(text, passage) == text


def test_match_longer_than_the_window_has_context() -> None:
    text = f"before {'x' * 500} after"
    (passage,) = found(text, "x" * 500, width=80)
    assert passage.start == 0
    assert passage.marks[0][0] == len("before ")
    assert len(excerpt_text(text, passage)) <= 80 + 2 * 24


def test_match_at_the_end_of_a_million_characters_is_found() -> None:
    text = f"{FILLER * 2_400}We signed the lease."
    (passage,) = found(text, "lease")
    assert text[passage.start : passage.end].endswith("We signed the lease.")


def test_late_rare_word_is_marked_together_with_a_common_one() -> None:
    text = f"{'the same sentence again and ' * 2_000}the plumber was the one. {FILLER * 9}"
    first = found(text, "the plumber")[0]
    assert "plumber" in marks(text, first)
    assert marks(text, first).count("the") > 2


def test_search_for_a_frequent_word_stops_early() -> None:
    assert len(found("the lease and more of it\n" * 40_000, "the lease")) == 3


@settings(deadline=None)
@given(MIXED, st.integers(min_value=1, max_value=60), st.data())
def test_passages_are_balanced_and_inside_the_text(
    text: str, width: int, data: st.DataObject
) -> None:
    words = text.split() or ["none"]
    q = " OR ".join(data.draw(st.lists(st.sampled_from(words), min_size=1, max_size=3)))
    try:
        cut = found(text, q, width=width)
    except QueryError:
        return
    boundaries = {0, *(cluster.end() for cluster in regex.finditer(r"\X", text))}
    for passage in cut:
        assert 0 <= passage.start < passage.end <= len(text)
        ends = [passage.start, *(end for mark in passage.marks for end in mark), passage.end]
        assert ends == sorted(ends)
        assert passage.marks
        assert set(ends) <= boundaries
        shown = excerpt_with_marks(text, passage)
        assert re.findall("</?mark>", shown) == ["<mark>", "</mark>"] * len(passage.marks)
        unmarked = re.sub("</?mark>", "", shown)
        assert re.sub("&lt;(?=/?mark)", "<", unmarked, flags=re.IGNORECASE) == re.sub(
            "&lt;(?=/?mark)", "<", excerpt_text(text, passage), flags=re.IGNORECASE
        )


@pytest.mark.parametrize(
    ("text", "i", "floor", "ceil"),
    [
        ("abc", 1, 1, 1),
        ("e\u0301a", 1, 0, 2),
        ("👨‍👩‍👧!", 3, 0, 5),
        ("🇩🇪🇫🇷", 3, 2, 4),
        ("a\r\nb", 2, 1, 3),
        ("\u1100\u1161\u11a8", 1, 0, 3),
        ("日本", 1, 1, 1),
        ("abc", -1, 0, 0),
        ("abc", 9, 3, 3),
        ("a" + "\u0301" * 80, 40, 40, 40),
    ],
)
def test_grapheme_boundaries_respect_the_limit(text: str, i: int, floor: int, ceil: int) -> None:
    assert grapheme_floor(text, i) == floor
    assert grapheme_ceil(text, i) == ceil


@given(MIXED, st.integers(min_value=-3, max_value=120))
def test_moved_offset_is_a_boundary_within_the_limit(text: str, i: int) -> None:
    inside = min(max(i, 0), len(text))
    floor, ceil = grapheme_floor(text, i), grapheme_ceil(text, i)
    assert 0 <= inside - floor <= 32
    assert 0 <= ceil - inside <= 32


PIECES = st.sampled_from(
    ["word", " ", "\n", ". ", "。", "日本", "👩‍👩‍👧", "é", "x" * 300, "! ", "\t", "“Yes.” "]
)
texts = st.lists(PIECES, max_size=80).map("".join)


@given(texts)
def test_embedding_passages_omit_only_white_space(text: str) -> None:
    at = 0
    for start, end in split_passages(text):
        assert not text[at:start].strip()
        assert 0 < end - start <= MAX_PASSAGE_CHARS
        assert text[start:end].strip() == text[start:end]
        at = end
    assert not text[at:].strip()


@given(texts)
def test_embedding_passages_never_split_a_grapheme(text: str) -> None:
    edges = {0} | {found.end() for found in regex.finditer(r"\X", text)}
    for start, end in split_passages(text):
        assert {start, end} <= edges


def test_embedding_passage_ends_with_a_sentence() -> None:
    text = "A first sentence that goes on for a while, " * 4 + "and ends. " + "Another one " * 20

    (_, first_end), (second_start, _), *_ = split_passages(text)

    assert text[:first_end].endswith("and ends.")
    assert text[second_start:].startswith("Another one")


def test_embedding_passages_cover_a_long_text() -> None:
    text = "Sentence after sentence. " * 20_000

    *_, (_, end) = split_passages(text)

    assert end == len(text.rstrip())
