"""Times of events as other programs mean them: ends in another zone, days that are not 24 hours long."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.importers.imports import latest, receipts, records, run

pytestmark = [pytest.mark.slow, pytest.mark.django_db]

HEAD = "BEGIN:VCALENDAR\nVERSION:2.0\n"
FOREIGN_ZONE = """BEGIN:VTIMEZONE
TZID:{name}
BEGIN:STANDARD
DTSTART:19700101T000000
TZOFFSETFROM:{offset}
TZOFFSETTO:{offset}
END:STANDARD
END:VTIMEZONE
"""


def event(*lines: str, uid: str = "s") -> str:
    content = "\n".join(lines)
    return f"BEGIN:VEVENT\nUID:{uid}\nSUMMARY:Tea\n{content}\nEND:VEVENT\n"


def calendar(*events: str, head: str = "") -> str:
    return f"{HEAD}{head}{''.join(events)}END:VCALENDAR\n"


def import_text(tmp_path: Path, text: str | bytes, **options: str) -> list[tuple[str, str]]:
    """Return (start, end) of all events in UTC, in order."""
    path = tmp_path / "a.ics"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    run(path, **options)
    return sorted(
        (in_utc(record["starts_at"]), in_utc(record["ends_at"])) for record in records("events")
    )


def in_utc(time: str) -> str:
    return f"{datetime.fromisoformat(time).astimezone(UTC):%m-%d %H:%M}"


BERLIN, NEW_YORK = "TZID=Europe/Berlin", "TZID=America/New_York"


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        # A flight ends in the zone of its destination.
        ([f"DTSTART;{NEW_YORK}:20260702T090000", f"DTEND;{BERLIN}:20260702T230000"],
         ("07-02 13:00", "07-02 21:00")),
        (["DTSTART:20260702T070000Z", f"DTEND;{BERLIN}:20260702T100000"],
         ("07-02 07:00", "07-02 08:00")),
        # Daylight saving begins on 29 March and ends on 25 October.
        ([f"DTSTART;{BERLIN}:20260328T120000", f"DTEND;{BERLIN}:20260329T120000"],
         ("03-28 11:00", "03-29 10:00")),
        ([f"DTSTART;{BERLIN}:20261025T013000", f"DTEND;{BERLIN}:20261025T033000"],
         ("10-24 23:30", "10-25 02:30")),
        ([f"DTSTART;{BERLIN}:20260328T120000", "DURATION:P1D"], ("03-28 11:00", "03-29 10:00")),
        ([f"DTSTART;{BERLIN}:20260328T120000", "DURATION:PT3H"], ("03-28 11:00", "03-28 14:00")),
    ],
)  # fmt: skip
def test_event_ends_when_its_zone_says(
    tmp_path: Path, lines: list[str], expected: tuple[str, str]
) -> None:
    assert import_text(tmp_path, calendar(event(*lines))) == [expected]
    assert receipts() == set()


DAILY = [f"DTSTART;{BERLIN}:20260302T090000", f"DTEND;{BERLIN}:20260302T100000"]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("RRULE:FREQ=DAILY;COUNT=3\nEXDATE;TZID=America/New_York:20260303T030000",
         [("03-02 08:00", "03-02 09:00"), ("03-04 08:00", "03-04 09:00")]),
        ("RDATE;VALUE=PERIOD:20260310T080000Z/PT3H,20260311T080000Z/20260311T120000Z",
         [("03-02 08:00", "03-02 09:00"), ("03-10 08:00", "03-10 11:00"),
          ("03-11 08:00", "03-11 12:00")]),
        ("RDATE;VALUE=DATE:20260310",
         [("03-02 08:00", "03-02 09:00"), ("03-10 08:00", "03-10 09:00")]),
        ("RDATE;TZID=America/New_York:20260310T030000",
         [("03-02 08:00", "03-02 09:00"), ("03-10 07:00", "03-10 08:00")]),
    ],
)  # fmt: skip
def test_listed_dates_have_their_own_zone_and_length(
    tmp_path: Path, line: str, expected: list[tuple[str, str]]
) -> None:
    assert import_text(tmp_path, calendar(event(*DAILY, line))) == expected


def test_zone_that_the_calendar_defines_counts_more_than_a_part_of_its_name(tmp_path: Path) -> None:
    zone = FOREIGN_ZONE.format(name="My office/EST", offset="+0100")
    text = calendar(event("DTSTART;TZID=My office/EST:20260702T090000"), head=zone)

    assert import_text(tmp_path, text) == [("07-02 08:00", "07-02 08:00")]


def test_calendars_in_one_file_keep_their_zones_and_names(tmp_path: Path) -> None:
    parts = [
        calendar(
            event("DTSTART;TZID=Office:20260702T090000", uid=f"z{hours}"),
            event("DTSTART:20260703T090000", uid=f"f{hours}"),
            head=f"X-WR-CALNAME:{name}\nX-WR-TIMEZONE:{name}\n"
            + FOREIGN_ZONE.format(name="Office", offset=f"+0{hours}00"),
        )
        for name, hours in (("Europe/Berlin", 3), ("Asia/Tokyo", 4))
    ]

    times = import_text(tmp_path, "".join(parts))

    assert [start for start, _ in times] == [
        "07-02 05:00", "07-02 06:00", "07-03 00:00", "07-03 07:00",
    ]  # fmt: skip
    assert {record["calendar"] for record in records("events")} == {"Europe/Berlin", "Asia/Tokyo"}


def test_cancelled_invitation_is_cancelled(tmp_path: Path) -> None:
    text = calendar(event("DTSTART:20260702T090000Z", "SEQUENCE:1"), head="METHOD:CANCEL\n")
    import_text(tmp_path, text)

    assert [record["status"] for record in records("events")] == ["cancelled"]


def without_uid(text: str) -> str:
    return text.replace("UID:s\n", "")


TEA = ("DTSTAMP:20260601T080000Z", "DTSTART:20260702T090000Z", "SEQUENCE:0")
LATER = ("DTSTAMP:20260608T080000Z", "DTSTART:20260702T090000Z", "SEQUENCE:1")
ALARM = "BEGIN:VALARM\nACTION:DISPLAY\nTRIGGER:-PT5M\nEND:VALARM"


@pytest.mark.parametrize("rule", [(), ("RRULE:FREQ=DAILY;COUNT=3",)])
@pytest.mark.parametrize(
    ("before", "after"),
    [
        (event(*TEA, "STATUS:CONFIRMED"), calendar(event(*TEA, "STATUS:CANCELLED"))),
        (event(*TEA, ALARM), calendar(event(*LATER, "STATUS:CANCELLED", "TRANSP:TRANSPARENT"))),
        (event(*TEA), calendar(event(*LATER), head="METHOD:CANCEL\n")),
    ],
)
def test_cancellation_of_an_event_without_a_uid_replaces_it(
    tmp_path: Path, before: str, after: str, rule: tuple[str, ...]
) -> None:
    rules = "".join(f"{each}\nEND:VEVENT" for each in rule) or "END:VEVENT"
    before, after = (
        without_uid(text).replace("END:VEVENT", rules) for text in (calendar(before), after)
    )
    import_text(tmp_path, before)
    import_text(tmp_path, after)

    count = 3 if rule else 1
    assert [record["status"] for record in records("events")] == ["cancelled"] * count
    import_text(tmp_path, after)
    assert (latest().created, latest().updated) == (0, 0)


@pytest.mark.parametrize("is_one_file", [True, False])
def test_cancellation_beside_the_event_without_a_uid_counts(
    tmp_path: Path, is_one_file: bool
) -> None:
    planned, cancelled = event(*TEA), event(*TEA, "STATUS:CANCELLED")
    if is_one_file:
        import_text(tmp_path, without_uid(calendar(planned, cancelled)))
    else:
        (tmp_path / "all").mkdir()
        for name, text in (("1.ics", planned), ("2.ics", cancelled)):
            (tmp_path / "all" / name).write_text(without_uid(calendar(text)))
        run(tmp_path / "all")

    assert [record["status"] for record in records("events")] == ["cancelled"]


def test_answer_of_a_guest_does_not_replace_the_event(tmp_path: Path) -> None:
    folder = tmp_path / "invitation"
    folder.mkdir()
    times = ("DTSTART:20260702T090000Z", "SEQUENCE:1")
    guests = ("ATTENDEE:mailto:ida@example.org", "ATTENDEE:mailto:jonas@example.org")
    request = event(*times, *guests, "DTSTAMP:20260601T000000Z")
    reply = event(*times, guests[0], "DTSTAMP:20260602T000000Z")
    (folder / "a.ics").write_text(calendar(request, head="METHOD:REQUEST\n"))
    (folder / "b.ics").write_text(calendar(reply, head="METHOD:REPLY\n"))

    run(folder)

    (record,) = records("events")
    assert record["attendees"] == ["ida@example.org", "jonas@example.org"]


def test_tasks_and_journals_have_receipts(tmp_path: Path) -> None:
    other = "BEGIN:VTODO\nUID:t\nEND:VTODO\nBEGIN:VJOURNAL\nUID:j\nEND:VJOURNAL\n"

    import_text(tmp_path, calendar(event("DTSTART:20260702T090000Z"), other))

    assert receipts() == {("not_supported", "line 8"), ("not_supported", "line 11")}


def test_calendar_without_entries_has_a_receipt(tmp_path: Path) -> None:
    import_text(tmp_path, calendar())

    assert receipts() == {("empty", "a.ics")}


@pytest.mark.parametrize("zone", ["", ";TZID=America/Toronto"])
@pytest.mark.parametrize("time", ["", "T000000"])
def test_days_with_a_zone_or_midnight_are_all_day(tmp_path: Path, zone: str, time: str) -> None:
    start, end = (
        f"{name};VALUE=DATE{zone}:2026110{day}{time}"
        for name, day in (("DTSTART", 1), ("DTEND", 2))
    )
    excluded = f"EXDATE;VALUE=DATE{zone}:20261103{time}"
    moved = event(f"RECURRENCE-ID;VALUE=DATE{zone}:20261102{time}", "DTSTART;VALUE=DATE:20261109")

    import_text(tmp_path, calendar(event(start, end, "RRULE:FREQ=DAILY;COUNT=4", excluded), moved))

    found = records("events")
    assert {record["is_all_day"] for record in found} == {True}
    assert sorted((record["start_day"], record["end_day"]) for record in found) == [
        ("2026-11-01", "2026-11-01"), ("2026-11-04", "2026-11-04"), ("2026-11-09", "2026-11-09")
    ]  # fmt: skip
    assert receipts() == set()


def test_name_of_a_zone_may_have_commas(tmp_path: Path) -> None:
    zone = FOREIGN_ZONE.format(name="(UTC+07:00) Bangkok\\, Hanoi", offset="+0700")
    start = 'DTSTART;TZID="(UTC+07:00) Bangkok, Hanoi":20260702T090000'

    assert import_text(tmp_path, calendar(event(start), head=zone)) == [
        ("07-02 02:00", "07-02 02:00")
    ]
    assert receipts() == set()


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "America/New_York", "Pacific/Auckland"])
@pytest.mark.parametrize(
    ("until", "last"),
    [
        ("20260121T230000Z", "2026-01-22"),  # midnight in Berlin
        ("20260121T120000Z", "2026-01-22"),  # midnight in New Zealand, without and with summer time
        ("20260121T110000Z", "2026-01-22"),
        ("20260121T100000Z", "2026-01-21"),  # midnight in Hawaii
        ("20260121T050000Z", "2026-01-21"),  # midnight in New York
        ("20260121T124500", "2026-01-21"),
        ("20260121T125959Z", "2026-01-21"),
        ("20260121T235959Z", "2026-01-21"),
        ("20260121T230000", "2026-01-21"),
        ("20260121", "2026-01-21"),
    ],
)
def test_all_day_series_ends_with_the_day_that_exchange_means(
    tmp_path: Path, until: str, last: str, zone: str
) -> None:
    rule = f"RRULE:FREQ=DAILY;UNTIL={until}"
    event_text = event("DTSTART;VALUE=DATE:20260119", rule)
    import_text(tmp_path, calendar(event_text, head=f"X-WR-TIMEZONE:{zone}\n"))

    assert max(record["start_day"] for record in records("events")) == last
