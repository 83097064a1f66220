"""Measure an item and its baseline in turn, so that both see the same machine load."""

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from bench.served import ROOT
from bench.speed.client import Plan
from bench.speed.installation import FailedError
from bench.speed.items import Item

MANY_CLIENTS = 8


@dataclass(frozen=True)
class Budget:
    """The limits of a round of one item."""

    seconds: float = 1.0
    max_requests: int = 200
    warm: int = 8
    rounds: int = 2


@dataclass
class Samples:
    """The measurements of one or more rounds."""

    milliseconds: list[float] = field(default_factory=list)
    server_cpu: list[float] = field(default_factory=list)
    database_cpu: list[float] = field(default_factory=list)

    def add(self, result: dict[str, Any]) -> None:
        if result["failures"]:
            raise FailedError(f"the server returned {result['failures']}")
        self.milliseconds += result["milliseconds"]
        for name in ("server_cpu", "database_cpu"):
            if result[name] is not None:
                getattr(self, name).append(result[name])

    def figures(self) -> dict[str, float]:
        """Return p50 and p99 in milliseconds, and the lowest CPU microseconds per request."""
        figures = {
            "p50": quantile(self.milliseconds, 0.5),
            "p99": quantile(self.milliseconds, 0.99),
        }
        if self.server_cpu and self.database_cpu:
            figures |= {"cpu": min(self.server_cpu), "database_cpu": min(self.database_cpu)}
        return figures


@dataclass(frozen=True)
class Target:
    """The port and process of a server, and the process of its database."""

    port: int
    pid: int
    postmaster: int


def measure(item: Item, *, site: Target, baseline: Target, budget: Budget) -> dict[str, Any]:
    """Return figures for one client, for eight, and for the baseline with one client."""
    one, eight, baseline_samples = Samples(), Samples(), Samples()
    for _ in range(budget.rounds):
        one.add(_run(_plan(item.requests, site, 1, budget)))
        if item.baseline:
            baseline_samples.add(_run(_plan(item.baseline, baseline, 1, budget)))
    eight.add(_run(_plan(item.requests, site, MANY_CLIENTS, budget)))
    figures: dict[str, Any] = {"one": one.figures(), "eight": eight.figures()}
    if item.baseline:
        figures["floor"] = baseline_samples.figures()
    return figures


def measure_export(
    item: Item, *, site: Target, baseline: Target, max_records: int
) -> dict[str, Any]:
    """Return records per second over all pages of a list and of its baseline.

    Reads the rows once before, so that both find them in the cache.
    """
    figures = {}
    warm_up = _plan(item.baseline, baseline, 1, Budget())
    _run(Plan(**{**asdict(warm_up), "follow": max_records, "page": item.limit}))
    for name, requests, target in (
        ("one", item.requests, site),
        ("floor", item.baseline, baseline),
    ):
        plan = _plan(requests, target, 1, Budget())
        result = _run(Plan(**{**asdict(plan), "follow": max_records, "page": item.limit}))
        if result["failures"] or result["records"] < max_records:
            raise FailedError(f"the export has {result['records']} records: {result['failures']}")
        pages = result["milliseconds"]
        figures[name] = {
            "p50": quantile(pages, 0.5),
            "p99": quantile(pages, 0.99),
            "records_a_second": result["records"] / result["elapsed"],
        }
    return figures


def quantile(values: Sequence[float], share: float) -> float:
    """Return the quantile of a list, or 0 if it is empty."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else 0.0


def _plan(requests: Sequence[str], target: Target, clients: int, budget: Budget) -> Plan:
    return Plan(
        port=target.port,
        requests=list(requests),
        clients=clients,
        max_requests=budget.max_requests,
        seconds=budget.seconds,
        warm=budget.warm,
        server=target.pid,
        database=target.postmaster,
    )


def _run(plan: Plan) -> dict[str, Any]:
    process = subprocess.run(
        [sys.executable, "-m", "bench.speed.client"],
        cwd=ROOT,
        input=json.dumps(asdict(plan)),
        capture_output=True,
        text=True,
        check=False,
    )
    if process.returncode != 0:
        raise FailedError(f"the client failed: {process.stderr[-2000:]}")
    result: dict[str, Any] = json.loads(process.stdout)
    return result
