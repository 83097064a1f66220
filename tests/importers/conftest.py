"""A workspace folder for each test; importers and sources that run in a thread, not in a process.

The thread runs the program of the sandbox over the same messages, so that tests can patch parsers.
``test_sandbox.py``, ``test_source_sandbox.py`` and a test of the owner's import page run the real
process. The tests of the kits run it in one test per importer or source, and for damaged exports
that are large.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from importers import registry
from importers.authoring.source_kit import SourceTests
from importers.authoring.test_kit import ImporterTests
from importers.core import sandbox, source_process
from importers.core.importer import EXTRA_PACKAGE, InstalledImporter
from importers.core.sandbox import Session, open_session
from importers.registry import installed_sources
from tests.importers.sandbox_thread import open_in_thread, start_in_thread


@pytest.fixture(autouse=True)
def _workspace(settings: object, tmp_path: Path) -> None:
    settings.PDPP_VAR = tmp_path / "var"  # type: ignore[attr-defined] # pytest-django's proxy


@pytest.fixture(autouse=True)
def _core_alone() -> Iterator[None]:
    with core_alone():
        yield


@contextmanager
def core_alone() -> Iterator[None]:
    """Hide the package of extras/, whose tests are in tests/extras."""
    entry_points = registry.entry_points
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            registry,
            "entry_points",
            lambda group: [e for e in entry_points(group=group) if e.value != EXTRA_PACKAGE],
        )
        find_installed_again()
        yield
    find_installed_again()


def find_installed_again() -> None:
    registry.installed_importers.cache_clear()
    installed_sources.cache_clear()


@contextmanager
def open_by_size(importer: InstalledImporter, export: Path) -> Iterator[Session]:
    """Start the real process, which limits memory and time, for exports of LARGE_BYTES or more."""
    files = export.rglob("*") if export.is_dir() else [export]
    is_large = sum(path.stat().st_size for path in files) >= LARGE_BYTES
    with (open_session if is_large else open_in_thread)(importer, export) as session:
        yield session


LARGE_BYTES = 1_000_000


IN_PROCESS = {"test_export_has_records", "test_running_again_changes_nothing"}
"""Tests of the kits of importers and of sources."""
DAMAGED = "test_damaged_exports_end_with_receipts"
"""A test of the kit with twelve exports, two of them of 20 MB."""
ALWAYS = {"TestMbox", "TestFeed"}
"""Of the other kinds, `make test` leaves out what runs in a process."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the long tests of the kits as slow."""
    for item in items:
        parent = item.parent.name if item.parent else ""
        is_in_process = item.get_closest_marker("subprocess") and item.name in IN_PROCESS
        if item.name == DAMAGED or (is_in_process and parent not in ALWAYS):
            item.add_marker("slow")


@pytest.fixture(autouse=True)
def _in_thread(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    of_a_kit = issubclass(request.cls or object, ImporterTests | SourceTests)
    if not request.node.get_closest_marker("subprocess"):
        monkeypatch.setattr(sandbox, "open_session", open_in_thread)
        monkeypatch.setattr(source_process, "start_process", start_in_thread)
    elif of_a_kit and request.node.name not in IN_PROCESS:
        monkeypatch.setattr(sandbox, "open_session", open_by_size)
        monkeypatch.setattr(source_process, "start_process", start_in_thread)
