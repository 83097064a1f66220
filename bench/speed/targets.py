"""The target of each figure, and whether a run meets it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

Kind = Literal["p50", "ratio", "cpu", "tail", "growth", "value", "rate"]
WORDS: Mapping[Kind, str] = {
    "p50": "p50 at most {} ms",
    "ratio": "at most {} times {}",
    "cpu": "at most {} times the CPU of {}",
    "tail": "p99 at most {} times p50",
    "growth": "grows at most {} times from {:,} to {:,} records",
    "value": "at most {}",
    "rate": "at least {:,}",
}
MILLION = 1_000_000


@dataclass(frozen=True)
class Target:
    """A target. `only` restricts it to one corpus size; `sizes` are those of a growth target.

    `compared` names what an item is compared with.
    """

    item: str
    kind: Kind
    bound: float
    only: int | None = None
    sizes: tuple[int, int] | None = None
    compared: str = "the baseline"

    @property
    def words(self) -> str:
        values = self.sizes or (self.compared,)
        return WORDS[self.kind].format(self.bound, *values)


@dataclass(frozen=True)
class Verdict:
    """The result of a target. `value` is None if it was not measured."""

    target: Target
    size: int
    value: float | None

    @property
    def met(self) -> bool | None:
        if self.value is None:
            return None
        if self.target.kind == "rate":
            return self.value >= self.target.bound
        return self.value <= self.target.bound


_SEARCHES = {
    "search: rare word": 5,
    "search: common word, one connection": 25,
    "search: common word, all": 40,
    "search: two common words": 60,
    "search: stopword-like word": 40,
    "search: phrase": 100,
    "search: prefix": 25,
    "search: common word, 1 % of the time": 40,
    "search: stopword-like word, 1 % of the time": 40,
}
TARGETS = (
    Target("ingest, records a second", "rate", 7_000, only=100_000),
    Target("ingest, MiB", "value", 300),
    Target("list of 25 records", "ratio", 2.2),
    Target("list of 100 records", "ratio", 2.2),
    Target("months of the largest connection", "p50", 60, only=100_000),
    Target("schema, whole", "p50", 15),
    Target("schema, compact", "p50", 15),
    Target("export, records a second", "rate", 10_000),
    Target("memory of the server, MiB", "value", 200),
    Target("second start, seconds", "value", 5),
    *(
        Target(name, "growth", 1.5, sizes=sizes)
        for sizes in ((10_000, MILLION), (100_000, 3 * MILLION))
        for name in (
            "list of 25 records",
            "changes since the beginning, 25",
            "one record",
            "field window",
            "search: rare word",
        )
    ),
    *(Target(name, "p50", bound, only=MILLION) for name, bound in _SEARCHES.items()),
    *(Target(name, "tail", 3, only=MILLION) for name in _SEARCHES),
    *(
        Target(name, "growth", 2, sizes=(100_000, largest))
        for largest in (MILLION, 3 * MILLION)
        for name in _SEARCHES
    ),
    Target("search: phrase", "p50", 40, only=10_000),
    Target("field window, middle of 1 MB", "p50", 5),
    Target("search: nothing found", "p50", 10),
    Target("search index to records", "value", 0.6, only=MILLION),
    Target("MCP query_records, 25", "cpu", 5.5, compared="the echo"),
    Target("MCP search", "ratio", 1.3, compared="its REST request"),
    Target("MCP fetch", "ratio", 1.3, compared="its REST request"),
    Target("MCP read_record_field", "ratio", 1.3, compared="its REST request"),
    Target("stdio to initialize, seconds", "value", 0.6),
)


def evaluate(runs: Mapping[int, Mapping[str, Any]]) -> Iterator[Verdict]:
    """Yield a verdict for each target whose sizes were measured, within 10 %."""
    for target in TARGETS:
        if target.sizes is not None:
            small, large = (_nearest(runs, size) for size in target.sizes)
            if small is not None and large is not None:
                ends = _figure(runs[large], target), _figure(runs[small], target)
                yield Verdict(target, large, _ratio(*ends))
            continue
        for size, run in runs.items():
            if target.only is None or _nearest({size: run}, target.only) is not None:
                yield Verdict(target, size, _figure(run, target))


def _nearest(runs: Mapping[int, Any], size: int) -> int | None:
    return next((each for each in runs if abs(each - size) <= size / 10), None)


def _figure(run: Mapping[str, Any], target: Target) -> float | None:
    if target.kind in ("value", "rate"):
        value: float | None = run["values"].get(target.item)
        return value
    item = run["items"].get(target.item)
    if item is None:
        return None
    one: Mapping[str, float] = item["one"]
    if target.kind == "tail":
        return _ratio(one["p99"], one["p50"])
    if target.kind == "ratio":
        return _ratio(one["p50"], comparison(run, item).get("p50"))
    if target.kind == "cpu":
        return _ratio(one.get("cpu"), comparison(run, item).get("cpu"))
    return one["p50"]


def comparison(run: Mapping[str, Any], item: Mapping[str, Any]) -> Mapping[str, float]:
    """Return the figures of an item's baseline or of the item that it is compared with."""
    if item.get("beside"):
        other: Mapping[str, float] = run["items"].get(item["beside"], {}).get("one", {})
        return other
    baseline: Mapping[str, float] = item.get("floor", {})
    return baseline


def _ratio(one: float | None, other: float | None) -> float | None:
    return one / other if one is not None and other else None
