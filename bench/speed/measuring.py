"""Running the client: an item and its floor in turn, so that both see the same machine."""

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

EIGHT = 8


@dataclass(frozen=True)
class Effort:
    """How long a round of one item lasts at most, and how many requests it has at most."""

    seconds: float = 1.0
    most: int = 200
    warm: int = 8
    rounds: int = 2


@dataclass
class Load:
    """What a number of clients saw together."""

    milliseconds: list[float] = field(default_factory=list)
    server_cpu: list[float] = field(default_factory=list)
    database_cpu: list[float] = field(default_factory=list)

    def add(self, seen: dict[str, Any]) -> None:
        if seen["failures"]:
            raise FailedError(f"the server answered {seen['failures']}")
        self.milliseconds += seen["milliseconds"]
        for name in ("server_cpu", "database_cpu"):
            if seen[name] is not None:
                getattr(self, name).append(seen[name])

    def figures(self) -> dict[str, float]:
        """Milliseconds for p50 and p99, CPU microseconds a request of the least busy round."""
        found = {"p50": quantile(self.milliseconds, 0.5), "p99": quantile(self.milliseconds, 0.99)}
        if self.server_cpu and self.database_cpu:
            found |= {"cpu": min(self.server_cpu), "database_cpu": min(self.database_cpu)}
        return found


@dataclass(frozen=True)
class Target:
    """Whom to ask: the port and process of a server, and the database behind it."""

    port: int
    pid: int
    postmaster: int


def measured(item: Item, *, site: Target, floor: Target, effort: Effort) -> dict[str, Any]:
    """``one``, ``eight`` and, where there is a floor, ``floor`` with one client."""
    one, eight, least = Load(), Load(), Load()
    for _ in range(effort.rounds):
        one.add(_run(_plan(item.requests, site, 1, effort)))
        if item.floor:
            least.add(_run(_plan(item.floor, floor, 1, effort)))
    eight.add(_run(_plan(item.requests, site, EIGHT, effort)))
    figures: dict[str, Any] = {"one": one.figures(), "eight": eight.figures()}
    if item.floor:
        figures["floor"] = least.figures()
    return figures


def exported(item: Item, *, site: Target, floor: Target, most: int) -> dict[str, Any]:
    """Records a second over all pages of a list, and over those of its floor; the rows are read once
    before, so that neither finds them where the other has left them."""
    figures = {}
    warm = _plan(item.floor, floor, 1, Effort())
    _run(Plan(**{**asdict(warm), "follow": most, "page": item.limit}))
    for name, requests, target in (("one", item.requests, site), ("floor", item.floor, floor)):
        plan = _plan(requests, target, 1, Effort())
        seen = _run(Plan(**{**asdict(plan), "follow": most, "page": item.limit}))
        if seen["failures"] or seen["records"] < most:
            raise FailedError(f"the export has {seen['records']} records: {seen['failures']}")
        pages = seen["milliseconds"]
        figures[name] = {
            "p50": quantile(pages, 0.5),
            "p99": quantile(pages, 0.99),
            "records_a_second": seen["records"] / seen["elapsed"],
        }
    return figures


def quantile(values: Sequence[float], share: float) -> float:
    """The value below which that share lies; zero without any."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else 0.0


def _plan(requests: Sequence[str], target: Target, clients: int, effort: Effort) -> Plan:
    return Plan(
        port=target.port,
        requests=list(requests),
        clients=clients,
        most=effort.most,
        seconds=effort.seconds,
        warm=effort.warm,
        server=target.pid,
        database=target.postmaster,
    )


def _run(plan: Plan) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "bench.speed.client"],
        cwd=ROOT,
        input=json.dumps(asdict(plan)),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise FailedError(f"the client failed: {done.stderr[-2000:]}")
    seen: dict[str, Any] = json.loads(done.stdout)
    return seen
