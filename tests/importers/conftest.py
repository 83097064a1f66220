"""A workspace folder for each test."""

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def _workspace(settings: object, tmp_path: Path) -> None:
    settings.PDPP_VAR = tmp_path / "var"  # type: ignore[attr-defined] # pytest-django's proxy
