"""Tables of what the queries were worth, by language and by kind."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from bench.relevance.judged import Judged, Worth, mean

Results = Mapping[str, Sequence[Worth]]
"""By mode: the worth of each query, in their order."""


def tables(queries: Sequence[Judged], results: Results) -> str:
    """Markdown: over all, by kind, by language, and by both."""
    parts = [
        _table("All queries", queries, results, lambda _: "all"),
        _table("By kind", queries, results, lambda query: query.kind),
        _table("By language", queries, results, lambda query: query.language),
        _table("By kind and language", queries, results, lambda q: f"{q.kind} {q.language}"),
    ]
    return "\n".join(parts)


def summary(queries: Sequence[Judged], results: Results) -> dict[str, Any]:
    """The same for programs: mode, then group, then figures, and every single query."""
    return {
        mode: {
            "all": asdict(mean(each)),
            "by_kind": _figures(queries, each, lambda query: query.kind),
            "by_language": _figures(queries, each, lambda query: query.language),
            "by_kind_and_language": _figures(
                queries, each, lambda query: f"{query.kind} {query.language}"
            ),
            "queries": [
                {"text": query.text, "language": query.language, "kind": query.kind} | asdict(one)
                for query, one in zip(queries, each, strict=True)
            ],
        }
        for mode, each in results.items()
    }


def grouped(
    queries: Sequence[Judged], each: Sequence[Worth], key: Callable[[Judged], str | None]
) -> dict[str, tuple[int, Worth]]:
    """How many queries a group has, and their mean; a query without a key is in none."""
    groups: dict[str, list[Worth]] = {}
    for query, one in zip(queries, each, strict=True):
        if (name := key(query)) is not None:
            groups.setdefault(name, []).append(one)
    return {name: (len(groups[name]), mean(groups[name])) for name in sorted(groups)}


def _figures(
    queries: Sequence[Judged], each: Sequence[Worth], key: Callable[[Judged], str | None]
) -> dict[str, Any]:
    return {
        name: {"queries": count} | asdict(figures)
        for name, (count, figures) in grouped(queries, each, key).items()
    }


def _table(
    title: str,
    queries: Sequence[Judged],
    results: Results,
    key: Callable[[Judged], str | None],
) -> str:
    """A row for each group, three columns for each mode."""
    modes = {mode: grouped(queries, each, key) for mode, each in results.items()}
    heads = [f"{mode} {name}" for mode in modes for name in ("nDCG@10", "recall@25", "MRR")]
    lines = [f"## {title}\n", f"| | queries | {' | '.join(heads)} |"]
    lines.append("|---|---:|" + "---:|" * len(heads))
    for name, (count, _) in next(iter(modes.values())).items():
        cells = [
            f"{figure:.2f}"
            for groups in modes.values()
            for figure in asdict(groups[name][1]).values()
        ]
        lines.append(f"| {name} | {count} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"
