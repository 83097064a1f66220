"""Format scores as tables by language and by kind of query."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from bench.relevance.judged import JudgedQuery, Scores, mean

Results = Mapping[str, Sequence[Scores]]
"""The scores of each query by mode, in the order of the queries."""


def tables(queries: Sequence[JudgedQuery], results: Results) -> str:
    """Return Markdown tables: all queries, by kind, and by language."""
    parts = [
        _table("All queries", queries, results, lambda _: "all"),
        _table("By kind", queries, results, lambda query: query.kind),
        _table("By language", queries, results, lambda query: query.language),
    ]
    return "\n".join(parts)


def detailed_table(queries: Sequence[JudgedQuery], results: Results) -> str:
    """Return a Markdown table by kind and language."""
    return _table("By kind and language", queries, results, lambda q: f"{q.kind} {q.language}")


def summary(queries: Sequence[JudgedQuery], results: Results) -> dict[str, Any]:
    """Return the scores as JSON values, by mode and group, and for every query."""
    return {
        mode: {
            "all": asdict(mean(scores)),
            "by_kind": _group_scores(queries, scores, lambda query: query.kind),
            "by_language": _group_scores(queries, scores, lambda query: query.language),
            "by_kind_and_language": _group_scores(
                queries, scores, lambda query: f"{query.kind} {query.language}"
            ),
            "queries": [
                {"text": query.text, "language": query.language, "kind": query.kind} | asdict(score)
                for query, score in zip(queries, scores, strict=True)
            ],
        }
        for mode, scores in results.items()
    }


def grouped(
    queries: Sequence[JudgedQuery],
    scores: Sequence[Scores],
    key: Callable[[JudgedQuery], str | None],
) -> dict[str, tuple[int, Scores]]:
    """Return number and mean of the queries in each group. Queries without a key are left out."""
    groups: dict[str, list[Scores]] = {}
    for query, score in zip(queries, scores, strict=True):
        if (name := key(query)) is not None:
            groups.setdefault(name, []).append(score)
    return {name: (len(groups[name]), mean(groups[name])) for name in sorted(groups)}


def _group_scores(
    queries: Sequence[JudgedQuery],
    scores: Sequence[Scores],
    key: Callable[[JudgedQuery], str | None],
) -> dict[str, Any]:
    return {
        name: {"queries": count} | asdict(figures)
        for name, (count, figures) in grouped(queries, scores, key).items()
    }


def _table(
    title: str,
    queries: Sequence[JudgedQuery],
    results: Results,
    key: Callable[[JudgedQuery], str | None],
) -> str:
    """Return a table with a row for each group and three columns for each mode."""
    modes = {mode: grouped(queries, scores, key) for mode, scores in results.items()}
    heads = [f"{mode} {name}" for mode in modes for name in ("nDCG@10", "recall@25", "MRR")]
    lines = [f"### {title}\n", f"| | queries | {' | '.join(heads)} |"]
    lines.append("|---|---:|" + "---:|" * len(heads))
    for name, (count, _) in next(iter(modes.values())).items():
        cells = [
            f"{figure:.2f}"
            for groups in modes.values()
            for figure in asdict(groups[name][1]).values()
        ]
        lines.append(f"| {name} | {count} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"
