"""Reciprocal rank fusion: one order out of two, from the places in them alone."""

from collections.abc import Sequence
from typing import Final, TypeVar

CONSTANT: Final = 10
"""Added to each place, so that the first ones do not decide alone."""
LEXICAL_WEIGHT: Final = 2
SEMANTIC_WEIGHT: Final = 1
"""Words that were asked for prove more than a likeness of meaning (docs/relevance.md)."""
MILLIONTHS: Final = 1_000_000

Key = TypeVar("Key", bound=tuple[str, ...])


def fused(lexical: Sequence[Key], semantic: Sequence[Key]) -> list[tuple[Key, int]]:
    """Every key of both, best first, with its points; the same points are in order of the keys."""
    points: dict[Key, int] = {}
    for ranking, weight in ((lexical, LEXICAL_WEIGHT), (semantic, SEMANTIC_WEIGHT)):
        for place, key in enumerate(ranking, 1):
            worth = weight * MILLIONTHS // (CONSTANT + place)
            points[key] = points.get(key, 0) + worth
    return sorted(points.items(), key=lambda item: (-item[1], item[0]))
