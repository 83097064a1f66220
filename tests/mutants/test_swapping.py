"""A line taken from what is loaded has the effect that it has in the file."""

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from tests.mutants.deleting import deletions
from tests.mutants.swapping import NotSwappable, functions_loaded, swap

SOUND = """
NAMES = (
    'kept',
    'dropped',
)
TOLD = ', '.join(NAMES)

def tell(more):
    told = [TOLD]
    told.append(more)
    return told

class Teller:
    calm = True

    @property
    def told(self):
        told = 'quiet'
        told = 'loud'
        return told
"""


@pytest.fixture
def loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "swapped.py").write_text(SOUND)
    (tmp_path / "borrowing.py").write_text("from swapped import TOLD, tell\n")
    yield importlib.import_module("borrowing")
    for name in ("swapped", "borrowing"):
        del sys.modules[name]


def without(line: str) -> str:
    """The text as `make mutants` would have it."""
    number = SOUND.splitlines().index(line) + 1
    return dict(deletions(SOUND))[number]


def put(text: str, *, into: ModuleType) -> None:
    file = Path(str(into.__file__)).with_name("swapped.py")
    swap(functions_loaded(file.parent), file=file, sound=SOUND, faulty=text)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("    told.append(more)", ["kept, dropped"]),
        ("    'dropped',", ["kept", "more"]),
    ],
)
def test_functions_and_what_is_made_of_a_constant_change_for_all(
    loaded: ModuleType, line: str, told: list[str]
) -> None:
    assert loaded.tell("more") == ["kept, dropped", "more"]
    put(without(line), into=loaded)
    assert loaded.tell("more") == told
    assert told[0] == loaded.TOLD


def test_methods_change_in_objects_that_are_there(loaded: ModuleType) -> None:
    teller = sys.modules["swapped"].Teller()
    assert teller.told == "loud"
    put(without("        told = 'loud'"), into=loaded)
    assert teller.told == "quiet"


@pytest.mark.parametrize("line", ["    calm = True", "    @property"])
def test_what_is_made_at_import_is_not_swapped(loaded: ModuleType, line: str) -> None:
    with pytest.raises(NotSwappable):
        put(without(line), into=loaded)
