"""The judged queries, and the scores of a ranking (nDCG, recall, MRR)."""

import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

Key = tuple[str, str, str]
"""connection_id, stream, record_key"""

DEPTH = 25
"""Number of hits that count, which is one page for an agent."""
_GAIN_DEPTH = 10
_FILE = Path(__file__).resolve().parents[2] / "demo" / "relevance.toml"


@dataclass(frozen=True, slots=True)
class JudgedQuery:
    """A query and the grades of its relevant records."""

    text: str
    language: str
    kind: str
    grades: Mapping[Key, int]


@dataclass(frozen=True, slots=True)
class Scores:
    """Scores from 0 to 1, of one query or the mean of several."""

    ndcg: float
    recall: float
    mrr: float


def load() -> list[JudgedQuery]:
    """Return all queries in the order of the file."""
    document = tomllib.loads(_FILE.read_text(encoding="utf-8"))
    return [
        JudgedQuery(
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


def score(ranking: Sequence[Key], grades: Mapping[Key, int]) -> Scores:
    """Return nDCG of the first 10 hits, and recall and reciprocal rank of the first 25.

    Recall divides by at most 25, so that a query with more relevant records can reach 1.
    """
    gains = [grades.get(key, 0) for key in ranking[:DEPTH]]
    ideal = _gain(sorted(grades.values(), reverse=True))
    relevant = sum(gain > 0 for gain in gains)
    first = next((rank for rank, gain in enumerate(gains, 1) if gain > 0), None)
    return Scores(
        ndcg=_gain(gains) / ideal,
        recall=relevant / min(DEPTH, len(grades)),
        mrr=1 / first if first else 0.0,
    )


def mean(scores: Sequence[Scores]) -> Scores:
    return Scores(
        ndcg=fmean(score.ndcg for score in scores),
        recall=fmean(score.recall for score in scores),
        mrr=fmean(score.mrr for score in scores),
    )


def _gain(grades: Sequence[int]) -> float:
    ranks = enumerate(grades[:_GAIN_DEPTH], 1)
    return sum((2.0**grade - 1) / math.log2(rank + 1) for rank, grade in ranks)
