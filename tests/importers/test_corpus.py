"""Samples of many kinds are read as a person reads them; each bank with a profile has one."""

from pathlib import Path

import orjson
import pytest

from importers.authoring.__main__ import RIGHT, SUFFIX, check_sample, main
from importers.bank.profiles import layouts
from importers.registry import OWN_FOLDER, OWN_PACKAGE, load_importers

CORPUS = Path(__file__).parent / "corpus"
SAMPLES = sorted(CORPUS.rglob(f"*{SUFFIX}"))


@pytest.mark.parametrize("expected", SAMPLES, ids=lambda path: path.name.removesuffix(SUFFIX))
def test_sample_is_read_as_expected(expected: Path) -> None:
    sample = expected.with_name(expected.name.removesuffix(SUFFIX))

    outcome = check_sample(sample, orjson.loads(expected.read_bytes()))

    assert (outcome.result, outcome.detail) == (RIGHT, "")


def test_each_profile_has_a_sample() -> None:
    profiles = {
        path.stem for path in (CORPUS.parents[2] / "importers/bank/profiles").glob("*.toml")
    }

    assert {each.level for each in layouts()} <= {"memory", "synthetic", "library", "real"}
    assert profiles - {path.parent.name for path in SAMPLES} == {"plain"}


def test_command_prints_per_kind_what_is_right_refused_and_wrong(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = {
        "right": ("Date,Payee,Amount\n2026-01-13,A,-1.50\n", -1.5),
        "refused": ("Quando,Quanto\n2026-01-13,-1.50\n", -1.5),
        "wrong": ("Date,Payee,Amount\n2026-01-13,A,-1.50\n", 1.5),
    }
    for name, (text, amount) in texts.items():
        (tmp_path / f"{name}.csv").write_text(text)
        expected = {"kind": "csv", "records": {"transactions": [{"amount": amount}]}}
        (tmp_path / f"{name}.csv{SUFFIX}").write_bytes(orjson.dumps(expected))

    assert main(["corpus", str(tmp_path)]) == 1

    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "csv: 1 right, 1 refused, 1 wrong"
    assert [line.split(":")[:2] for line in lines[1:]] == [
        ["  refused.csv", " refused"], ["  wrong.csv", " wrong"],
    ]  # fmt: skip


def test_documentation_names_the_level_of_each_kind() -> None:
    text = (CORPUS.parents[2] / "docs/importing.md").read_text()
    words = {"real": "- Real exports: ", "library": "- Files that another library reads alike: ",
             "synthetic": "- Made-up exports: "}  # fmt: skip
    lines = {level: next(line for line in text.splitlines() if line.startswith(start))
             for level, start in words.items()}  # fmt: skip

    for importer in load_importers(OWN_PACKAGE, OWN_FOLDER):
        assert f"`{importer.name}`" in lines[importer.level], importer.name
        assert importer.proof
