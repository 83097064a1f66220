"""Check the scores of every mode against minimum values."""

import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path

from bench.relevance.judged import JudgedQuery, Scores, mean

_FILE = Path(__file__).with_name("thresholds.toml")


def failures(mode: str, queries: Sequence[JudgedQuery], scores: Sequence[Scores]) -> list[str]:
    """Return a sentence for each score below its threshold. Modes without thresholds pass."""
    thresholds = tomllib.loads(_FILE.read_text(encoding="utf-8")).get(mode, {})
    groups = _means_by_group(queries, scores)
    return [
        f"{mode} {figure} of {group!r} is {getattr(groups[group], figure):.3f}, below {minimum}"
        for figure, minimums in thresholds.items()
        for group, minimum in minimums.items()
        if getattr(groups[group], figure) < minimum
    ]


def _means_by_group(queries: Sequence[JudgedQuery], scores: Sequence[Scores]) -> dict[str, Scores]:
    members: dict[str, list[Scores]] = {}
    for query, score in zip(queries, scores, strict=True):
        for name in _group_names(query):
            members.setdefault(name, []).append(score)
    return {name: mean(group) for name, group in members.items()}


def _group_names(query: JudgedQuery) -> Iterator[str]:
    yield from ("all", query.kind, query.language, f"{query.kind} {query.language}")
