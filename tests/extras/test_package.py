"""What the core says without the package, and what every kind of the package has."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from importers import registry
from importers.core.importer import EXTRA_PACKAGE, ImportRequest
from importers.registry import find_folder
from importers.runs.preview import preview_export, preview_lines
from tests.extras.test_browsers import BROWSERS, HOSTILE, write_history
from tests.extras.test_fit import AT, FILE_ID, fit, session
from tests.extras.year_of_habits import write_amazon, write_linkedin, write_netflix, write_spotify
from tests.extras.year_of_networks import write_facebook, write_instagram, write_x
from tests.importers.conftest import core_alone
from tests.importers.year_of_takeout import write_takeout
from tests.owners import OWNER_ID

FOLDER = find_folder(EXTRA_PACKAGE)


def write_browsers(folder: Path, *, days: int) -> None:
    for browser, name in BROWSERS.items():
        write_history(folder / browser / name, browser, HOSTILE[:days])
        write_history(folder / browser / "copy", browser, HOSTILE[:days])


def write_files(folder: Path, *, days: int) -> None:
    folder.mkdir()
    (folder / "export.xml").write_text(
        f"<?xml version='1.0'?>\n<HealthData>{' ' * days}</HealthData>"
    )
    (folder / "mail.msg").write_bytes(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(days))
    (folder / "mail.pst").write_bytes(b"!BDN" + bytes(days))
    (folder / "run").write_bytes(fit([FILE_ID, session(AT)]))


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("write", "kinds"),
    [
        (write_netflix, {"Netflix"}),
        (write_amazon, {"Amazon"}),
        (write_linkedin, {"LinkedIn"}),
        (write_spotify, {"Spotify"}),
        (write_facebook, {"Facebook or Instagram"}),
        (write_instagram, {"Facebook or Instagram"}),
        (write_x, {"X"}),
        (write_browsers, {"browser history"}),
        (write_files, {"Outlook", "FIT", "Apple Health"}),
        (write_takeout, {"Google Chat", "Google Tasks"}),
    ],
)
def test_without_the_package_its_files_have_a_receipt(
    tmp_path: Path, write: Callable[..., Any], kinds: set[str]
) -> None:
    write(tmp_path / "export", days=3)

    with core_alone():
        found = preview_export(
            tmp_path / "export", request=ImportRequest(), owner_id=OWNER_ID, now=timezone.now()
        )

    others = {"google-keep", "google-activity"} if write is write_takeout else set()
    assert {part.importer.name for part in found.parts} == others
    said = {(issue.code, issue.detail) for _, issue in found.skipped}
    assert {("needs_extra", kind) for kind in kinds} == {each for each in said if each[1]}
    assert "pdpp-importers-extra" in "".join(preview_lines(found))


def test_every_kind_is_read_damaged() -> None:
    """A class of ``ImporterTests`` or ``SourceTests`` damages an export, or cuts a connection."""
    sources = [path.read_text() for path in Path(__file__).parent.glob("test_*.py")]
    tested = {
        name
        for text in sources
        for name in re.findall(r'(?:importer|source)_name = "([a-z0-9-]+)"', text)
    }
    found = [
        load(EXTRA_PACKAGE, FOLDER) for load in (registry.load_importers, registry.load_sources)
    ]
    assert tested == {each.name for manifest in found for each in manifest}


def test_package_is_accepted_beside_the_core() -> None:
    found = {each.name: each.package for each in registry.installed_importers()}

    assert found["spotify"] == EXTRA_PACKAGE
    assert found["mbox"] == "importers"
    assert registry.find_source("webdav") is not None
