"""The judged queries, and what a ranked list is worth against a judgement."""

import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

Key = tuple[str, str, str]
"""connection_id, stream, record_key"""

DEPTH = 25
"""How many hits are looked at: what an agent reads of one answer."""
_GAIN_DEPTH = 10
_FILE = Path(__file__).resolve().parents[2] / "demo" / "relevance.toml"


@dataclass(frozen=True, slots=True)
class Judged:
    text: str
    language: str
    kind: str
    grades: Mapping[Key, int]


@dataclass(frozen=True, slots=True)
class Worth:
    """Each from 0 to 1; of several queries, the mean."""

    ndcg: float
    recall: float
    mrr: float


def load() -> list[Judged]:
    """All of them, in the order of the file."""
    document = tomllib.loads(_FILE.read_text(encoding="utf-8"))
    return [
        Judged(
            query["text"],
            query["language"],
            query["kind"],
            {
                (each["connection_id"], each["stream"], each["record_key"]): each["grade"]
                for each in query["relevant"]
            },
        )
        for query in document["query"]
    ]


def worth(found: Sequence[Key], grades: Mapping[Key, int]) -> Worth:
    """nDCG over the first 10, recall and reciprocal rank over the first 25 hits.

    Recall is of what 25 hits could hold, so that a query with more answers can reach 1.
    """
    gains = [grades.get(key, 0) for key in found[:DEPTH]]
    ideal = _gain(sorted(grades.values(), reverse=True))
    met = sum(gain > 0 for gain in gains)
    first = next((place for place, gain in enumerate(gains, 1) if gain > 0), None)
    return Worth(
        ndcg=_gain(gains) / ideal,
        recall=met / min(DEPTH, len(grades)),
        mrr=1 / first if first else 0.0,
    )


def mean(each: Sequence[Worth]) -> Worth:
    return Worth(
        ndcg=fmean(one.ndcg for one in each),
        recall=fmean(one.recall for one in each),
        mrr=fmean(one.mrr for one in each),
    )


def _gain(grades: Sequence[int]) -> float:
    places = enumerate(grades[:_GAIN_DEPTH], 1)
    return sum((2.0**grade - 1) / math.log2(place + 1) for place, grade in places)
