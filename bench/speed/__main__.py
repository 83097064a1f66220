"""`make bench`: load, serve, ask, check, compare.

CORPUS=DIR[,DIR…] measures prepared corpora, each DIR one of them or a folder of several; without it
small ones are made, of SIZES=10k,100k (10k unless told). Installations are loaded once and kept under
BENCH_HOME (var/bench unless told); FRESH=1 loads them again. SECONDS is how long one round of one item
may last, REPORT where the JSON goes.
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

from bench.served import ROOT
from bench.speed import agents, answers, generator, items, report, storage, targets, wire
from bench.speed.corpus import Corpus, prepared, prepared_under
from bench.speed.installation import Installation, Serving
from bench.speed.items import Asking, Tokens
from bench.speed.measuring import Effort, Target, exported, measured

HOME = ROOT / "var" / "bench"
SAMPLE = 100
UNITS = {"k": 1_000, "m": 1_000_000}


@dataclass(frozen=True)
class Options:
    corpora: tuple[Path, ...]
    sizes: tuple[int, ...]
    home: Path
    fresh: bool
    effort: Effort
    report: Path

    @classmethod
    def read(cls, environment: Mapping[str, str]) -> "Options":
        home = Path(environment.get("BENCH_HOME") or HOME)
        named = [Path(each) for each in environment.get("CORPUS", "").split(",") if each]
        corpora = [found for each in named for found in prepared_under(each)]
        sizes = [_size(each) for each in (environment.get("SIZES") or "10k").split(",")]
        return cls(
            corpora=tuple(corpora),
            sizes=tuple(sizes),
            home=home,
            fresh=bool(environment.get("FRESH")),
            effort=_effort(environment.get("SECONDS")),
            report=Path(environment.get("REPORT") or home / "speed.json"),
        )


def main(environment: Mapping[str, str]) -> int:
    """0 when every answer was right; a missed target is told, not punished."""
    options = Options.read(environment)
    runs = {corpus.size: _run(corpus, options) for corpus in _corpora(options)}
    runs = dict(sorted(runs.items()))
    verdicts = list(targets.judged(runs))
    report.written(options.report, runs, verdicts)
    sys.stdout.write(report.table(runs, verdicts))
    return 1 if any(run["wrong"] for run in runs.values()) else 0


def _corpora(options: Options) -> Iterator[Corpus]:
    for path in options.corpora:
        yield prepared(path)
    if options.corpora:
        return
    for size in options.sizes:
        path = options.home / f"corpus-{size}"
        if not (path / "truth.json").exists():
            _say(f"making a corpus of {size:,} records")
            generator.generate(path, size=size)
        yield prepared(path)


def _run(corpus: Corpus, options: Options) -> dict[str, Any]:
    """Everything that is told of one corpus."""
    installation = _loaded(corpus, options)
    facts = installation.notes
    tokens = Tokens(**facts["tokens"])
    values = dict(facts["ingest"])
    with (
        installation.serving() as site,
        installation.serving("-m", "bench.speed.floor_server") as floor,
    ):
        values["second start, seconds"] = site.started
        asking = _asking(corpus, tokens, site)
        ask = partial(wire.answer, site.port)
        wrong = list(answers.wrong(asking, ask))
        postmaster = installation.postmaster
        where = {
            "site": Target(site.port, site.pid, postmaster),
            "floor": Target(floor.port, floor.pid, postmaster),
        }
        found = _measured(asking, where, options.effort)
        rate = found["export by pages of 100"]["one"]["records_a_second"]
        values["export, records a second"] = rate
        values["stdio to initialize, seconds"] = agents.seconds_to_initialize(
            installation, tokens.mcp
        )
        values |= storage.sizes(installation.var)
        values["memory of the server, MiB"] = site.watched.mib
    return {"items": found, "values": values, "wrong": wrong}


def _measured(
    asking: Asking, where: Mapping[str, Target], effort: Effort
) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for item in _items(asking, where["site"].port):
        _say(f"{asking.corpus.size:,}: {item.name}")
        if item.limit:
            most = asking.corpus.truth["counts"][asking.corpus.largest.connection_id]
            found[item.name] = exported(item, **where, most=min(most, items.EXPORTED))
        else:
            found[item.name] = measured(item, **where, effort=effort)
        if item.beside:
            found[item.name]["beside"] = item.beside
    return found


def _items(asking: Asking, port: int) -> Iterator[items.Item]:
    yield from items.reading(asking)
    for name, request in items.searching(asking):
        floor = items.found_rows(asking, wire.answer(port, request))
        yield items.Item(name, [request], floor)
    yield from items.calling(asking)


def _asking(corpus: Corpus, tokens: Tokens, site: Serving) -> Asking:
    """With the keys of some old records of each connection; the newest are in every cache."""
    asking = Asking(corpus, tokens)
    keys = {}
    for where in corpus.connections:
        body = wire.answer(site.port, asking.records(where, limit=SAMPLE, order="asc"))
        keys[where.connection_id] = [row["id"] for row in body["data"]]
    return Asking(corpus, tokens, keys)


def _loaded(corpus: Corpus, options: Options) -> Installation:
    """The installation of a corpus; loaded unless it was before, and as the code is now."""
    installation = Installation(options.home / f"speed-{corpus.name}")
    if options.fresh:
        shutil.rmtree(installation.var, ignore_errors=True)
    installation.manage("migrate", "--verbosity", "0")
    if not installation.notes:
        _say(f"loading {corpus.size:,} records")
        ingest = installation.ingest(corpus)
        since, until = corpus.narrow_days
        days = ("--since", since.isoformat(), "--until", until.isoformat())
        whole, narrow = (_granted(installation, corpus, *more) for more in ((), days))
        tokens = {"rest": whole["/v1"], "mcp": whole["/mcp"], "narrow": narrow["/v1"]}
        installation.note({"ingest": ingest, "tokens": tokens})
    return installation


def _granted(installation: Installation, corpus: Corpus, *more: str) -> dict[str, str]:
    """Tokens by resource, over every connection."""
    named = [word for each in corpus.connections for word in ("--connection", each.connection_id)]
    printed = installation.manage("grant", "--client", "Bench", *named, *more, "--json")
    return {each["resource"]: each["token"] for each in json.loads(printed)["tokens"]}


def _effort(seconds: str | None) -> Effort:
    """Two rounds of so many seconds; where less than one is allowed, a single one, and no ado."""
    if not seconds:
        return Effort()
    if float(seconds) < 1:
        return Effort(seconds=float(seconds), rounds=1, warm=1)
    return Effort(seconds=float(seconds))


def _size(text: str) -> int:
    """`100k` and `1m` as numbers."""
    unit = UNITS.get(text[-1].lower(), 1)
    return int(text.rstrip("kKmM")) * unit


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")


if __name__ == "__main__":
    sys.exit(main(os.environ))
