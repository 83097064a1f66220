"""A workspace folder for each test, and importers that run in a thread instead of a process.

The thread runs the program of the sandbox over the same messages, so that tests can patch parsers.
``tests/importers/test_sandbox.py`` and a test of the owner's import page run the real process. The tests
of the importers' kit run it once per importer, and for damaged exports that are large.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from importers.authoring.test_kit import ImporterTests
from importers.core import sandbox
from importers.core.importer import InstalledImporter
from importers.core.sandbox_process import Session, open_session
from tests.importers.sandbox_thread import open_in_thread


@pytest.fixture(autouse=True)
def _workspace(settings: object, tmp_path: Path) -> None:
    settings.PDPP_VAR = tmp_path / "var"  # type: ignore[attr-defined] # pytest-django's proxy


@contextmanager
def open_by_size(importer: InstalledImporter, export: Path) -> Iterator[Session]:
    """Start the real process, which limits memory and time, for exports of LARGE_BYTES or more."""
    files = export.rglob("*") if export.is_dir() else [export]
    is_large = sum(path.stat().st_size for path in files) >= LARGE_BYTES
    with (open_session if is_large else open_in_thread)(importer, export) as session:
        yield session


LARGE_BYTES = 1_000_000


@pytest.fixture(autouse=True)
def _in_thread(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    of_the_kit = issubclass(request.cls or object, ImporterTests)
    if not request.node.get_closest_marker("subprocess"):
        monkeypatch.setattr(sandbox, "open_session", open_in_thread)
    elif of_the_kit and request.node.name != "test_export_has_records":
        monkeypatch.setattr(sandbox, "open_session", open_by_size)
