"""The history of browsers."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from django.core.management.base import CommandError

from importers.authoring.test_kit import ImporterTests
from tests.importers.databases import APPLE_EPOCH, write_database
from tests.importers.imports import latest, one, receipts, records, run

AT = 1_767_600_000
WINDOWS_EPOCH = 11_644_473_600
HISTORY_SCHEMAS = {
    "chrome": "CREATE TABLE urls(id INTEGER PRIMARY KEY, url LONGVARCHAR, title LONGVARCHAR);"
    "CREATE TABLE visits(id INTEGER PRIMARY KEY, url INTEGER, visit_time INTEGER);",
    "firefox": "CREATE TABLE moz_places(id INTEGER PRIMARY KEY, url LONGVARCHAR, title LONGVARCHAR);"
    "CREATE TABLE moz_historyvisits(id INTEGER PRIMARY KEY, place_id INTEGER, visit_date INTEGER);",
    "safari": "CREATE TABLE history_items(id INTEGER PRIMARY KEY, url TEXT);"
    "CREATE TABLE history_visits(id INTEGER PRIMARY KEY, history_item INTEGER, visit_time REAL, title TEXT);",
}
BROWSERS = {"chrome": "History", "firefox": "places.sqlite", "safari": "History.db"}
HOSTILE = [
    (AT, "Bread", "https://example.org/bread?q=1#top"),
    (AT, "Bread", "https://example.org/bread?q=1#top"),
    (AT + 0.25, "Grüße 🍞", "https://example.org/ü"),
    ("yesterday", "No time", "https://example.org/a"),
    (None, "None", "https://example.org/b"),
    (1e12, "Far away", "https://example.org/c"),
    (AT + 1, None, "https://example.org/" + "x" * 50_000),
    (AT + 2, "No address", None),
    (AT + 3, b"\xff\xfe", b"\x00\x01"),
]


def write_history(path: Path, browser: str, visits: Iterable[tuple[Any, str, Any]]) -> Path:
    """Write (seconds since 1970, title, address) of each visit; other times are written as given."""
    rows = list(enumerate(visits, 1))

    def time(seconds: Any) -> Any:
        if not isinstance(seconds, int | float):
            return seconds
        return {
            "chrome": int((seconds + WINDOWS_EPOCH) * 1_000_000),
            "firefox": int(seconds * 1_000_000),
            "safari": seconds - APPLE_EPOCH,
        }[browser]

    pages, visit = {
        "chrome": ("urls", "visits"),
        "firefox": ("moz_places", "moz_historyvisits"),
        "safari": ("history_items", "history_visits"),
    }[browser]
    tables: dict[str, list[dict[str, Any]]] = {pages: [], visit: []}
    for number, (seconds, title, url) in rows:
        page, at = {"id": number, "url": url}, {"id": number}
        if browser == "safari":
            at |= {"history_item": number, "visit_time": time(seconds), "title": title}
        elif browser == "chrome":
            page["title"] = title
            at |= {"url": number, "visit_time": time(seconds)}
        else:
            page["title"] = title
            at |= {"place_id": number, "visit_date": time(seconds)}
        tables[pages].append(page)
        tables[visit].append(at)
    return write_database(path, HISTORY_SCHEMAS[browser], **tables)


@pytest.mark.django_db
@pytest.mark.parametrize("browser", BROWSERS)
@pytest.mark.parametrize("is_renamed", [False, True])
def test_history_of_browsers_is_imported(tmp_path: Path, browser: str, is_renamed: bool) -> None:
    name = "backup.db" if is_renamed else BROWSERS[browser]
    path = write_history(tmp_path / name, browser, HOSTILE)

    run(path)

    visit = one("activities", title="Grüße 🍞")
    assert (visit["service"], visit["kind"]) == (browser, "visit")
    assert (visit["url"], visit["at"]) == ("https://example.org/ü", "2026-01-05T08:00:00.250000Z")
    assert [each["at"] for each in records("activities") if each["title"] == "No time"] == [None]
    assert len([each for each in records("activities") if each["title"] == "Bread"]) == 1
    assert {"bad_date", "no_identity", "text_cut"} == {code for code, _ in receipts()}
    run(path)
    assert (latest().created, latest().updated) == (0, 0)


@pytest.mark.django_db
def test_history_of_firefox_for_android_has_milliseconds(tmp_path: Path) -> None:
    visits = [
        (str(1_767_600_000_250 + day), f"Page {day}", "https://a.example") for day in range(3)
    ]
    path = write_history(tmp_path / "places.sqlite", "firefox", visits)

    run(path)

    assert {each["at"][:10] for each in records("activities")} == {"2026-01-05"}


@pytest.mark.django_db
def test_implausible_dates_are_asked_about(tmp_path: Path) -> None:
    visits = [(str(9_000_000 + day), f"Page {day}", "https://a.example") for day in range(3)]
    path = write_history(tmp_path / "History", "chrome", visits)

    with pytest.raises(CommandError, match="Not everything could be imported"):
        run(path)
    assert records("activities") == []

    run(path, column=["dates=as-written"])
    assert {each["at"][:10] for each in records("activities")} == {"1601-01-01"}


class DatabaseTests(ImporterTests):
    """A database is written for the tests of a class."""

    @pytest.fixture(autouse=True)
    def _export(self, tmp_path_factory: pytest.TempPathFactory) -> None:
        path = tmp_path_factory.mktemp("export") / BROWSERS[self.importer_name]
        self.export = write_history(path, self.importer_name, HOSTILE)


@pytest.mark.subprocess
class TestChrome(DatabaseTests):
    importer_name = "chrome"


@pytest.mark.subprocess
class TestFirefox(DatabaseTests):
    importer_name = "firefox"


@pytest.mark.subprocess
class TestSafari(DatabaseTests):
    importer_name = "safari"


del DatabaseTests, ImporterTests
