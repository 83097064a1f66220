"""Calendars and contacts: recurring events, time zones and malformed entries."""

from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import orjson
import pytest
import time_machine
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from icalendar import Calendar, Event

from importers.calendar import icalendar
from importers.calendar.icalendar import ICALENDAR
from importers.core.export_files import open_export
from importers.core.importer import Options
from importers.core.results import ParsedItem
from importers.models import ImportReceipt
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
    assert {code for code, _ in receipts()} == {"bad_date", "bad_recurrence", "unknown_time_zone"}


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
    assert receipts() == {("no_identity", "line 26"), ("partly_imported", "line 30")}
    run(TORTURE / "contacts.vcf")
    assert latest().unchanged == 6


def write_calendar(path: Path, *events: str) -> Path:
    """Write a calendar whose events have the UIDs and titles s0, s1, and so on."""
    components = "".join(
        f"BEGIN:VEVENT\nUID:s{number}\nSUMMARY:s{number}\n{event}\nEND:VEVENT\n"
        for number, event in enumerate(events)
    )
    path.write_text(f"BEGIN:VCALENDAR\n{components}END:VCALENDAR\n")
    return path


def details(code: str) -> list[str]:
    """Return the details of the receipts with this code, oldest first."""
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

    output = run(path)

    days = {
        title: [record["start_day"] for record in records("events") if record["title"] == title]
        for title in ("s0", "s1")
    }
    assert days["s0"][:2] == ["2014-01-05", "2016-01-03"]
    assert days["s0"][-1] == "2028-12-31"
    assert "2026-11-22" in days["s0"]
    assert len(days["s0"]) == 1 + 679
    assert days["s1"] == ["2014-01-05", "2016-01-05"]
    assert details("outside_window") == [
        "103 from 2014-01-12 to 2015-12-27, all after 2028-12-31",
        "1 from 2015-01-05 to 2015-01-05",
    ]
    assert "repeating events from 2016 to 2028" in output


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

    assert {record["start_day"] for record in records("events")} == {"1970-01-01", "2070-01-01"}
    assert receipts() == set()


def test_a_later_import_adds_occurrences_and_keeps_the_old_ones(tmp_path: Path) -> None:
    path = write_calendar(tmp_path / "a.ics", "DTSTART:20140105T120000Z\nRRULE:FREQ=WEEKLY")
    with time_machine.travel("2026-11-22T12:00:00Z", tick=True):
        run(path)
        before = {record["id"] for record in records("events")}
        run(path)
        second = latest()
    with time_machine.travel("2027-01-02T12:00:00Z", tick=True):
        run(path)

    after = {record["id"]: record["start_day"] for record in records("events")}
    assert (second.created, second.updated) == (0, 0)
    assert before < after.keys()
    assert {day[:4] for key, day in after.items() if key not in before} == {"2029"}
    assert (latest().created, latest().updated) == (52, 0)


@pytest.mark.slow
@time_machine.travel("2026-11-22T12:00:00Z", tick=True)
def test_a_long_invitation_that_repeats_daily_stays_small(tmp_path: Path) -> None:
    attendees = "\n".join(f"ATTENDEE:mailto:guest{n}@example.org" for n in range(100))
    event = f"DTSTART:20100101T120000Z\nRRULE:FREQ=DAILY\n{attendees}\nDESCRIPTION:{'x' * 6_000}"
    path = write_calendar(tmp_path / "a.ics", event)
    assert path.stat().st_size < 10_300

    run(path)

    first, *others = sorted(records("events"), key=lambda record: record["starts_at"])
    assert len(others) == 4_749
    assert sum(len(orjson.dumps(record)) for record in [first, *others]) < 4 * 1024 * 1024
    assert len(first["description"]) == 6_000
    assert not any(record["description"] or record["attendees"] for record in others)
    assert {code for code, _ in receipts()} == {"outside_window", "text_once"}


def parse(path: Path) -> list[ParsedItem]:
    files = open_export(path).files
    return [item.parse() for item in ICALENDAR.read(files, Options(horizon_year=2028))]


def issue_codes(item: ParsedItem) -> list[str]:
    return [issue.code for issue in item.issues]


@pytest.mark.slow
def test_a_file_of_many_series_has_a_limit_in_total(tmp_path: Path) -> None:
    daily = [f"DTSTART:20100101T{hour:02}0000Z\nRRULE:FREQ=DAILY" for hour in range(14)]

    items = parse(write_calendar(tmp_path / "a.ics", *daily))

    all_data = [record.data for item in items for record in item.records]
    assert all(item.records[0].data["start_day"] == "2010-01-01" for item in items)
    assert 49_000 < len(all_data) <= 50_000 + len(items)
    assert sum(len(orjson.dumps(data)) for data in all_data) < 33 * 1024 * 1024
    limited = next(item for item in items if "too_many_occurrences" in issue_codes(item))
    assert limited.records[-1].data["start_day"] > "2026-07-01"
    assert limited.records[1].data["start_day"] < "2026-07-01"


@pytest.mark.slow
def test_a_run_of_many_files_has_a_limit_in_total(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = icalendar.limits_per_run()
    limits.occurrences = 6_000
    monkeypatch.setattr(icalendar, "limits_per_run", lambda: limits)
    (tmp_path / "many").mkdir()
    for number in range(4):
        event = "DTSTART:20100101T120000Z\nRRULE:FREQ=DAILY"
        path = write_calendar(tmp_path / "many" / f"{number}.ics", event)
        path.write_text(path.read_text().replace("UID:s0", f"UID:{number}"))

    assert [len(item.records) for item in parse(tmp_path / "many")] == [4_750, 1_250, 1, 1]


@pytest.mark.parametrize("rule", ["FREQ=DAILY", "FREQ=DAILY;BYMONTH=1;BYMONTHDAY=1"])
def test_computing_the_series_of_a_file_has_a_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rule: str
) -> None:
    limits = icalendar.limits_per_run()
    limits.steps = 100_000
    monkeypatch.setattr(icalendar, "limits_per_run", lambda: limits)
    events = [f"DTSTART:19000102T120000Z\nRRULE:{rule}"] * 5

    items = parse(write_calendar(tmp_path / "a.ics", *events))

    assert [len(item.records) for item in items[3:]] == [1, 1]
    assert "too_many_occurrences" in issue_codes(items[-1])


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


VCALENDAR = (
    b"BEGIN:VCALENDAR\r\nVERSION:1.0\r\nBEGIN:VEVENT\r\n%bDTSTART:20260105T090000Z\r\n"
    b"SUMMARY;CHARSET=ISO-8859-1;ENCODING=QUOTED-PRINTABLE:Caf=E9 =\r\n mit M=FCller\r\n"
    b"DESCRIPTION;QUOTED-PRINTABLE;CHARSET=UTF-8:eins=0D=0A=\r\nzw=C3=B6lf; 1=3D1\r\n"
    b"LOCATION:B=C3\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n"
)


@pytest.mark.parametrize("uid", [b"UID:1\r\n", b""])
def test_quoted_printable_texts_are_decoded(tmp_path: Path, uid: bytes) -> None:
    path = tmp_path / "phone.vcs"
    path.write_bytes(VCALENDAR % uid)

    run(path)

    (event,) = records("events")
    assert (event["title"], event["location"]) == ("Café mit Müller", "B=C3")
    assert event["description"] == "eins\nzwölf; 1=1"


def test_comments_and_attached_files_are_in_the_description(tmp_path: Path) -> None:
    event = (
        "BEGIN:VEVENT\nUID:1\nSUMMARY:Tea\nDTSTART:20260105T100000Z\nDESCRIPTION:Bring cake\nCOMMENT:Door\\, left\n"
        "COMMENT:Bring cake\nCONTACT:Ida\\, 0123\nRESOURCES:Projector,Chairs\n"
        "ATTACH;FILENAME=Plan.pdf;FMTTYPE=application/pdf:https://example.org/plan\n"
        "ATTACH:https://example.org/other\nATTACH;VALUE=BINARY;ENCODING=BASE64:YWJj\n"
        "ATTACH;ENCODING=BASE64;FILENAME=b.txt:YWJj\nATTACH:data:text/plain,abc\n"
        "CONFERENCE;VALUE=URI;LABEL=Meet:https://meet.example.org/1\nEND:VEVENT\n"
    )
    (tmp_path / "a.ics").write_text(f"BEGIN:VCALENDAR\n{event}END:VCALENDAR\n")

    run(tmp_path / "a.ics")

    assert one("events", title="Tea")["description"] == (
        "Bring cake\n\nDoor, left\n\nIda, 0123\n\nProjector,Chairs\n\n"
        "Plan.pdf: https://example.org/plan\nhttps://example.org/other\n"
        "Meet: https://meet.example.org/1"
    )
    found = [(row.code, row.detail) for row in ImportReceipt.unscoped.all()]
    assert found == [("partly_imported", f"attached file{name}") for name in ("", " b.txt", "")]


def test_description_that_is_repeated_or_in_html_is_text(tmp_path: Path) -> None:
    html = "X-ALT-DESC;FMTTYPE=text/html:<html><body><p>Bring <b>cake</b></p></body></html>"
    events = "".join(
        f"BEGIN:VEVENT\nUID:{number}\nDTSTART:20260105T100000Z\n{lines}\nEND:VEVENT\n"
        for number, lines in enumerate((html, "DESCRIPTION:Bring cake\nDESCRIPTION:Or tea"))
    )
    (tmp_path / "a.ics").write_text(f"BEGIN:VCALENDAR\n{events}END:VCALENDAR\n")

    run(tmp_path / "a.ics")

    assert {row["description"] for row in records("events")} == {
        "Bring cake", "Bring cake\n\nOr tea",
    }  # fmt: skip


def test_second_titles_and_long_ones_are_not_lost_in_silence(tmp_path: Path) -> None:
    lines = f"SUMMARY:Tea\nSUMMARY:Cake\nLOCATION:{'Kitchen ' * 200}\nLOCATION:Garden"
    write_calendar(tmp_path / "a.ics", f"DTSTART:20260105T100000Z\n{lines}".replace("SUMMARY", "X"))
    text = (
        (tmp_path / "a.ics").read_text().replace("SUMMARY:s0\n", "").replace("\nX:", "\nSUMMARY:")
    )
    (tmp_path / "a.ics").write_text(text)

    run(tmp_path / "a.ics")

    event = one("events", title="Tea")
    assert (event["description"], len(event["location"])) == ("Cake\n\nGarden", 1_000)
    assert {code for code, _ in receipts()} == {"text_cut"}


def test_series_without_any_occurrence_has_a_receipt(tmp_path: Path) -> None:
    rule = "RRULE:FREQ=DAILY;COUNT=2\nEXDATE:20260105T100000Z,20260106T100000Z"
    run(write_calendar(tmp_path / "a.ics", f"DTSTART:20260105T100000Z\n{rule}"))

    assert records("events") == []
    found = [(row.code, row.detail) for row in ImportReceipt.unscoped.all()]
    assert found == [("deleted", "every occurrence of s0")]
