"""`make bench`: load corpora, serve them, and measure and check requests.

CORPUS=DIR[,DIR…] measures prepared corpora; a DIR is one corpus or a folder of several. Without it,
small corpora of SIZES=10k,100k (default 10k) are generated. Installations are loaded once and stay
under BENCH_HOME (default var/bench); FRESH=1 loads them again. SECONDS limits one round of one item,
REPORT is the path of the JSON report, RESULTS that of the page of tables (bench/results.py).
"""

import json
import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from bench import results
from bench.served import ROOT
from bench.speed import agents, correctness, items, report, storage, targets, wire
from bench.speed.corpus import Corpus, prepared, prepared_under
from bench.speed.installation import Installation, RunningServer
from bench.speed.items import RequestBuilder, Tokens
from bench.speed.measurement import Budget, Target, measure, measure_export
from demo import generated

HOME = ROOT / "var" / "bench"
SAMPLE = 100
UNITS = {"k": 1_000, "m": 1_000_000}


@dataclass(frozen=True)
class Options:
    """The options from environment variables."""

    corpora: tuple[Path, ...]
    sizes: tuple[int, ...]
    home: Path
    fresh: bool
    budget: Budget
    report: Path

    @classmethod
    def read(cls, environment: Mapping[str, str]) -> "Options":
        home = Path(environment.get("BENCH_HOME") or HOME)
        folders = [Path(name) for name in environment.get("CORPUS", "").split(",") if name]
        corpora = [path for folder in folders for path in prepared_under(folder)]
        sizes = [parse_size(each) for each in (environment.get("SIZES") or "10k").split(",")]
        return cls(
            corpora=tuple(corpora),
            sizes=tuple(sizes),
            home=home,
            fresh=bool(environment.get("FRESH")),
            budget=_budget(environment.get("SECONDS")),
            report=Path(environment.get("REPORT") or home / "speed.json"),
        )


def main(environment: Mapping[str, str]) -> int:
    """Return 0 if every response was correct, even if a target was missed."""
    options = Options.read(environment)
    runs = {corpus.size: _run(corpus, options) for corpus in _corpora(options)}
    runs = dict(sorted(runs.items()))
    verdicts = list(targets.evaluate(runs))
    report.write_json(options.report, runs, verdicts)
    sys.stdout.write(report.table(runs, verdicts))
    for size, run in runs.items():
        results.write(f"Speed, {size:,} records", report.markdown(run))
    return 1 if any(run["wrong"] for run in runs.values()) else 0


def _corpora(options: Options) -> Iterator[Corpus]:
    for path in options.corpora:
        yield prepared(path)
    if options.corpora:
        return
    for size in options.sizes:
        path = options.home / f"corpus-{size}"
        if not (path / "truth.json").exists():
            _log(f"generating a corpus of {size:,} records")
            generated.generate(path, size=size)
        yield prepared(path)


def _run(corpus: Corpus, options: Options) -> dict[str, Any]:
    """Return all results of one corpus."""
    installation = _load_installation(corpus, options)
    notes = installation.notes
    tokens = Tokens(**notes["tokens"])
    values = dict(notes["ingest"])
    with (
        installation.serving() as site,
        installation.serving("-m", "bench.speed.baseline_server") as baseline,
    ):
        values["second start, seconds"] = site.started
        requests = _request_builder(corpus, tokens, site)
        ask = partial(wire.send, site.port)
        wrong = list(correctness.find_errors(requests, ask))
        postmaster = installation.postmaster
        servers = {
            "site": Target(site.port, site.pid, postmaster),
            "baseline": Target(baseline.port, baseline.pid, postmaster),
        }
        figures = _measure_all(requests, servers, options.budget, installation.var)
        rate = figures["export by pages of 100"]["one"]["records_a_second"]
        values["export, records a second"] = rate
        values["stdio to initialize, seconds"] = agents.seconds_to_initialize(
            installation, tokens.mcp
        )
        values |= storage.sizes(installation.var)
        values["memory of the server, MiB"] = site.memory.mib
    return {"items": figures, "values": values, "wrong": wrong}


def _measure_all(
    requests: RequestBuilder, servers: Mapping[str, Target], budget: Budget, var: Path
) -> dict[str, dict[str, Any]]:
    figures: dict[str, dict[str, Any]] = {}
    for item in _items(requests, servers["site"].port):
        _log(f"{requests.corpus.size:,}: {item.name}")
        disk = storage.disk_milliseconds(var)
        if item.limit:
            total = requests.corpus.truth["counts"][requests.corpus.largest.connection_id]
            figures[item.name] = measure_export(
                item, **servers, max_records=min(total, items.MAX_EXPORTED)
            )
        else:
            figures[item.name] = measure(item, **servers, budget=budget)
        figures[item.name]["disk"] = disk
        if item.beside:
            figures[item.name]["beside"] = item.beside
    return figures


def _items(requests: RequestBuilder, port: int) -> Iterator[items.Item]:
    yield from items.read_items(requests)
    for name, request in items.search_requests(requests):
        baseline = items.baseline_of_search(requests, wire.send(port, request))
        yield items.Item(name, [request], baseline)
    yield from items.mcp_items(requests)


def _request_builder(corpus: Corpus, tokens: Tokens, site: RunningServer) -> RequestBuilder:
    """Return a builder with the keys of old records, because the newest are in every cache."""
    requests = RequestBuilder(corpus, tokens)
    keys = {}
    for where in corpus.connections:
        body = wire.send(site.port, requests.records(where, limit=SAMPLE, order="asc"))
        keys[where.connection_id] = [row["id"] for row in body["data"]]
    return RequestBuilder(corpus, tokens, keys)


def _load_installation(corpus: Corpus, options: Options) -> Installation:
    """Return the installation of a corpus, loaded if needed and migrated."""
    installation = Installation(options.home / f"speed-{corpus.name}")
    if options.fresh:
        shutil.rmtree(installation.var, ignore_errors=True)
    installation.manage("migrate", "--verbosity", "0")
    if not installation.notes:
        _log(f"loading {corpus.size:,} records")
        ingest = installation.ingest(corpus)
        since, until = corpus.narrow_days
        days = ("--since", since.isoformat(), "--until", until.isoformat())
        full, narrow = (_issue_tokens(installation, corpus, *period) for period in ((), days))
        tokens = {"rest": full["/v1"], "mcp": full["/mcp"], "narrow": narrow["/v1"]}
        installation.save_notes({"ingest": ingest, "tokens": tokens})
    return installation


def _issue_tokens(installation: Installation, corpus: Corpus, *options: str) -> dict[str, str]:
    """Return tokens for all connections by resource."""
    connections = [
        word
        for connection in corpus.connections
        for word in ("--connection", connection.connection_id)
    ]
    printed = installation.manage("grant", "--client", "Bench", *connections, *options, "--json")
    return {each["resource"]: each["token"] for each in json.loads(printed)["tokens"]}


def _budget(seconds: str | None) -> Budget:
    """Return a budget of two rounds, or one round if it is shorter than a second."""
    if not seconds:
        return Budget()
    if float(seconds) < 1:
        return Budget(seconds=float(seconds), rounds=1, warm=1)
    return Budget(seconds=float(seconds))


def parse_size(text: str) -> int:
    """Parse a size such as `100k` or `1m`."""
    unit = UNITS.get(text[-1].lower(), 1)
    return int(text.rstrip("kKmM")) * unit


def _log(text: str) -> None:
    sys.stderr.write(f"{text}\n")


if __name__ == "__main__":
    sys.exit(main(os.environ))
