"""Format the results as a table and as JSON."""

import json
import os
import platform
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil

from bench.speed.targets import Verdict, comparison

COLUMNS = (
    "p50", "p99", "p50 x8", "p99 x8", "CPU", "db CPU", "baseline", "ratio", "disk", "ref. p50",
)  # fmt: skip
REFERENCE_RECORDS = 10_000
REFERENCE_P50 = {
    "list of 25 records": 4.1,
    "list of 100 records": 5.4,
    "schema, whole": 6.8,
    "months of the largest connection": 184.0,
    "search: common word, all": 92.0,
    "search: nothing found": 4.9,
    "MCP query_records, 25": 10.4,
    "MCP search": 107.0,
}
"""Milliseconds of the reference implementation on its better store, once, on another machine."""
GIB = 1024**3


def table(runs: Mapping[int, Mapping[str, Any]], verdicts: Sequence[Verdict]) -> str:
    """Return a table in milliseconds; CPU is in microseconds per request.

    `disk` is a write that waits for the disk, measured before the item, because each answer has one.
    """
    lines: list[str] = []
    for size, run in runs.items():
        lines += ["", f"{size:,} records", _line("", COLUMNS)]
        for name, item in run["items"].items():
            reference = REFERENCE_P50.get(name) if size == REFERENCE_RECORDS else None
            disk = (item.get("disk"), reference)
            lines.append(_line(name, [*_cells(run, item), *(_number(each, 2) for each in disk)]))
        lines += [f"  {name:<44} {value:>10,.2f}" for name, value in run["values"].items()]
        lines += [f"  WRONG: {sentence}" for sentence in run["wrong"]]
    lines += ["", "Targets", *(_verdict(each) for each in verdicts)]
    return "\n".join(lines) + "\n"


def markdown(run: Mapping[str, Any]) -> str:
    """Return a Markdown table of one corpus in milliseconds, and a second one of other values."""
    found = machine()
    heads = ("p50", "p99", "p50, 8 clients", "p99, 8 clients", "baseline, p50", "times baseline")
    lines = [
        f"{time.strftime('%Y-%m-%d')}, {found['processors']} processors,"
        f" {found['memory_gib']:.0f} GiB, {found['system']}, Python {found['python']},"
        f" load {found['load'][0]}",
        "",
        f"| | {' | '.join(heads)} |",
        "|---|" + "---:|" * len(heads),
    ]
    for name, item in run["items"].items():
        cells = list(_cells(run, item))
        lines.append(f"| {name} | {' | '.join((*cells[:4], *cells[6:]))} |")
    lines += ["", "| | |", "|---|---:|"]
    lines += [f"| {name} | {_number(value, 2)} |" for name, value in run["values"].items()]
    return "\n".join(lines)


def write_json(path: Path, runs: Mapping[int, Any], verdicts: Sequence[Verdict]) -> None:
    """Write all results, to compare runs."""
    document = {
        "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "machine": machine(),
        "runs": runs,
        "targets": [
            {
                "item": verdict.target.item,
                "target": verdict.target.words,
                "records": verdict.size,
                "value": verdict.value,
                "met": verdict.met,
            }
            for verdict in verdicts
        ],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=1) + "\n")


def machine() -> dict[str, Any]:
    """Return the properties of the machine that affect the results, without its name."""
    return {
        "processors": os.cpu_count(),
        "memory_gib": round(psutil.virtual_memory().total / GIB, 1),
        "system": platform.system(),
        "python": platform.python_version(),
        "load": [round(each, 1) for each in os.getloadavg()],
    }


def _cells(run: Mapping[str, Any], item: Mapping[str, Any]) -> Iterator[str]:
    one, eight = item["one"], item.get("eight", {})
    other = comparison(run, item)
    for figures, name in ((one, "p50"), (one, "p99"), (eight, "p50"), (eight, "p99")):
        yield _number(figures.get(name), 2)
    yield _number(one.get("cpu"), 0)
    yield _number(one.get("database_cpu"), 0)
    yield _number(other.get("p50"), 2)
    yield _number(one["p50"] / other["p50"] if other.get("p50") else None, 2)


def _line(name: str, cells: Iterator[str] | Sequence[str]) -> str:
    return f"  {name:<44}" + "".join(f"{cell:>9}" for cell in cells)


def _number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:,.{digits}f}"


def _verdict(verdict: Verdict) -> str:
    met = {True: "met", False: "MISSED", None: "-"}[verdict.met]
    label = f"{verdict.target.item} at {verdict.size:,}"
    return f"  {met:<6}  {label:<60} {_number(verdict.value, 2):>12}   {verdict.target.words}"
