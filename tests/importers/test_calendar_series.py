"""Recurring events whose exceptions, versions or rules are unusual, compared with another library."""

from datetime import UTC, date, datetime
from pathlib import Path

import pytest
import recurring_ical_events
import time_machine
from icalendar import Calendar

from evidence.write.record_erasure import delete_record
from importers.models import ImportReceipt
from tests.importers.imports import connection, latest, receipts, records, run
from tests.world import NOW

pytestmark = [pytest.mark.slow, pytest.mark.django_db]

TODAY = "2026-11-22T12:00:00Z"


def write(path: Path, *events: str, uid: str = "s") -> Path:
    """Write a calendar whose events have one UID."""
    components = "".join(f"BEGIN:VEVENT\nUID:{uid}\n{event}\nEND:VEVENT\n" for event in events)
    path.write_text(
        f"BEGIN:VCALENDAR\nVERSION:2.0\nX-WR-TIMEZONE:Europe/Berlin\n{components}END:VCALENDAR\n"
    )
    return path


def starts() -> list[str]:
    times = [record["starts_at"] for record in records("events")]
    return sorted(datetime.fromisoformat(time).astimezone(UTC).isoformat() for time in times)


def days() -> list[str]:
    return sorted(record["start_day"] for record in records("events"))


def expected_starts(path: Path) -> list[str]:
    """Return the starts from 2016 to 2028 by recurring-ical-events."""
    calendar = Calendar.from_ical(path.read_text())
    found = recurring_ical_events.of(calendar).between(date(2016, 1, 1), date(2029, 1, 1))
    return sorted(event.start.astimezone(UTC).isoformat() for event in found)


DAILY = "DTSTART;TZID=Europe/Berlin:20260105T100000\nRRULE:FREQ=DAILY;COUNT=5\nSUMMARY:Tea"
ALL_DAY = "DTSTART;VALUE=DATE:20260105\nRRULE:FREQ=DAILY;COUNT=5\nSUMMARY:Trip"


@time_machine.travel(TODAY, tick=True)
@pytest.mark.parametrize(
    "events",
    [
        [f"{DAILY}\nEXDATE;TZID=Europe/Berlin:20260106T100000"],
        [f"{DAILY}\nEXDATE:20260106T090000Z"],
        [f"{DAILY}\nRDATE;VALUE=PERIOD:20260201T100000Z/PT2H"],
        [DAILY, "RECURRENCE-ID:20260106T090000Z\nDTSTART:20260106T120000Z\nSUMMARY:Late"],
        [
            DAILY,
            "RECURRENCE-ID;RANGE=THISANDFUTURE;TZID=Europe/Berlin:20260107T100000\n"
            "DTSTART;TZID=Europe/Berlin:20260107T150000\nSUMMARY:Afternoon",
        ],
        ["DTSTART:20260130T100000\nRRULE:FREQ=MONTHLY;BYDAY=-1FR;COUNT=30"],
        ["DTSTART:20260131T100000\nRRULE:FREQ=MONTHLY;COUNT=10"],
        ["DTSTART:20200229T100000\nRRULE:FREQ=YEARLY"],
        ["DTSTART;TZID=America/New_York:20260105T100000\nRRULE:FREQ=WEEKLY;INTERVAL=2;BYDAY=MO,WE"],
    ],
)
def test_series_has_the_occurrences_of_another_library(tmp_path: Path, events: list[str]) -> None:
    path = write(tmp_path / "a.ics", *events)

    run(path)

    assert starts() == expected_starts(path)


@time_machine.travel(TODAY, tick=True)
@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ([f"{DAILY}\nEXDATE;VALUE=DATE:20260106"], [5, 7, 8, 9]),
        ([f"{DAILY}\nEXDATE:20260106,20260108"], [5, 7, 9]),
        ([f"{ALL_DAY}\nEXDATE:20260106T000000"], [5, 7, 8, 9]),
        ([f"{ALL_DAY}\nEXDATE:20260105T230000Z"], [5, 7, 8, 9]),
        ([f"{DAILY}\nEXRULE:FREQ=DAILY;INTERVAL=2"], [5]),  # with a receipt
        ([f"{DAILY}\nRDATE;VALUE=TIME:120000"], [5, 6, 7, 8, 9]),
        ([f"{DAILY}\nRDATE;VALUE=DATE-TIME:bogus"], [5, 6, 7, 8, 9]),
        ([ALL_DAY, "RECURRENCE-ID:20260106T000000\nDTSTART;VALUE=DATE:20260120"], [5, 7, 8, 9, 20]),
        (
            [ALL_DAY, "RECURRENCE-ID:20260105T230000Z\nDTSTART;VALUE=DATE:20260120"],
            [5, 7, 8, 9, 20],
        ),
        (
            [ALL_DAY, "RECURRENCE-ID:20260106T000000Z\nDTSTART;VALUE=DATE:20260120"],
            [5, 7, 8, 9, 20],
        ),
        ([DAILY, "RECURRENCE-ID;VALUE=DATE:20260106\nDTSTART:20260120T100000Z"], [5, 7, 8, 9, 20]),
        ([DAILY, "RECURRENCE-ID:20260106T100000\nDTSTART:20260120T100000Z"], [5, 7, 8, 9, 20]),
    ],
)
def test_exceptions_of_another_type_still_meet_their_day(
    tmp_path: Path, events: list[str], expected: list[int]
) -> None:
    run(write(tmp_path / "a.ics", *events))

    assert days() == [f"2026-01-{day:02}" for day in expected]


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("RDATE;VALUE=TIME:120000", "bad_listed_date"),
        ("RDATE:bogus", "bad_listed_date"),
        ("EXDATE:bogus", "bad_listed_date"),
        ("EXRULE:FREQ=DAILY;INTERVAL=2", "bad_recurrence"),
    ],
)
def test_ignored_dates_have_a_receipt(tmp_path: Path, line: str, code: str) -> None:
    run(write(tmp_path / "a.ics", f"{DAILY}\n{line}"))

    assert code in {each for each, _ in receipts()}
    assert len(records("events")) == (1 if "EXRULE" in line else 5)


def test_exception_for_all_later_occurrences_changes_them_and_has_a_receipt(tmp_path: Path) -> None:
    change = "RECURRENCE-ID;RANGE=THISANDFUTURE;TZID=Europe/Berlin:20260107T100000\nDTSTART;TZID=Europe/Berlin:20260107T150000\nSUMMARY:Afternoon"

    run(write(tmp_path / "a.ics", DAILY, change))

    titles = [(record["starts_at"][11:16], record["title"]) for record in records("events")]
    assert titles == [("10:00", "Tea")] * 2 + [("15:00", "Afternoon")] * 3
    assert "changes_later" in {code for code, _ in receipts()}


@time_machine.travel(TODAY, tick=True)
@pytest.mark.parametrize("count", ["-1", "0"])
def test_count_below_one_means_without_end(tmp_path: Path, count: str) -> None:
    run(write(tmp_path / "a.ics", f"DTSTART:20260105T100000Z\nRRULE:FREQ=DAILY;COUNT={count}"))

    assert len(records("events")) == 1092


@time_machine.travel(TODAY, tick=True)
@pytest.mark.parametrize("interval", ["0", "-1"])
def test_interval_below_one_is_one(tmp_path: Path, interval: str) -> None:
    run(
        write(
            tmp_path / "a.ics",
            f"DTSTART:20260105T100000Z\nRRULE:FREQ=DAILY;INTERVAL={interval};COUNT=4",
        )
    )

    assert days() == ["2026-01-05", "2026-01-06", "2026-01-07", "2026-01-08"]


VERSION_1 = "SEQUENCE:1\nDTSTART:20260105T100000Z\nSUMMARY:Old"
VERSION_2 = "SEQUENCE:2\nDTSTART:20260106T100000Z\nSUMMARY:New"


@pytest.mark.parametrize("order", [(VERSION_1, VERSION_2), (VERSION_2, VERSION_1)])
@pytest.mark.parametrize("is_in_two_files", [False, True])
def test_newest_sequence_is_imported(
    tmp_path: Path, order: tuple[str, str], is_in_two_files: bool
) -> None:
    (tmp_path / "in").mkdir()
    if is_in_two_files:
        write(tmp_path / "in" / "a.ics", order[0])
        write(tmp_path / "in" / "b.ics", order[1])
    else:
        write(tmp_path / "in" / "a.ics", *order)

    run(tmp_path / "in")

    assert [record["title"] for record in records("events")] == ["New"]
    assert "older_version" in {code for code, _ in receipts()}


@pytest.mark.parametrize(
    "line", ["DESCRIPTION:Bring the keys", "DURATION:PT2H", "ATTENDEE:mailto:ida@example.org"]
)
def test_files_with_other_texts_of_an_event_have_a_receipt(tmp_path: Path, line: str) -> None:
    event = "DTSTART:20260113T090000Z\nSUMMARY:Plan"
    (tmp_path / "in").mkdir()
    for name, text in (("a", event), ("b", f"{event}\n{line}"), ("c", event)):
        write(tmp_path / "in" / f"{name}.ics", text)

    run(tmp_path / "in")

    assert [record["title"] for record in records("events")] == ["Plan"]
    assert [row.code for row in ImportReceipt.unscoped.all()] == ["older_version"]


def test_second_calendar_of_an_event_has_a_receipt(tmp_path: Path) -> None:
    for name in ("Work", "Family", "Copy of family"):
        text = write(tmp_path / f"{name}.ics", "DTSTART:20260113T090000Z\nSUMMARY:Plan").read_text()
        own_name = f"VERSION:2.0\nX-WR-CALNAME:{name.removeprefix('Copy of ').title()}"
        (tmp_path / f"{name}.ics").write_text(text.replace("VERSION:2.0", own_name))

    run(tmp_path)

    assert [record["calendar"] for record in records("events")] == ["Family"]
    (receipt,) = ImportReceipt.unscoped.all()
    assert (receipt.code, receipt.detail) == ("partly_imported", "calendar Work")


def test_exception_in_another_file_replaces_its_occurrence(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    write(tmp_path / "in" / "a.ics", DAILY)
    moved = "RECURRENCE-ID:20260106T090000Z\nDTSTART:20260120T100000Z\nSUMMARY:Moved"
    write(tmp_path / "in" / "b.ics", moved)

    run(tmp_path / "in")

    assert days() == [f"2026-01-{day:02}" for day in (5, 7, 8, 9, 20)]


@pytest.mark.slow
@time_machine.travel(TODAY, tick=True)
def test_series_of_many_exceptions_keeps_those_closest_to_today(tmp_path: Path) -> None:
    series = "DTSTART:20100101T100000Z\nRRULE:FREQ=DAILY"
    moved = (
        date.fromordinal(date(2010, 1, 1).toordinal() + number).strftime("%Y%m%d")
        for number in range(6_500)
    )
    changes = [f"RECURRENCE-ID:{day}T100000Z\nDTSTART:{day}T110000Z" for day in moved]

    run(write(tmp_path / "a.ics", *changes, series))

    assert "2026-11-22T11:00:00+00:00" in starts()
    assert {code for code, _ in receipts()} >= {"too_many_occurrences"}


@pytest.mark.slow
@time_machine.travel(TODAY, tick=True)
def test_series_of_many_times_a_day_includes_today(tmp_path: Path) -> None:
    hours = ",".join(map(str, range(24)))
    run(write(tmp_path / "a.ics", f"DTSTART:19900101T000000Z\nRRULE:FREQ=DAILY;BYHOUR={hours}"))

    assert {"2026-07-01T10:00:00+00:00", "1990-01-01T00:00:00+00:00"} <= set(starts())


MOVED = DAILY.replace("T100000", "T110000")


@pytest.mark.parametrize(
    "after",
    [
        MOVED,
        DAILY.replace("20260105", "20260106"),
        DAILY.replace("RRULE:FREQ=DAILY;COUNT=5\n", ""),
        f"{DAILY}\nEXDATE:20260106T090000Z",
    ],
)
def test_occurrences_that_a_series_no_longer_has_are_removed(tmp_path: Path, after: str) -> None:
    run(write(tmp_path / "a.ics", DAILY))
    other = write(tmp_path / "other.ics", DAILY, uid="s2")
    run(other)

    path = write(tmp_path / "a.ics", after)
    run(path)

    assert sorted(starts()) == sorted([*expected_starts(path), *expected_starts(other)])
    run(path)
    assert (latest().created, latest().updated) == (0, 0)


def test_event_that_becomes_a_series_is_one_series(tmp_path: Path) -> None:
    run(write(tmp_path / "a.ics", DAILY.replace("RRULE:FREQ=DAILY;COUNT=5\n", "")))

    run(write(tmp_path / "a.ics", DAILY))

    assert len(records("events")) == 5


def test_erased_occurrence_stays_erased(tmp_path: Path) -> None:
    path = write(tmp_path / "a.ics", DAILY)
    run(path)
    key = records("events")[1]["id"]
    cin = connection("Calendar").connection_id
    delete_record(cin, stream="events", record_key=key, suppress=True, now=NOW)

    run(write(tmp_path / "a.ics", f"{DAILY}\nLOCATION:Kitchen"))

    assert [record["location"] for record in records("events")] == ["Kitchen"] * 4


@time_machine.travel("2026-11-22T12:00:00Z", tick=True)
def test_a_later_window_keeps_old_occurrences(tmp_path: Path) -> None:
    path = write(tmp_path / "a.ics", "DTSTART:20140105T120000Z\nRRULE:FREQ=WEEKLY")
    run(path)
    with time_machine.travel("2027-11-22T12:00:00Z", tick=True):
        run(path)

    assert "2016-01-03" in days()


@time_machine.travel("2026-11-22T12:00:00Z", tick=True)
@pytest.mark.parametrize(
    ("before", "after", "erased", "remaining"),
    [
        ("20260105T100000", "20260105T113000", "2026-01-07", [5, 6, 8, 9]),
        ("20260105T100000", "20260104T233000", "2026-01-07", [4, 5, 7, 8]),
        ("20260105T100000", "20260105T100000", "2026-01-07", [5, 6, 8, 9]),
    ],
)
def test_erased_occurrence_of_a_moved_series_stays_erased(
    tmp_path: Path, before: str, after: str, erased: str, remaining: list[int]
) -> None:
    run(write(tmp_path / "a.ics", DAILY.replace("20260105T100000", before)))
    erase(erased)

    for _ in range(3):
        run(write(tmp_path / "a.ics", DAILY.replace("20260105T100000", after)))

        assert days() == [f"2026-01-{day:02}" for day in remaining]
    assert "erased" in {code for code, _ in receipts()}


@time_machine.travel("2026-11-22T12:00:00Z", tick=True)
def test_occurrences_behind_a_later_start_are_not_taken_for_erased_ones(tmp_path: Path) -> None:
    endless = "DTSTART;TZID=Europe/Berlin:20260105T100000\nRRULE:FREQ=WEEKLY\nSUMMARY:Tea"
    run(write(tmp_path / "a.ics", endless))
    erase("2026-01-05")

    run(write(tmp_path / "a.ics", endless.replace("20260105", "20260601")))

    assert days()[:2] == ["2026-06-01", "2026-06-08"]
    assert "erased" not in {row.code for row in ImportReceipt.unscoped.filter(run=latest())}


def erase(day: str) -> None:
    found = connection("Calendar")
    (key,) = (record["id"] for record in records("events") if record["start_day"] == day)
    delete_record(found.connection_id, stream="events", record_key=key, suppress=True, now=NOW)


def test_two_exceptions_of_one_day_are_both_kept(tmp_path: Path) -> None:
    run(write(
        tmp_path / "a.ics",
        DAILY,
        "RECURRENCE-ID:20260106T080000Z\nDTSTART:20260106T080000Z\nSUMMARY:Early",
        "RECURRENCE-ID:20260106T140000Z\nDTSTART:20260106T140000Z\nSUMMARY:Late",
    ))  # fmt: skip

    titles = [row["title"] for row in records("events") if row["start_day"] == "2026-01-06"]
    assert {"Early", "Late"} <= set(titles)


@pytest.mark.parametrize(
    ("lines", "detail"),
    [
        ("DTSTART:20260113T140000Z\nDTEND:None", "DTEND None"),
        ("DTSTART:20260113T140000Z\nDURATION:PT1W", "DURATION PT1W"),
        ("RECURRENCE-ID:bogus\nDTSTART:20260113T140000Z", "bogus"),
    ],
)
def test_dates_of_an_event_that_cannot_be_read_have_a_receipt(
    tmp_path: Path, lines: str, detail: str
) -> None:
    run(write(tmp_path / "a.ics", f"{lines}\nSUMMARY:Tea"))

    found = [(row.code, row.detail) for row in ImportReceipt.unscoped.all()]
    assert found == [("bad_date", detail)]


def test_entry_that_cannot_be_parsed_costs_only_itself(tmp_path: Path) -> None:
    change = f"RECURRENCE-ID:20260106T090000Z\nLOCATION;VALUE=1 Main St, X:a\n{DAILY}"
    run(write(tmp_path / "a.ics", DAILY, change))

    assert len(records("events")) == 5
    assert {code for code, _ in receipts()} == {"malformed"}


def test_exception_of_no_occurrence_leaves_the_one_of_its_day(tmp_path: Path) -> None:
    added = "RECURRENCE-ID:20260106T140000Z\nDTSTART:20260106T143000Z\nSUMMARY:Extra"

    run(write(tmp_path / "a.ics", DAILY, added))

    assert [row["title"] for row in records("events") if row["start_day"] == "2026-01-06"] == [
        "Tea", "Extra",
    ]  # fmt: skip
    assert len(records("events")) == 6


@pytest.mark.parametrize(
    "change",
    [
        "RECURRENCE-ID:bogus\nDTSTART:20260106T120000Z",
        "RECURRENCE-ID:20260106T090000Z\nDTSTART:20260106T120000T",
    ],
)
def test_exception_with_an_invalid_date_keeps_its_text(tmp_path: Path, change: str) -> None:
    path = write(tmp_path / "a.ics", DAILY, f"{change}\nSUMMARY:Late")
    run(path)

    assert sum(row["title"] == "Late" for row in records("events")) == 1
    assert {code for code, _ in receipts()} == {"bad_date"}
    run(path)
    assert (latest().created, latest().updated) == (0, 0)
