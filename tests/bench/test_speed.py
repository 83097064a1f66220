"""`make bench` in small: a tiny corpus, each request a few times, and a report without holes."""

import json
from pathlib import Path

import pytest

from bench.speed import __main__ as bench
from bench.speed import agents, generator, report, targets
from bench.speed.corpus import prepared_under

VALUES = (
    "ingest, records a second",
    "ingest, MiB",
    "export, records a second",
    "stdio to initialize, seconds",
    "second start, seconds",
    "records, MiB",
    "search text, MiB",
    "search index, MiB",
    "search index to records",
    "memory of the server, MiB",
)


@pytest.fixture
def reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> tuple[dict[str, object], str]:
    monkeypatch.setattr(agents, "TIMES", 1)
    home = tmp_path / "home"
    generator.generate(tmp_path / "corpora" / "tiny", size=400)
    asked = {"CORPUS": str(tmp_path / "corpora"), "BENCH_HOME": str(home), "SECONDS": "0.03"}
    status = bench.main(asked)
    printed = capsys.readouterr().out
    assert status == 0, printed
    return json.loads((home / "speed.json").read_text()), printed


@pytest.mark.long
def test_the_report_has_every_row(reported: tuple[dict[str, object], str]) -> None:
    document, printed = reported
    run = document["runs"]["400"]  # type: ignore[index]
    assert run["wrong"] == []
    named = {each.item for each in targets.TARGETS}
    assert named <= {*run["items"], *run["values"]}
    assert set(VALUES) <= set(run["values"])
    for name, item in run["items"].items():
        assert item["one"]["p99"] >= item["one"]["p50"] > 0, name
        assert name in printed
    judged = {each["item"] for each in document["targets"]}  # type: ignore[attr-defined]
    assert "list of 25 records" in judged


def test_what_could_not_be_measured_is_told_apart_from_what_was_missed() -> None:
    empty = {"items": {}, "values": {}, "wrong": []}
    verdicts = list(targets.judged({10_000: empty, 100_000: empty, 1_000_000: empty}))
    assert {each.met for each in verdicts} == {None}
    assert "MISSED" not in report.table({10_000: empty}, verdicts)


def test_a_folder_of_corpora_is_taken_from_the_smallest_on(tmp_path: Path) -> None:
    for size in (40, 20):
        generator.generate(tmp_path / f"of-{size}", size=size)
    assert prepared_under(tmp_path) == [tmp_path / "of-20", tmp_path / "of-40"]
    assert prepared_under(tmp_path / "of-40") == [tmp_path / "of-40"]
    with pytest.raises(FileNotFoundError):
        prepared_under(tmp_path / "of-40" / "manifests")
