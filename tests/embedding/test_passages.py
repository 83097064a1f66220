"""Texts are cut into passages whose offsets hold."""

import regex
from hypothesis import given
from hypothesis import strategies as st

from evidence.embedding.passages import WIDTH, stretches

PIECES = st.sampled_from(
    ["word", " ", "\n", ". ", "。", "日本", "👩‍👩‍👧", "é", "x" * 300, "! ", "\t", "“Yes.” "]
)
texts = st.lists(PIECES, max_size=80).map("".join)


@given(texts)
def test_nothing_but_white_space_is_left_out(text: str) -> None:
    at = 0
    for start, end in stretches(text):
        assert not text[at:start].strip()
        assert 0 < end - start <= WIDTH
        assert text[start:end].strip() == text[start:end]
        at = end
    assert not text[at:].strip()


@given(texts)
def test_no_passage_takes_a_character_apart(text: str) -> None:
    edges = {0} | {found.end() for found in regex.finditer(r"\X", text)}
    for start, end in stretches(text):
        assert {start, end} <= edges


def test_a_passage_ends_with_a_sentence_where_one_ends() -> None:
    text = "A first sentence that goes on for a while, " * 4 + "and ends. " + "Another one " * 20

    (_, first_end), (second_start, _), *_ = stretches(text)

    assert text[:first_end].endswith("and ends.")
    assert text[second_start:].startswith("Another one")


def test_a_text_of_many_pages_is_covered_to_its_end() -> None:
    text = "Sentence after sentence. " * 20_000

    *_, (_, end) = stretches(text)

    assert end == len(text.rstrip())
