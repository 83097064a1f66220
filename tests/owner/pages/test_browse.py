"""Browsing a stream in the layout that its declared roles choose, and one record as what it is."""

import copy
import json
import re
from datetime import UTC, datetime, time, timedelta
from pathlib import Path
from typing import Any

import pytest
import time_machine
from django.utils import timezone

import importers
from owner.records import periods
from tests.owner.pages.browser import Browser
from tests.world import BANK, MAIL, PERSONAL, WORK, World, mail

PLACES = Path(importers.__file__).parent / "declarations/places.json"
TALK: dict[str, Any] = {
    "protocol_version": "0.1.0",
    "connector_id": "https://registry.example/connectors/talk",
    "connector_key": "talk",
    "version": "1.0.0",
    "display_name": "Talk",
    "streams": [
        {
            "name": "rooms",
            "semantics": "mutable_state",
            "schema": {"type": "object", "required": ["id"], "properties": {
                "id": {"type": "string"},
                "name": {"type": "string", "x_pdpp_role": "primary-title"}}},
            "primary_key": ["id"],
            "selection": {"fields": True, "resources": True},
        },
        {
            "name": "lines",
            "semantics": "mutable_state",
            "schema": {"type": "object", "required": ["id"], "properties": {
                "id": {"type": "string"}, "room": {"type": "string"},
                "who": {"type": "string", "x_pdpp_role": "actor"},
                "said_at": {"type": "string", "format": "date-time", "x_pdpp_role": "event-time"},
                "words": {"type": "string", "x_pdpp_role": "primary-title", "x_pdpp_type": "text"}}},
            "primary_key": ["id"],
            "selection": {"fields": True, "resources": True},
            "cursor_field": "said_at",
            "consent_time_field": "said_at",
            "relationships": [{"name": "in", "stream": "rooms", "foreign_key": "room",
                               "cardinality": "has_one"}],
        },
        {
            "name": "meetings",
            "semantics": "mutable_state",
            "schema": {"type": "object", "required": ["id"], "properties": {
                "id": {"type": "string"},
                "topic": {"type": "string", "x_pdpp_role": "primary-title"},
                "begins": {"type": "string", "format": "date-time", "x_pdpp_role": "event-time"},
                "ends": {"type": "string", "format": "date-time"},
                "page": {"type": "string", "contentMediaType": "text/html"}}},
            "primary_key": ["id"],
            "selection": {"fields": True, "resources": True},
            "cursor_field": "begins",
            "consent_time_field": "begins",
            "query": {"range_filters": {"begins": ["gte", "lt"], "ends": ["gte", "lt"]}},
        },
    ],
}  # fmt: skip
HTML = (
    '<h2>Agenda</h2><script>alert(1)</script><img src="https://evil.example/x.png">'
    '<p style="background:url(https://evil.example/y)" onclick="z()">Budget</p>'
    '<a href="javascript:x()">open</a>'
)


@pytest.fixture
def talk(world: World) -> str:
    world.declare(TALK)
    world.connect("cin_talk", "talk", "Talk", identities=["Alice"])
    world.put(
        ("cin_talk", "rooms", {"id": "r1", "name": "Garden"}),
        ("cin_talk", "rooms", {"id": "r2", "name": "Kitchen"}),
        ("cin_talk", "lines", {"id": "l1", "room": "r1", "who": "Jonas", "words": "Tomatoes?",
                               "said_at": "2026-05-01T09:00:00Z"}),
        ("cin_talk", "lines", {"id": "l2", "room": "r1", "who": "Alice", "words": "Yes, six.",
                               "said_at": "2026-05-01T09:05:00Z"}),
        ("cin_talk", "lines", {"id": "l3", "room": "r2", "who": "Jonas", "words": "Bread is out.",
                               "said_at": "2026-05-02T09:05:00Z"}),
        ("cin_talk", "meetings", {"id": "t1", "topic": "Budget", "begins": "2026-05-04T09:00:00Z",
                                  "ends": "2026-05-04T10:30:00Z", "page": HTML}),
    )  # fmt: skip
    return "/records/cin_talk"


def test_mail_is_a_mailbox(world: World, alice: Browser) -> None:
    page = alice.open(f"/records/{PERSONAL}/messages/")

    assert "Thursday, 5 March 2026 Jonas Weber Dinner on Friday? Shall we meet" in page.text
    assert page.text.index("Dinner on Friday?") < page.text.index("Old lease draft")
    assert "A note without a date" in page.text
    assert page.has_link("Threads")
    older = alice.open(page.link("2025"))
    assert "Old lease draft" in older.text
    assert "Dinner on Friday?" not in older.text


def test_future_and_very_old_dates_are_one_link_after_the_years(
    world: World, alice: Browser
) -> None:
    world.put(*((PERSONAL, "messages", {"id": f"d{year}", "subject": f"Dated {year}",
                 "received_at": f"{year}-06-01T00:00:00Z"})
                for year in ("2099", "1969", "1901")))  # fmt: skip

    page = alice.open(f"/records/{PERSONAL}/messages/")
    years = [words for words, at in page.links if "until=" in at]
    others = alice.open(page.link("Other dates"))

    assert years == ["2026", "2025", "Other dates"]
    assert "Dated 2099" not in page.text
    assert "Dated 2099" not in alice.open(page.link("2026")).text
    assert page.text.index("A note without a date") > page.text.index("Dated 1901")
    assert "Old lease draft" not in others.text
    at = [others.text.index(words) for words in ("Dated 2099", "Dated 1969", "Dated 1901")]
    assert at == sorted(at)
    assert "Dated 1969" not in alice.open(f"/records/{PERSONAL}/messages/?until=1968").text


@pytest.mark.parametrize(("days", "is_other"), [(1, False), (2, True)])
def test_dates_after_tomorrow_do_not_head_a_list(
    world: World, alice: Browser, days: int, is_other: bool
) -> None:
    noon = datetime.combine(timezone.localdate(), time(12), UTC)
    world.put((PERSONAL, "messages", {"id": "next", "subject": "Dated soon",
               "received_at": (noon + timedelta(days=days)).isoformat()}))  # fmt: skip

    with time_machine.travel(noon):  # or midnight may come between
        page = alice.open(f"/records/{PERSONAL}/messages/")

    assert page.has_link("Other dates") == is_other
    assert ("Dated soon" in page.text) == (not is_other)


def test_a_stream_of_impossible_dates_alone_links_them(world: World, alice: Browser) -> None:
    world.connect("cin_odd", MAIL["connector_key"], "Odd mail")
    world.put(("cin_odd", "messages", {"id": "m", "subject": "Dated 2099",
               "received_at": "2099-06-01T00:00:00Z"}))  # fmt: skip

    page = alice.open("/records/cin_odd/messages/")

    assert "No records." in page.text
    assert "Dated 2099" in alice.open(page.link("Other dates")).text


def test_stored_values_are_words(world: World, alice: Browser) -> None:
    world.put((PERSONAL, "messages", {"id": "raw", "subject": "Raw", "is_seen": False,
               "from_name": None, "labels": []}))  # fmt: skip

    page = alice.open(f"/records/{PERSONAL}/messages/raw")

    assert "Seen is_seen no" in page.text
    assert "From name from_name \N{EN DASH}" in page.text
    assert "Labels labels \N{EN DASH}" in page.text
    assert "Seen is_seen no Stored value of Seen false" in page.text
    assert "labels \N{EN DASH} Stored value of Labels []" in page.text


@pytest.mark.parametrize(
    ("kind", "words"),
    [("direct_debit", "Direct debit"), ("INBOX", "INBOX"), ("projects/2024", "projects/2024")],
)
def test_a_word_of_a_list_begins_with_a_capital(
    tracker: str, world: World, alice: Browser, kind: str, words: str
) -> None:
    world.put(("cin_track", "purchases", {"id": "k", "kind": kind, "on": "2026-05-02"}))
    assert f"Kind kind {words}" in alice.open(f"{tracker}/purchases/k").text


def test_all_fields_are_in_words_beside_what_an_app_gets(world: World, alice: Browser) -> None:
    page = alice.open(f"/records/{PERSONAL}/messages/m1")

    words = r"received_at (\d+ \w+ \d{4}, \d\d:\d\d) Stored value of \w+ \w+ (\S+)"
    shown = re.search(words, page.text)
    assert shown is not None
    assert datetime.fromisoformat(shown[2]) == datetime(2026, 1, 10, 9, tzinfo=UTC)
    assert "Stored value of Subject" not in page.text, "it is the same"
    fields, _, ids = page.html.partition('class="ids"')
    assert "<small>thread_id</small>" not in fields
    assert "<small>thread_id</small>" in ids


def test_headings_name_the_connection_and_tabs_its_streams(world: World, alice: Browser) -> None:
    page = alice.open(f"/records/{PERSONAL}/messages/")

    assert "Your messages" not in page.text
    assert "Home Personal mail Messages" in page.text


def test_a_mailbox_has_pages_without_gaps(world: World, alice: Browser) -> None:
    world.put(*((WORK, "messages", {"id": f"x{n:03}", "subject": "same",
                 "received_at": "2026-04-01T00:00:00Z"}) for n in range(120)))  # fmt: skip
    page = alice.open(f"/records/{WORK}/messages/")
    found = [at for _, at in page.links if "/messages/x" in at]
    while page.has_link("Earlier"):
        page = alice.open(page.link("Earlier"))
        found += [at for _, at in page.links if "/messages/x" in at]

    assert len(found) == len(set(found)) == 120


def test_chat_is_a_conversation(talk: str, alice: Browser) -> None:
    newest = alice.open(f"{talk}/lines/")
    assert "Bread is out." in newest.text
    assert "Tomatoes?" not in newest.text

    page = alice.open(newest.link("Garden"))
    assert page.text.index("Tomatoes?") < page.text.index("Yes, six.")
    own = [given["class"] for tag, given in page.elements if "bubble" in (given.get("class") or "")]
    assert own == ["bubble", "bubble mine"]
    assert alice.open(f"{talk}/lines/?in=%22'x").status == 200


def test_messages_with_impossible_dates_are_the_last_link_of_a_chat(
    talk: str, world: World, alice: Browser
) -> None:
    assert not alice.open(f"{talk}/lines/").has_link("Other dates")
    world.put(("cin_talk", "lines", {"id": "l9", "room": "r1", "who": "Jonas", "words": "From afar",
               "said_at": "2099-05-02T09:05:00Z"}))  # fmt: skip

    newest = alice.open(f"{talk}/lines/")
    garden = alice.open(newest.link("Garden"))
    others = alice.open(newest.link("Other dates"))

    assert "Bread is out." in newest.text
    assert "Tomatoes?" in garden.text
    assert "From afar" not in newest.text + garden.text
    assert "From afar" in others.text
    assert "Tomatoes?" not in others.text


def test_events_are_a_month_and_an_agenda(talk: str, alice: Browser) -> None:
    page = alice.open(f"{talk}/meetings/")
    assert "May 2026" in page.text
    assert "4 Monday 09:00\N{EN DASH}10:30 Budget" in page.text

    record = alice.open(f"{talk}/meetings/t1")
    assert "Monday, 4 May 2026 , 09:00\N{EN DASH}10:30" in record.text

    this = alice.open(f"{talk}/meetings/?month={timezone.localdate():%Y-%m}")
    assert [tag for tag, given in this.elements if given.get("aria-current") == "date"] == ["td"]

    june = alice.open(page.link("June \N{SINGLE RIGHT-POINTING ANGLE QUOTATION MARK}"))
    assert "No events in June 2026." in june.text
    assert "Budget" not in june.text


def test_a_month_with_too_many_events_says_so_and_links_its_days(
    talk: str, world: World, alice: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "has more than" not in alice.open(f"{talk}/meetings/?month=2026-05").text
    world.put(*(("cin_talk", "meetings", {"id": f"x{day}", "topic": f"Walk {day}",
        "begins": f"2026-05-{day}T09:00:00Z", "ends": f"2026-05-{day}T10:00:00Z"})
        for day in range(20, 26)))  # fmt: skip
    monkeypatch.setattr(periods, "MAX_EVENTS", 3)

    page = alice.open(f"{talk}/meetings/?month=2026-05")

    assert "May 2026 has more than 3 events. The first are here, up to 21 May." in page.text
    assert "Walk 22" not in page.text
    assert "Walk 22" in alice.open(page.link("22")).text
    assert page.link("31") == "/day/2026-05-31"


def test_bookings_have_sums_by_month(world: World, alice: Browser) -> None:
    page = alice.open(f"/records/{BANK}/transactions/?month=2026-01")

    assert "In 4,100.00 EUR Out 2,340.00 EUR In minus out 1,760.00 EUR" in page.text
    assert "Acme GmbH" in page.text
    assert 'aria-label="February 2026: in 4,100.00, out 0.00 EUR"' in page.html


def test_transfers_between_own_accounts_are_no_income(world: World, alice: Browser) -> None:
    def booking(key: str, account: str, amount: int, day: str = "2026-03-02") -> Any:
        data = {"id": key, "account": account, "date": day, "amount": amount, "currency": "EUR"}
        return "cin_own", "bookings", data

    world.declare(ACCOUNTS)
    world.connect("cin_own", "own-bank", "Own bank")
    world.put(
        booking("a", "giro", -300), booking("b", "savings", 300),  # moved
        booking("c", "giro", -40), booking("d", "giro", 40),  # paid, and refunded
        booking("e", "giro", -75), booking("f", "savings", 75, "2026-03-20"),  # on other days
        booking("g", "giro", -300),  # the same amount again, to somebody else
    )  # fmt: skip
    page = alice.open("/records/cin_own/bookings/?month=2026-03")

    assert "In 115.00 EUR Out 415.00 EUR In minus out -300.00 EUR" in page.text
    assert "Not counted: 1 transfer between your accounts, 300.00 EUR." in page.text
    assert 'aria-label="March 2026: in 115.00, out 415.00 EUR"' in page.html


ACCOUNTS: dict[str, Any] = {
    "protocol_version": "0.1.0",
    "connector_id": "https://registry.example/connectors/own-bank",
    "connector_key": "own-bank",
    "version": "1.0.0",
    "display_name": "Own bank",
    "streams": [
        {
            "name": "accounts",
            "semantics": "mutable_state",
            "schema": {"type": "object", "required": ["id"],
                       "properties": {"id": {"type": "string"}}},
            "primary_key": ["id"],
            "selection": {"fields": True, "resources": True},
        },
        {
            "name": "bookings",
            "semantics": "mutable_state",
            "schema": {"type": "object", "required": ["id"], "properties": {
                "id": {"type": "string"},
                "account": {"type": "string"},
                "amount": {"type": "number", "x_pdpp_type": "currency",
                           "x_pdpp_money": {"currency_field": "currency", "unit": "major"}},
                "currency": {"type": "string"},
                "date": {"type": "string", "format": "date", "x_pdpp_role": "event-time"}}},
            "primary_key": ["id"],
            "selection": {"fields": True, "resources": True},
            "relationships": [{"name": "account", "stream": "accounts",
                               "foreign_key": "account", "cardinality": "has_one"}],
            "cursor_field": "date",
            "consent_time_field": "date",
        },
    ],
}  # fmt: skip


TRACKER: dict[str, Any] = {
    "protocol_version": "0.1.0",
    "connector_id": "https://registry.example/connectors/tracker",
    "connector_key": "tracker",
    "version": "1.0.0",
    "display_name": "Tracker",
    "streams": [
        {
            "name": "samples",
            "semantics": "mutable_state",
            "schema": {"type": "object", "required": ["id"], "properties": {
                "id": {"type": "string"},
                "what": {"type": "string", "x_pdpp_role": "primary-title"},
                "reading": {"type": "number", "x_pdpp_type": "measure",
                            "x_pdpp_measure": {"unit_field": "in", "summed_units": ["steps"]}},
                "in": {"type": "string"},
                "taken": {"type": "string", "format": "date-time", "x_pdpp_role": "event-time"}}},
            "primary_key": ["id"],
            "selection": {"fields": True, "resources": True},
            "cursor_field": "taken",
            "consent_time_field": "taken",
        },
        {
            "name": "stops",
            "semantics": "mutable_state",
            "schema": {"type": "object", "required": ["id"], "properties": {
                "id": {"type": "string"},
                "spot": {"type": ["string", "null"], "x_pdpp_role": "primary-title"},
                "north": {"type": "number", "x_pdpp_role": "latitude"},
                "east": {"type": "number", "x_pdpp_role": "longitude"},
                "came": {"type": "string", "format": "date-time", "x_pdpp_role": "event-time"}}},
            "primary_key": ["id"],
            "selection": {"fields": True, "resources": True},
            "cursor_field": "came",
            "consent_time_field": "came",
        },
        {
            "name": "purchases",
            "semantics": "mutable_state",
            "schema": {"type": "object", "required": ["id"], "properties": {
                "id": {"type": "string"},
                "shop": {"type": "string", "x_pdpp_role": "primary-title"},
                "kind": {"type": "string", "x_pdpp_role": "category"},
                "paid": {"type": "number", "x_pdpp_type": "currency",
                         "x_pdpp_money": {"currency_field": "money", "unit": "major"}},
                "money": {"type": "string"},
                "on": {"type": "string", "format": "date", "x_pdpp_role": "event-time"}}},
            "primary_key": ["id"],
            "selection": {"fields": True, "resources": True},
            "cursor_field": "on",
            "consent_time_field": "on",
        },
        {
            "name": "runs",
            "semantics": "mutable_state",
            "schema": {"type": "object", "required": ["id"], "properties": {
                "id": {"type": "string"},
                "sport": {"type": "string", "x_pdpp_role": "primary-title"},
                "distance_m": {"type": "integer"},
                "rest_seconds": {"type": "integer"},
                "heart_rate": {"type": "integer"},
                "shoe": {"type": "string"},
                "note": {"type": "string", "x_pdpp_role": "secondary"},
                "began": {"type": "string", "format": "date-time", "x_pdpp_role": "event-time"}}},
            "primary_key": ["id"],
            "selection": {"fields": True, "resources": True},
            "cursor_field": "began",
            "consent_time_field": "began",
        },
    ],
}  # fmt: skip


@pytest.fixture
def tracker(world: World) -> str:
    """A source that nobody knew: its declared roles alone choose the layouts."""
    world.declare(TRACKER)
    world.connect("cin_track", "tracker", "Tracker")

    def sample(key: str, day: int, what: str, value: float, unit: str) -> Any:
        data = {"id": key, "what": what, "reading": value, "in": unit,
                "taken": f"2026-05-{day:02}T08:00:00Z"}  # fmt: skip
        return "cin_track", "samples", data

    def stop(key: str, spot: str | None, north: float, east: float) -> Any:
        data = {"id": key, "spot": spot, "north": north, "east": east,
                "came": "2026-05-04T08:00:00Z"}  # fmt: skip
        return "cin_track", "stops", data

    def purchase(key: str, day: str, kind: str, paid: float, money: str) -> Any:
        data = {"id": key, "shop": f"Shop {key}", "kind": kind, "paid": paid, "money": money,
                "on": day}  # fmt: skip
        return "cin_track", "purchases", data

    world.put(
        sample("a1", 4, "steps", 4000, "steps"), sample("a2", 4, "steps", 2000, "steps"),
        sample("a3", 5, "steps", 1000, "steps"), sample("b1", 4, "pulse", 60, "bpm"),
        sample("b2", 4, "pulse", 80, "bpm"), sample("b3", 9, "pulse", 50, "bpm"),
        stop("s1", "Library", 52.52, 13.40), stop("s2", "Library", 52.52, 13.40),
        stop("s3", "Lake", 52.60, 13.30), stop("s4", None, 91.0, 200.0),
        purchase("p1", "2026-05-02", "Food", -12.5, "EUR"),
        purchase("p2", "2026-05-31", "Food", -7.5, "EUR"),
        purchase("p3", "2026-05-30", "Pay", 900, "EUR"),
        purchase("p4", "2026-05-30", "Travel", -3000, "JPY"),
        purchase("p5", "2026-04-30", "Food", -99, "EUR"),
        ("cin_track", "runs", {"id": "r1", "sport": "running", "distance_m": 5200, "rest_seconds": 3900, "shoe": "Blue",
                               "began": "2026-05-04T06:00:00Z"}),
        ("cin_track", "runs", {"id": "r2", "sport": "hiking", "distance_m": 800, "heart_rate": 151, "shoe": "Red",
                               "note": "Humid", "began": "2026-06-07T06:00:00Z"}),
    )  # fmt: skip
    return "/records/cin_track"


def test_measures_are_charts_of_sums_and_of_ranges(tracker: str, alice: Browser) -> None:
    page = alice.open(f"{tracker}/samples/?month=2026-05")

    assert "Steps by day, 1 May 2026 to 31 May 2026 6,000 0" in page.text
    assert "Total 7,000 Average 3,500 Highest 6,000 From 3 values" in page.text
    assert "Pulse in bpm , by day, 1 May 2026 to 31 May 2026 80 bpm 50 bpm" in page.text
    assert "Average 63.3 Lowest 50 Highest 80 From 3 values" in page.text
    assert "Steps 4,000 steps 08:00" in page.text

    year = alice.open(page.link("2026"))
    assert "Total 7,000 Average 7,000 Highest 7,000" in year.text
    assert "No records in April 2026." in alice.open(f"{tracker}/samples/?month=2026-04").text


def test_units_are_words(tracker: str, world: World, alice: Browser) -> None:
    taken = "2026-06-04T08:00:00Z"
    world.put(*(("cin_track", "samples", {"id": key, "what": key, "reading": value, "in": unit,
                 "taken": taken}) for key, value, unit in
                (("steps", 12469.0, "count"), ("pulse", 61, "count/min"), ("sleep", 465, "min"))))  # fmt: skip
    page = alice.open(f"{tracker}/samples/?month=2026-06")

    for words in ("Steps 12,469 steps", "Pulse 61 per min", "Sleep 7 h 45 min"):
        assert words in page.text, words
    assert "to 30 June 2026 7.8 h" in page.text, "the axis of the chart"
    assert "Average 7 h 45 min" in page.text
    assert "Steps 12,469 steps" in alice.open("/day/2026-06-04").text


def test_a_night_belongs_to_the_day_on_which_it_ends(
    tracker: str, world: World, alice: Browser
) -> None:
    def night(key: str, taken: str, minutes: int) -> Any:
        data = {"id": key, "what": "sleep", "reading": minutes, "in": "steps", "taken": taken}
        return "cin_track", "samples", data

    world.put(night("n1", "2026-06-01T00:40:00Z", 501), night("n2", "2026-06-01T23:40:00Z", 381),
              night("n3", "2026-06-30T23:10:00Z", 900))  # fmt: skip
    page = alice.open(f"{tracker}/samples/?month=2026-06")

    assert "Total 882 Average 441 Highest 501 From 2 values" in page.text
    assert "Highest 900" in alice.open(f"{tracker}/samples/?month=2026-07").text
    world.put(night("n4", f"{timezone.localdate()}T00:40:00Z", 444))
    alice.http.defaults["HTTP_ACCEPT"] = "text/html"
    assert "Measured Sleep 444" in alice.open("/").text


def test_positions_are_a_list_of_places(tracker: str, alice: Browser) -> None:
    page = alice.open(f"{tracker}/stops/?month=2026-05")

    assert "Library 2 records, last 4 May 2026 Lake 1 record" in page.text
    near = alice.open(page.link("Lake"))
    assert "Only records at “ Lake ”." in near.text
    assert "08:00" in near.text
    assert [at for words, at in near.links if "/stops/s" in at] == [f"{tracker}/stops/s3"]
    assert "No records in May 2026." in alice.open(f"{tracker}/stops/?month=2026-05&place=0").text
    assert alice.open(f"{tracker}/stops/s3").link("52.6, 13.3") == "geo:52.6,13.3"
    assert "geo:" not in alice.open(f"{tracker}/stops/s4").html, "no place on earth"


def test_amounts_are_sums_by_month_and_category_of_each_currency(
    tracker: str, alice: Browser
) -> None:
    page = alice.open(f"{tracker}/purchases/?month=2026-05")

    assert "In 0.00 JPY Out 3,000.00 JPY In minus out -3,000.00 JPY" in page.text
    assert "In 900.00 EUR Out 20.00 EUR In minus out 880.00 EUR" in page.text
    assert "By category, in JPY Category In Out Travel 3,000.00" in page.text
    euros = alice.open(page.link("EUR"))
    assert "By category, in EUR Category In Out Pay 900.00 Food 20.00" in euros.text
    assert 'aria-label="April 2026: in 0.00, out 99.00 EUR"' in euros.html
    assert "900 EUR 0 900 EUR" in euros.text, "the scale"
    assert "Money out, in EUR by month, July 2025 to June 2026" in euros.text


def test_sums_cover_a_month_with_more_bookings_than_a_page(world: World, alice: Browser) -> None:
    world.put(*((BANK, "transactions", {"id": f"x{n:03}", "date": "2026-08-05", "amount": -100,
                                        "currency": "EUR"}) for n in range(120)))  # fmt: skip
    page = alice.open(f"/records/{BANK}/transactions/?month=2026-08")

    assert "Out 120.00 EUR" in page.text
    assert page.has_link("Earlier")


def test_a_day_with_many_values_folds_them_and_shows_more_of_one_stream(
    tracker: str, world: World, alice: Browser
) -> None:
    world.put(*(("cin_track", "samples", {"id": f"x{n}", "what": "pulse", "reading": n, "in": "bpm",
                 "taken": f"2026-07-01T08:{n:02}:00Z"}) for n in range(50)))  # fmt: skip
    world.put(("cin_track", "stops", {"id": "s9", "spot": "Bakery", "north": 52.5, "east": 13.4,
                                      "came": "2026-07-01T08:05:30Z"}))  # fmt: skip
    page = alice.open("/day/2026-07-01")
    assert page.text.count("Tracker Samples ·") == 1
    assert "Tracker Samples · 40 records" in page.text
    assert "08:05 Tracker Stops Bakery" in page.text

    more = alice.open(page.link("Samples, Tracker"))
    assert "Tracker Samples · 50 records" in more.text
    assert "Tracker Samples · 40 records" in alice.open(more.link("Show the whole day")).text


def test_other_records_show_a_few_values(tracker: str, alice: Browser) -> None:
    page = alice.open(f"{tracker}/runs/")

    assert (
        "running Distance: 5.2 km \N{MIDDLE DOT} Rest: 1 h 5 min \N{MIDDLE DOT} Shoe: Blue"
        in page.text
    )
    assert "hiking Distance: 800 m \N{MIDDLE DOT} Heart rate: 151 bpm Humid" in page.text


def test_what_a_list_showed_is_on_record(world: World, alice: Browser) -> None:
    alice.open(f"/records/{BANK}/transactions/?month=2026-01")

    answer = alice.http.get("/activity/export.json?client=you")
    [entry] = json.loads(b"".join(answer.streaming_content))
    assert {each["record_key"] for each in entry["records"]} == {"b1", "b2"}


@pytest.mark.parametrize(
    "path", ["cin_none/messages/", f"{PERSONAL}/none/", f"{BANK}/messages/", "x/y/"]
)
def test_a_stream_that_is_not_there_is_not_found(world: World, alice: Browser, path: str) -> None:
    assert alice.open(f"/records/{path}").status == 404


def test_a_record_says_who_can_see_it_and_who_has(world: World, alice: Browser) -> None:
    page = alice.open(f"/records/{BANK}/transactions/b1")
    assert "-2,340.00 EUR" in page.text
    assert "Charlie Active" in page.text
    assert "Bob" not in page.text
    assert "Nobody before you." in page.text

    world.get("/v1/streams/transactions/records", "charlie")

    again = alice.open(f"/records/{BANK}/transactions/b1")
    assert "Who has seen it See each time" in again.text
    assert "Charlie 1 time, last" in again.text
    assert "You 1 time" in again.text
    assert "stream=transactions" in again.link("Erase this record")


def test_html_of_a_declared_field_is_framed(talk: str, alice: Browser) -> None:
    page = alice.open(f"{talk}/meetings/t1")

    [frame] = [given for tag, given in page.elements if tag == "iframe"]
    assert frame["src"] == "/html/cin_talk/meetings?key=t1"
    assert "frame-src 'self'" in page.headers["Content-Security-Policy"]


def test_related_records_are_shown(world: World, alice: Browser) -> None:
    page = alice.open(f"/records/{PERSONAL}/messages/m1")

    assert f"/records/{PERSONAL}/threads/t1" in [at for _, at in page.links]


def test_a_day_is_in_one_order_with_earlier_years(world: World, alice: Browser) -> None:
    world.put((WORK, "messages", {"id": "y", "subject": "A year before",
                                  "received_at": "2025-02-01T07:00:00Z"}))  # fmt: skip
    page = alice.open("/day/2026-02-01")

    assert "Sunday, 1 February 2026" in page.text
    assert page.text.index("Budget review") < page.text.index("The budget deck is ready")
    assert "On this day in earlier years 2025 A year before" in page.text
    assert (
        alice.open(page.link("2 Feb \N{SINGLE RIGHT-POINTING ANGLE QUOTATION MARK}")).text.count(
            "Lunch at the canal?"
        )
        == 1
    )
    assert alice.open("/day?day=2026-02-01").text == page.text


@pytest.mark.parametrize("day", ["2026-02-30", "0001-01-01", "9999-12-31", "x"])
def test_a_day_that_cannot_be_is_not_found(world: World, alice: Browser, day: str) -> None:
    assert alice.open(f"/day/{day}").status == 404


def test_a_leap_day_and_an_empty_day(world: World, alice: Browser) -> None:
    assert "Nothing on this day." in alice.open("/day/2028-02-29").text


@pytest.fixture
def threads(world: World) -> str:
    """The cast's mail with a declared thread of three messages."""
    document = copy.deepcopy(MAIL)
    document["version"] = "1.1.0"
    fields = document["streams"][0]["schema"]["properties"]
    fields["thread_id"]["x_pdpp_role"] = "thread"
    world.declare(document)
    world.put((PERSONAL, "messages", {"id": "m9", "thread_id": "t1", "subject": "Re: Lease signed",
        "from_name": "Eva Lang", "received_at": "2026-01-13T10:00:00Z",
        "body_text": "Thanks! " * 9_000}))  # fmt: skip
    return f"/records/{PERSONAL}/messages/"


def test_a_thread_is_one_page_from_the_mailbox_and_from_a_mail(
    threads: str, alice: Browser
) -> None:
    [size] = {at for words, at in alice.open(threads).links if words.startswith("3 messages in")}
    page = alice.open(size)

    assert "3 messages, oldest first." in page.text
    texts = ("we signed the lease", "I will transfer", "Thanks!")
    assert sorted(texts, key=page.text.index) == list(texts)
    assert "more characters. Open the message" in page.text
    assert len(page.html) < 100_000
    assert alice.open(f"{threads}m9").link("Whole thread") == size
    assert not alice.open(f"{threads}m3").has_link("Whole thread")
    assert alice.open(f"{threads}?thread=none").status == 404


def test_a_chat_has_pages_in_both_directions(talk: str, world: World, alice: Browser) -> None:
    world.put(*(("cin_talk", "lines", {"id": f"n{n:03}", "room": "r1", "who": "Jonas",
                 "words": f"Line {n}.", "said_at": f"2026-06-01T00:{n // 2:02}:00Z"})
                for n in range(110)))  # fmt: skip
    page = alice.open(f"{talk}/lines/?in=r1")
    seen = [page.text]
    while page.has_link("Earlier messages"):
        page = alice.open(page.link("Earlier messages"))
        seen.append(page.text)
    assert len(seen) == 3
    assert "Tomatoes?" in page.text
    back = [page.text]
    while page.has_link("Later messages"):
        page = alice.open(page.link("Later messages"))
        back.append(page.text)

    assert len(back) == 3
    assert sum(text.count("Line ") for text in back) == 110
    assert "Bread is out." not in "".join(back)
    assert not alice.open(page.link("Earlier messages")).has_link("none")


def test_a_message_shows_its_files(talk: str, world: World, alice: Browser) -> None:
    document = copy.deepcopy(TALK)
    document["version"] = "1.1.0"
    lines = document["streams"][1]
    lines["relationships"].append({"name": "files", "stream": "files", "foreign_key": "line",
                                   "cardinality": "has_many"})  # fmt: skip
    lines["query"] = {"expand": [{"name": "files", "default_limit": 5, "max_limit": 9}]}
    fields = {"id": {"type": "string"}, "line": {"type": "string"},
              "file": {"type": "string", "x_pdpp_role": "primary-title"}}  # fmt: skip
    document["streams"].append({
        "name": "files", "semantics": "mutable_state", "primary_key": ["id"],
        "schema": {"type": "object", "required": ["id"], "properties": fields},
        "selection": {"fields": True, "resources": True}})  # fmt: skip
    world.declare(document)
    world.put(("cin_talk", "files", {"id": "f1", "line": "l1", "file": "seeds.pdf"}))

    page = alice.open(f"{talk}/lines/?in=r1")
    assert page.link("seeds.pdf") == "/records/cin_talk/files/f1"


def test_a_day_of_places_shows_them_in_order_and_for_how_long(world: World, alice: Browser) -> None:
    world.declare(json.loads(PLACES.read_text()))
    world.connect("cin_phone", "imported-places", "Phone")

    def visit(key: str, start: str, end: str, name: str | None = None, **more: Any) -> Any:
        data = {"id": key, "kind": "visit", "name": name, "started_at": f"2026-05-{start}:00Z",
                "ended_at": f"2026-05-{end}:00Z", "latitude": 52.52, "longitude": 13.4}  # fmt: skip
        return "cin_phone", "visits", data | more

    journey: dict[str, Any] = {
        "kind": "in train",
        "end_latitude": 52.6,
        "end_longitude": 13.3,
        "distance_m": 9400,
    }
    world.put(
        visit("v1", "04T08:00", "04T09:15", "Library"),
        visit("v2", "04T09:15", "04T09:55", **journey),
        visit("v3", "04T10:00", "05T07:00", "Lake", latitude=52.6, longitude=13.3),
        visit("v4", "06T10:00", "06T10:45", "Café", latitude=52.521, longitude=13.401),
        visit("v5", "08T10:00", "08T18:00", "Beach", latitude=-33.9, longitude=151.3),
    )
    page = alice.open("/records/cin_phone/visits/?month=2026-05")

    assert "Library until 09:15, 1 h 15 min 08:00" in page.text
    assert "In train until 09:55, 40 min Distance: 9.4 km 09:15" in page.text
    assert "Lake until 5 May 2026, 07:00, 21 h" in page.text
    assert page.text.index("Library until") < page.text.index("In train"), "in the order of the day"
    assert "Library 1 record, last 4 May 2026" in page.text, "however far another place is away"
    day = alice.open(page.link("Monday, 4 May 2026"))
    assert "08:00 Phone Visits and journeys Library until 09:15, 1 h 15 min" in day.text
    of_library = alice.open(page.link("Library"))
    assert "Café" not in of_library.text.partition("Only records at")[2]
    assert "5 May, 07:00, 21 h" in alice.open("/records/cin_phone/visits/v3").text


def test_visits_are_listed_between_the_other_records_of_a_day(world: World, alice: Browser) -> None:
    world.declare(json.loads(PLACES.read_text()))
    world.connect("cin_phone", "imported-places", "Phone")
    world.put(*(
        ("cin_phone", "visits", {"id": f"v{hour}", "kind": "visit", "name": f"Stop {hour}",
         "started_at": f"2026-05-04T{hour:02}:00:00Z"}) for hour in range(8, 18)
    ), (PERSONAL, "messages", mail("m9", "2026-05-04T12:30:00Z", subject="Tickets")))  # fmt: skip
    page = alice.open("/day/2026-05-04")

    assert page.text.index("Stop 12") < page.text.index("Tickets") < page.text.index("Stop 13")
    assert "10 records" not in page.text
