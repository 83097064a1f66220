"""Calendars and address books: repeating events, zones, and entries that are not as they should be."""

from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import orjson
import pytest
import time_machine
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from icalendar import Calendar, Event

from evidence.models.imports import ImportReceipt
from importers.calendar import icalendar as calendar_events
from importers.calendar.icalendar import ICALENDAR
from importers.core.export_files import open_export
from importers.core.importer import Options
from importers.core.results import Item
from tests.importers.imports import TORTURE, latest, one, receipts, records, run

pytestmark = pytest.mark.django_db


def test_a_repeating_event_is_there_each_time_it_takes_place() -> None:
    run(TORTURE / "calendar.ics")

    first = one("events", starts_at="2026-03-18T19:00:00+01:00")
    choir = [each for each in records("events") if each["series_id"] == first["series_id"]]
    # The clocks change on 29 March; 25 March is left out, and 1 April is moved to the day after.
    assert [(each["starts_at"], each["title"]) for each in choir] == [
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
def test_times_are_those_of_their_zone(title: str, starts_at: str) -> None:
    run(TORTURE / "calendar.ics")

    assert one("events", title=title)["starts_at"] == starts_at


def test_what_cannot_take_place_leaves_a_receipt_and_no_occurrences() -> None:
    run(TORTURE / "calendar.ics")

    assert one("events", title="Day that does not exist")["starts_at"] is None
    assert one("events", title="Each thirtieth of February")["start_day"] == "2026-01-01"
    assert one("events", title="Every second for ever")["recurrence"] == "FREQ=SECONDLY"
    assert {code for code, _ in receipts()} == {
        "bad_date",
        "bad_recurrence",
        "unknown_time_zone",
    }


def test_a_whole_day_ends_on_its_last_day() -> None:
    run(TORTURE / "calendar.ics")

    holidays = one("events", title="Holidays")
    assert (holidays["start_day"], holidays["end_day"]) == ("2026-07-13", "2026-07-24")
    assert holidays["is_all_day"] is True


def test_what_cannot_be_read_is_not_quoted_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    run(TORTURE / "contacts.vcf")
    run(TORTURE / "mail.mbox")

    assert "no property" not in caplog.text
    assert "tnef" not in caplog.text


def test_contacts_of_every_version_are_read() -> None:
    run(TORTURE / "contacts.vcf")

    eva = one("contacts", name="Eva Lang")
    assert eva["emails"] == ["eva@example.org", "eva@lang.example"]
    assert eva["addresses"] == ["Lindenstraße 12, 10115, Berlin, Germany"]
    assert eva["note"] == "Landlady, prefers letters\nand tea"
    assert eva["categories"] == ["Friends", "Home"]
    assert one("contacts", name="Jürgen Müller")["phones"] == ["0171 7654321"]
    assert one("contacts", name="Acme GmbH, Sales")["emails"] == ["sales@acme.example"]
    assert {each["name"] for each in records("contacts")} > {"Broken", "Never ended", "Last of all"}
    assert receipts() == {("no_identity", "line 26")}
    run(TORTURE / "contacts.vcf")
    assert latest().unchanged == 6


def write_calendar(path: Path, *events: str) -> Path:
    """Write a calendar whose events have the UIDs and titles s0, s1, and so on."""
    written = "".join(
        f"BEGIN:VEVENT\nUID:s{number}\nSUMMARY:s{number}\n{event}\nEND:VEVENT\n"
        for number, event in enumerate(events)
    )
    path.write_text(f"BEGIN:VCALENDAR\n{written}END:VCALENDAR\n")
    return path


def details(code: str) -> list[str]:
    rows = ImportReceipt.unscoped.filter(code=code).order_by("pk")
    return list(rows.values_list("detail", flat=True))


@time_machine.travel("2026-11-22T12:00:00Z", tick=True)
def test_a_series_is_expanded_from_ten_years_ago_until_two_years_ahead(tmp_path: Path) -> None:
    path = write_calendar(
        tmp_path / "a.ics",
        "DTSTART;VALUE=DATE:20140105\nRRULE:FREQ=WEEKLY",
        "DTSTART;VALUE=DATE:20140105\nRRULE:FREQ=YEARLY;COUNT=3",
        "DTSTART;VALUE=DATE:20260105\nRRULE:FREQ=MONTHLY;COUNT=2",
    )

    said = run(path)

    days = {n: [e["start_day"] for e in records("events") if e["title"] == n] for n in ("s0", "s1")}
    assert days["s0"][:2] == ["2014-01-05", "2016-01-03"]
    assert days["s0"][-1] == "2028-12-31"
    assert "2026-11-22" in days["s0"]
    assert len(days["s0"]) == 1 + 679
    assert days["s1"] == ["2014-01-05", "2016-01-05"]
    assert details("outside_window") == [
        "103 from 2014-01-12 to 2015-12-27, all after 2028-12-31",
        "1 from 2015-01-05 to 2015-01-05",
    ]
    assert "repeating events from 2016 to 2028" in said


@time_machine.travel("2026-11-22T12:00:00Z", tick=True)
def test_a_series_that_ended_long_ago_remains_one_record(tmp_path: Path) -> None:
    rule = "DTSTART;VALUE=DATE:19900101\nRRULE:FREQ=DAILY;UNTIL=19991231\nDESCRIPTION:Tea"

    run(write_calendar(tmp_path / "a.ics", rule))

    (first,) = records("events")
    assert (first["start_day"], first["description"]) == ("1990-01-01", "Tea")
    assert first["recurrence"] == "FREQ=DAILY;UNTIL=19991231"
    assert details("outside_window") == ["3,651 from 1990-01-02 to 1999-12-31"]


def test_single_events_outside_the_window_are_imported(tmp_path: Path) -> None:
    run(write_calendar(tmp_path / "a.ics", "DTSTART:19700101T000000Z", "DTSTART:20700101T000000Z"))

    assert {each["start_day"] for each in records("events")} == {"1970-01-01", "2070-01-01"}
    assert receipts() == set()


def test_a_later_import_adds_occurrences_and_keeps_the_old_ones(tmp_path: Path) -> None:
    path = write_calendar(tmp_path / "a.ics", "DTSTART:20140105T120000Z\nRRULE:FREQ=WEEKLY")
    with time_machine.travel("2026-11-22T12:00:00Z", tick=True):
        run(path)
        before = {each["id"] for each in records("events")}
        run(path)
        again = latest()
    with time_machine.travel("2027-01-02T12:00:00Z", tick=True):
        run(path)

    after = {each["id"]: each["start_day"] for each in records("events")}
    assert (again.created, again.updated) == (0, 0)
    assert before < after.keys()
    assert {day[:4] for key, day in after.items() if key not in before} == {"2029"}
    assert (latest().created, latest().updated) == (52, 0)


@time_machine.travel("2026-11-22T12:00:00Z", tick=True)
def test_a_long_invitation_that_repeats_daily_stays_small(tmp_path: Path) -> None:
    guests = "\n".join(f"ATTENDEE:mailto:guest{n}@example.org" for n in range(100))
    event = f"DTSTART:20100101T120000Z\nRRULE:FREQ=DAILY\n{guests}\nDESCRIPTION:{'x' * 6_000}"
    path = write_calendar(tmp_path / "a.ics", event)
    assert path.stat().st_size < 10_300

    run(path)

    found = sorted(records("events"), key=lambda each: each["starts_at"])
    assert len(found) == 1 + 4_749
    assert sum(len(orjson.dumps(each)) for each in found) < 4 * 1024 * 1024
    assert len(found[0]["description"]) == 6_000
    assert not any(each["description"] or each["attendees"] for each in found[1:])
    assert {code for code, _ in receipts()} == {"outside_window", "text_once"}


def made(path: Path) -> list[Item]:
    entries = open_export(path).entries
    return [piece.make() for piece in ICALENDAR.read(entries, Options(horizon_year=2028))]


def test_a_file_of_many_series_has_a_limit_in_total(tmp_path: Path) -> None:
    daily = [f"DTSTART:20100101T{hour:02}0000Z\nRRULE:FREQ=DAILY" for hour in range(14)]

    items = made(write_calendar(tmp_path / "a.ics", *daily))

    assert all(item.rows[0].data["start_day"] == "2010-01-01" for item in items)
    assert 49_000 < sum(len(item.rows) for item in items) <= 50_000 + len(items)
    assert sum(len(orjson.dumps(r.data)) for i in items for r in i.rows) < 33 * 1024 * 1024
    cut = next(item for item in items if "too_many_occurrences" in [r.code for r in item.remarks])
    assert cut.rows[-1].data["start_day"] > "2026-07-01" > cut.rows[1].data["start_day"]


def test_a_run_of_many_files_has_a_limit_in_total(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    totals = calendar_events.totals_of_run()
    totals.occurrences = 6_000
    monkeypatch.setattr(calendar_events, "totals_of_run", lambda: totals)
    (tmp_path / "many").mkdir()
    for number in range(4):
        event = "DTSTART:20100101T120000Z\nRRULE:FREQ=DAILY"
        write_calendar(tmp_path / "many" / f"{number}.ics", event)

    assert [len(item.rows) for item in made(tmp_path / "many")] == [4_750, 1_250, 1, 1]


@pytest.mark.parametrize("rule", ["FREQ=DAILY", "FREQ=DAILY;BYMONTH=1;BYMONTHDAY=1"])
def test_computing_the_series_of_a_file_has_a_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rule: str
) -> None:
    totals = calendar_events.totals_of_run()
    totals.steps = 100_000
    monkeypatch.setattr(calendar_events, "totals_of_run", lambda: totals)
    events = [f"DTSTART:19000102T120000Z\nRRULE:{rule}"] * 5

    items = made(write_calendar(tmp_path / "a.ics", *events))

    assert [len(item.rows) for item in items[3:]] == [1, 1]
    assert "too_many_occurrences" in [remark.code for remark in items[-1].remarks]


ZONES = st.sampled_from(["Europe/Berlin", "America/New_York", "Asia/Tokyo", "UTC"])
TITLES = st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1, max_size=30)


@st.composite
def events(draw: st.DrawFn) -> tuple[Event, list[str]]:
    """An event, and the starts of its occurrences by another reckoning than ours."""
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
    return event, [each.isoformat() for each in starts if each <= horizon]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
@given(made=st.lists(events(), min_size=1, max_size=5))
def test_whatever_calendar_is_written_is_what_is_read(
    tmp_path: Path, made: list[tuple[Event, list[str]]]
) -> None:
    calendar = Calendar()
    for event, _ in made:
        calendar.add_component(event)
    (tmp_path / "made.ics").write_bytes(calendar.to_ical())
    entries = open_export(tmp_path / "made.ics").entries

    read = [piece.make() for piece in ICALENDAR.read(entries, Options())]

    assert [sorted(row.data["starts_at"] for row in item.rows) for item in read] == [
        sorted(starts) for _, starts in made
    ]
    assert [item.rows[0].data["title"] for item in read] == [str(e["SUMMARY"]) for e, _ in made]
