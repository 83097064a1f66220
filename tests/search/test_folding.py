"""Folded text maps back to the original text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evidence.search.analysis.segmentation import Offsets, fold


def spans(original: str) -> list[tuple[int, int]]:
    """Return the start and end in the original text of every folded character."""
    folded = fold(original)
    offsets = Offsets(original, folded=folded)
    return [(offsets.start(index), offsets.end(index + 1)) for index in range(len(folded))]


@pytest.mark.parametrize(
    ("original", "expected"),
    [
        ("", []),
        ("Ab", [(0, 1), (1, 2)]),
        ("ÀB", [(0, 1), (1, 2)]),
        ("ΑΣ", [(0, 1), (1, 2)]),
        ("xßy", [(0, 1), (1, 2), (1, 2), (2, 3)]),
        ("xßyz", [(0, 1), (1, 2), (1, 2), (2, 3), (3, 4)]),
        ("xe\u0301y", [(0, 1), (1, 3), (3, 4)]),
        ("ßxe\u0301", [(0, 1), (0, 1), (1, 2), (2, 4)]),
        ("xße\u0301y", [(0, 1), (1, 2), (1, 2), (2, 4), (4, 5)]),
        ("e\u0301ß", [(0, 2), (2, 3), (2, 3)]),
        ("\u0130e\u0301", [(0, 1), (0, 1), (1, 3)]),
        ("a\u00adb", [(0, 1), (2, 3)]),
    ],
)
def test_offsets_of_folded_characters(original: str, expected: list[tuple[int, int]]) -> None:
    assert spans(original) == expected


def test_text_that_folds_differently_as_a_whole_is_one_span() -> None:
    """The soft hyphen separates the accent from its letter only until folding removes it."""
    assert spans("xe\u00ad\u0301yß") == [(0, 6)] * 5


@given(st.text())
def test_spans_cover_the_text_in_order(original: str) -> None:
    found = spans(original)
    assert found == sorted(found)
    assert all(0 <= start < end <= len(original) for start, end in found)


def test_digit_of_a_newer_unicode_is_kept_or_translated() -> None:
    assert fold("\U00010d43") in {"\U00010d43", "3"}
    assert fold("٣") == "3"
