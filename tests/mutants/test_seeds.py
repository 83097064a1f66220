"""`make mutants` in small: each seed can be planted and names its test; one is killed, none is not."""

import ast
from pathlib import Path

import pytest

from tests.mutants import __main__ as mutants
from tests.mutants.faults import seeded
from tests.mutants.seeds import MUTANTS, Mutant

ROOT = Path(mutants.__file__).parent.parent.parent
WRONG = "a revoked token goes on"


def test_each_can_be_planted_and_names_a_test_that_is_there() -> None:
    assert len({seed.wrong for seed in MUTANTS}) == len(MUTANTS)
    for seed in MUTANTS:
        assert seeded(seed, root=ROOT).text != (ROOT / seed.path).read_text(), seed.wrong
        file, _, test = seed.by.partition("::")
        functions = ast.walk(ast.parse((ROOT / file).read_text()))
        names = {each.name for each in functions if isinstance(each, ast.FunctionDef)}
        assert not test or test.partition("[")[0] in names, seed.by


def test_a_fault_is_killed_and_a_change_of_nothing_survives(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    [fault] = [seed for seed in MUTANTS if seed.wrong == WRONG]
    nothing = Mutant("a space is added", fault.path, fault.old, f"{fault.old} ", by=fault.by)
    monkeypatch.setattr(mutants, "MUTANTS", (fault, nothing))
    assert mutants.main([]) == 1
    told = capsys.readouterr().out.splitlines()
    assert told == [f"killed    {WRONG}", "SURVIVED  a space is added",
                    "1 killed, 1 survived, 0 not planted"]  # fmt: skip
