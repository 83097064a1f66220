"""Spotify, Netflix, Amazon and LinkedIn."""

import json
from collections import defaultdict
from decimal import Decimal
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from importers.authoring.test_kit import read_export
from importers.core.importer import ChoiceNeeded, Options
from tests.extras.year_of_habits import (
    write_amazon,
    write_linkedin,
    write_netflix,
    write_spotify,
    write_table,
)
from tests.importers.imports import latest, receipts, records, run
from tests.importers.torture_kit import GeneratedExportTests, issue_codes


class TestNetflix(GeneratedExportTests):
    importer_name = "netflix"
    damaged_days = 10
    writer = staticmethod(write_netflix)


class TestAmazon(GeneratedExportTests):
    importer_name = "amazon"
    damaged_days = 10
    writer = staticmethod(write_amazon)


class TestLinkedIn(GeneratedExportTests):
    importer_name = "linkedin"
    damaged_days = 10
    writer = staticmethod(write_linkedin)


class TestLinkedInConnections(GeneratedExportTests):
    importer_name = "linkedin-connections"
    damaged_days = 10
    writer = staticmethod(write_linkedin)


class TestLinkedInMessages(GeneratedExportTests):
    importer_name = "linkedin-messages"
    damaged_days = 10
    writer = staticmethod(write_linkedin)


class TestSpotify(GeneratedExportTests):
    importer_name = "spotify"
    damaged_days = 10

    @staticmethod
    def writer(folder: Path, *, days: int) -> None:
        """Write the extended history only: equal plays of both histories have one key."""
        write_spotify(folder, days=days)
        (folder / "StreamingHistory0.json").unlink()


@pytest.mark.slow
@pytest.mark.django_db
def test_year_of_habits_is_imported_as_it_was(tmp_path: Path) -> None:
    seconds = write_spotify(tmp_path / "spotify", days=365)
    views = write_netflix(tmp_path / "netflix", days=365)
    items, total = write_amazon(tmp_path / "amazon", days=365)
    linkedin = write_linkedin(tmp_path / "linkedin", days=365)
    exports = [tmp_path / name for name in ("spotify", "netflix", "amazon", "linkedin")]

    for export in exports:
        run(export)

    played: dict[str, float] = defaultdict(float)
    for play in (each for each in records("activities") if each["service"] == "Spotify"):
        played[play["by"]] += round(play["duration_s"] * 1000)
        assert play["at"].endswith(":05Z"), "the extended history counts"
    assert played == seconds
    watched = [each for each in records("activities") if each["service"] == "Netflix"]
    assert {(each["title"], each["at"]) for each in watched} == views
    orders = records("items")
    assert len(orders) == items
    assert sum(Decimal(str(order["total"])) for order in orders) == total
    assert {order["currency"] for order in orders} == {"EUR"}
    assert len(records("contacts")) == linkedin["connections"]
    assert records("contacts")[0]["note"].startswith("Connected on LinkedIn on 2025-")
    texts = {message["text"].replace("\n\n", "\n") for message in records("messages")}
    assert texts == linkedin["texts"]
    assert len(records("positions")) == linkedin["jobs"]
    assert {job["started"] for job in records("positions")} >= {"2000-03", "2035-03"}
    assert records("transactions") == []
    assert receipts() == set()
    for export in exports:
        run(export)
        assert (latest().created, latest().updated) == (0, 0)


def test_short_history_of_spotify_alone_has_minutes(tmp_path: Path) -> None:
    play = {"endTime": "2025-03-01 10:20", "artistName": "A", "trackName": "T", "msPlayed": 5}
    podcast = {"endTime": "2025-03-01 10:21", "podcastName": "P", "episodeName": "E", "msPlayed": 6}
    path = tmp_path / "StreamingHistory0.json"
    path.write_text(json.dumps([play, play, podcast, play | {"endTime": "yesterday"}, 7]))

    result = read_export("spotify", path)

    assert [record["at"] for record in result.records] == [
        "2025-03-01T10:20:00Z", "2025-03-01T10:20:00Z", "2025-03-01T10:21:00Z", None
    ]  # fmt: skip
    assert len({record["id"] for record in result.records}) == 4
    assert issue_codes(result.issues) == {"bad_date", "malformed"}


def netflix_list(folder: Path, *dates: str) -> Path:
    path = folder / "NetflixViewingHistory.csv"
    write_table(path, "Title,Date", [[f"Film {number}", day] for number, day in enumerate(dates)])
    return path


def test_day_and_month_of_a_netflix_list_are_asked_for(tmp_path: Path) -> None:
    doubtful = netflix_list(tmp_path, "04/03/26", "03/03/26")

    with pytest.raises(ChoiceNeeded):
        read_export("netflix", doubtful)

    options = Options(date_order="dmy", zone=ZoneInfo("Europe/Berlin"))
    first, _ = read_export("netflix", doubtful, options).records
    assert (first["at"], first["is_day_only"]) == ("2026-03-03T23:00:00Z", True)


def test_certain_days_of_a_netflix_list_are_not_asked_for(tmp_path: Path) -> None:
    result = read_export("netflix", netflix_list(tmp_path, "4/13/26", "4/3/26", "soon"))

    assert [record["at"] for record in result.records] == [
        "2026-04-13T00:00:00Z", "2026-04-03T00:00:00Z", None
    ]  # fmt: skip
    assert issue_codes(result.issues) == {"bad_date"}


def test_other_tables_of_titles_and_dates_are_not_netflix(tmp_path: Path) -> None:
    write_table(tmp_path / "books.csv", "Title,Date", [["A book", "2026-01-01"]])

    with pytest.raises(LookupError):
        read_export("netflix", tmp_path / "books.csv")


@pytest.mark.parametrize(
    ("price", "codes"),
    [("1,234.56", set()), ("'-0.57'", set()), ("12", set()), ("Not Available", set()),
     ("1.234,56", {"bad_amount"}), ("1,234", {"bad_amount"}), ("12,50", {"bad_amount"}), ("EUR 5", {"bad_amount"})],
)  # fmt: skip
def test_amounts_of_orders_are_exact_or_refused(
    price: str, codes: set[str], tmp_path: Path
) -> None:
    header = "Website,Order ID,Order Date,Currency,Unit Price,ASIN,Product Name,Total Owed"
    row: list[Any] = [
        "Amazon.com",
        "1",
        "2025-01-01T00:00:00Z",
        "USD",
        "1.00",
        "B1",
        "Thing",
        price,
    ]
    write_table(tmp_path / "Order History.csv", header, [row])

    result = read_export("amazon", tmp_path / "Order History.csv")

    assert issue_codes(result.issues) == codes
    assert len(result.records) == (0 if codes else 1)
