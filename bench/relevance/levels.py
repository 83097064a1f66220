"""The gate: what every mode must reach."""

import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path

from bench.relevance.judged import Judged, Worth, mean

_FILE = Path(__file__).with_name("levels.toml")


def missed(mode: str, queries: Sequence[Judged], each: Sequence[Worth]) -> list[str]:
    """A sentence for each level that was not reached; a mode without levels misses none."""
    levels = tomllib.loads(_FILE.read_text(encoding="utf-8")).get(mode, {})
    groups = _groups(queries, each)
    return [
        f"{mode} {figure} of {group!r} is {getattr(groups[group], figure):.3f}, below {least}"
        for figure, wanted in levels.items()
        for group, least in wanted.items()
        if getattr(groups[group], figure) < least
    ]


def _groups(queries: Sequence[Judged], each: Sequence[Worth]) -> dict[str, Worth]:
    members: dict[str, list[Worth]] = {}
    for query, one in zip(queries, each, strict=True):
        for name in _names(query):
            members.setdefault(name, []).append(one)
    return {name: mean(those) for name, those in members.items()}


def _names(query: Judged) -> Iterator[str]:
    yield from ("all", query.kind, query.language, f"{query.kind} {query.language}")
