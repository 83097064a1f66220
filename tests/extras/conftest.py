"""The package of extras/ installed for each test, whether or not it is installed here.

The other fixtures are those of the tests of importers.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.importers.conftest import _in_thread as _in_thread
from tests.importers.conftest import _workspace as _workspace
from tests.importers.conftest import find_installed_again
from tests.importers.conftest import pytest_collection_modifyitems as pytest_collection_modifyitems
from tests.importers.syncing import ROOT

GROUPS = ("pdpp.importers", "pdpp.sources")


@pytest.fixture(scope="session")
def _information(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What pip writes beside a package, in a folder of its own."""
    folder = tmp_path_factory.mktemp("installed")
    information = folder / "pdpp_importers_extra-0.1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Name: pdpp-importers-extra\nVersion: 0.1.0\n")
    entries = (f"[{group}]\nextra = pdpp_importers_extra\n" for group in GROUPS)
    (information / "entry_points.txt").write_text("\n".join(entries))
    return folder


@pytest.fixture(autouse=True)
def _installed(_information: Path) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(_information)
        patch.setenv("PYTHONPATH", f"{_information}:{ROOT / 'extras'}")
        find_installed_again()
        yield
    find_installed_again()
