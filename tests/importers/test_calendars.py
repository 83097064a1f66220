"""Calendars and contacts: recurring events, time zones and malformed entries."""

from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from icalendar import Calendar, Event

from importers.calendar.icalendar import ICALENDAR
from importers.core.export_files import open_export
from importers.core.importer import Options
from tests.importers.imports import TORTURE, latest, one, receipts, records, run

pytestmark = pytest.mark.django_db


def test_recurring_event_has_a_record_per_occurrence() -> None:
    run(TORTURE / "calendar.ics")

    first = one("events", starts_at="2026-03-18T19:00:00+01:00")
    choir = [record for record in records("events") if record["series_id"] == first["series_id"]]
    # Daylight saving begins on 29 March; 25 March is excluded, and 1 April is moved to 2 April.
    assert [(record["starts_at"], record["title"]) for record in choir] == [
        ("2026-03-18T19:00:00+01:00", "Choir, second voice"),
        ("2026-04-02T18:30:00+02:00", "Choir in the church"),
        ("2026-04-08T19:00:00+02:00", "Choir, second voice"),
    ]
    assert first["organizer"] == "Eva Lang"
    assert first["attendees"] == ["Ida", "jonas@example.org"]
    assert first["calendar"] == "Ida's calendar"


@pytest.mark.parametrize(
    ("title", "starts_at"),
    [
        ("In a zone of its own", "2026-06-01T12:00:00+03:00"),
        ("In a zone of Outlook's", "2026-06-01T12:00:00+02:00"),
        ("In a zone of nobody's", "2026-06-01T12:00:00+02:00"),
        ("Wherever one is", "2026-06-01T12:00:00+02:00"),
        ("Never ends", "2026-06-03T12:00:00+00:00"),
        ("After one that never ends", "2026-06-04T12:00:00+00:00"),
    ],
)
def test_event_times_use_their_time_zone(title: str, starts_at: str) -> None:
    run(TORTURE / "calendar.ics")

    assert one("events", title=title)["starts_at"] == starts_at


def test_impossible_events_get_receipts() -> None:
    run(TORTURE / "calendar.ics")

    assert one("events", title="Day that does not exist")["starts_at"] is None
    assert one("events", title="Each thirtieth of February")["start_day"] == "2026-01-01"
    assert one("events", title="Every second for ever")["recurrence"] == "FREQ=SECONDLY"
    assert {code for code, _ in receipts()} == {
        "bad_date",
        "bad_recurrence",
        "unknown_time_zone",
    }


def test_all_day_event_ends_on_its_last_day() -> None:
    run(TORTURE / "calendar.ics")

    holidays = one("events", title="Holidays")
    assert (holidays["start_day"], holidays["end_day"]) == ("2026-07-13", "2026-07-24")
    assert holidays["is_all_day"] is True


def test_unreadable_content_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    run(TORTURE / "contacts.vcf")
    run(TORTURE / "mail.mbox")

    assert "no property" not in caplog.text
    assert "tnef" not in caplog.text


def test_contacts_of_all_vcard_versions_are_imported() -> None:
    run(TORTURE / "contacts.vcf")

    eva = one("contacts", name="Eva Lang")
    assert eva["emails"] == ["eva@example.org", "eva@lang.example"]
    assert eva["addresses"] == ["Lindenstraße 12, 10115, Berlin, Germany"]
    assert eva["note"] == "Landlady, prefers letters\nand tea"
    assert eva["categories"] == ["Friends", "Home"]
    assert one("contacts", name="Jürgen Müller")["phones"] == ["0171 7654321"]
    assert one("contacts", name="Acme GmbH, Sales")["emails"] == ["sales@acme.example"]
    assert {record["name"] for record in records("contacts")} > {
        "Broken",
        "Never ended",
        "Last of all",
    }
    assert receipts() == {("no_identity", "line 26")}
    run(TORTURE / "contacts.vcf")
    assert latest().unchanged == 6


ZONES = st.sampled_from(["Europe/Berlin", "America/New_York", "Asia/Tokyo", "UTC"])
TITLES = st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1, max_size=30)


@st.composite
def events(draw: st.DrawFn) -> tuple[Event, list[str]]:
    """Return an event, and the starts of its occurrences computed without its rule."""
    zone = ZoneInfo(draw(ZONES))
    start = datetime.combine(
        draw(st.dates(date(2020, 1, 1), date(2027, 12, 31))),
        draw(st.times()).replace(second=0, microsecond=0),
    )
    days, count = draw(st.sampled_from([1, 7])), draw(st.integers(1, 40))
    event = Event()
    event.add("UID", draw(st.uuids()).hex)
    event.add("SUMMARY", draw(TITLES))
    event.add("DTSTART", start.replace(tzinfo=zone))
    event.add("RRULE", {"FREQ": "DAILY" if days == 1 else "WEEKLY", "COUNT": count})
    horizon = datetime(2030, 12, 31, 23, 59, 59, tzinfo=UTC)
    starts = [(start + timedelta(days=days * n)).replace(tzinfo=zone) for n in range(count)]
    return event, [start.isoformat() for start in starts if start <= horizon]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
@given(written=st.lists(events(), min_size=1, max_size=5))
def test_written_calendars_are_parsed_unchanged(
    tmp_path: Path, written: list[tuple[Event, list[str]]]
) -> None:
    calendar = Calendar()
    for event, _ in written:
        calendar.add_component(event)
    (tmp_path / "made.ics").write_bytes(calendar.to_ical())
    files = open_export(tmp_path / "made.ics").files

    items = [item.parse() for item in ICALENDAR.read(files, Options())]

    starts = [[record.data["starts_at"] for record in item.records] for item in items]
    assert list(map(sorted, starts)) == [sorted(expected) for _, expected in written]
    assert [item.records[0].data["title"] for item in items] == [
        str(event["SUMMARY"]) for event, _ in written
    ]
