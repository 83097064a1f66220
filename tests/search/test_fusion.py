"""Reciprocal rank fusion of lexical and semantic hits."""

import pytest

from evidence.search.hybrid import fuse_rankings

A, B, C = ("a",), ("b",), ("c",)


@pytest.mark.parametrize(("clear_winner", "order"), [(False, [B, A, C]), (True, [A, B, C])])
def test_clear_lexical_winner_stays_first(clear_winner: bool, order: list[tuple[str]]) -> None:
    fused = fuse_rankings([A, B], [B, C], clear_winner=clear_winner)
    assert [key for key, _ in fused] == order
    points = [points for _, points in fused]
    assert points == sorted(points, reverse=True)
