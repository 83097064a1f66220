"""`make bench` with a tiny corpus produces a complete report."""

import json
from pathlib import Path

import pytest

from bench import results
from bench.speed import __main__ as bench
from bench.speed import agents, report, targets
from bench.speed.corpus import prepared_under
from demo import generated

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
def report_and_output(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> tuple[dict[str, object], str]:
    monkeypatch.setattr(agents, "STARTS", 1)
    monkeypatch.setenv("RESULTS", str(tmp_path / "RESULTS.md"))
    home = tmp_path / "home"
    generated.generate(tmp_path / "corpora" / "tiny", size=400)
    options = {"CORPUS": str(tmp_path / "corpora"), "BENCH_HOME": str(home), "SECONDS": "0.03"}
    status = bench.main(options)
    printed = capsys.readouterr().out
    assert status == 0, printed
    return json.loads((home / "speed.json").read_text()), printed


@pytest.mark.slow
def test_report_has_every_row(report_and_output: tuple[dict[str, object], str]) -> None:
    document, printed = report_and_output
    run = document["runs"]["400"]  # type: ignore[index]
    assert run["wrong"] == []
    named = {target.item for target in targets.TARGETS}
    assert named <= {*run["items"], *run["values"]}
    assert set(VALUES) <= set(run["values"])
    for name, item in run["items"].items():
        assert item["one"]["p99"] >= item["one"]["p50"] > 0, name
        assert name in printed
    judged = {target["item"] for target in document["targets"]}  # type: ignore[attr-defined]
    assert "list of 25 records" in judged


def test_a_table_replaces_the_earlier_one_of_its_section_alone() -> None:
    page = results.replaced("# Results\n", "Speed, 400 records", "| old |")
    page = results.replaced(page, "Agents", "| other |")

    assert results.replaced(page, "Speed, 400 records", "| new |") == page.replace("old", "new")


def test_unmeasured_targets_are_not_missed() -> None:
    empty = {"items": {}, "values": {}, "wrong": []}
    verdicts = list(targets.evaluate({10_000: empty, 100_000: empty, 1_000_000: empty}))
    assert {verdict.met for verdict in verdicts} == {None}
    assert "MISSED" not in report.table({10_000: empty}, verdicts)


def test_corpora_of_a_folder_are_sorted_by_size(tmp_path: Path) -> None:
    for size in (40, 20):
        generated.generate(tmp_path / f"of-{size}", size=size)
    assert prepared_under(tmp_path) == [tmp_path / "of-20", tmp_path / "of-40"]
    assert prepared_under(tmp_path / "of-40") == [tmp_path / "of-40"]
    with pytest.raises(FileNotFoundError):
        prepared_under(tmp_path / "of-40" / "manifests")
