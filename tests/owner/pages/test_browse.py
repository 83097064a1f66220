"""Browsing a stream in the layout that its declared roles choose, and one record as what it is."""

from typing import Any

import pytest

from tests.owner.pages.browser import Browser
from tests.world import BANK, PERSONAL, WORK, World

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


def test_events_are_a_month_and_an_agenda(talk: str, alice: Browser) -> None:
    page = alice.open(f"{talk}/meetings/")
    assert "May 2026" in page.text
    assert "4 Monday 09:00\N{EN DASH}10:30 Budget" in page.text

    june = alice.open(page.link("June \N{SINGLE RIGHT-POINTING ANGLE QUOTATION MARK}"))
    assert "No events in June 2026." in june.text
    assert "Budget" not in june.text


def test_bookings_have_sums_by_month(world: World, alice: Browser) -> None:
    page = alice.open(f"/records/{BANK}/transactions/?month=2026-01")

    assert "In 4,100.00 EUR Out 2,340.00 EUR Balance 1,760.00 EUR" in page.text
    assert "Acme GmbH" in page.text
    assert 'aria-label="February 2026: in 4,100.00, out 0.00 EUR"' in page.html


def test_what_a_list_showed_is_on_record(world: World, alice: Browser) -> None:
    alice.open(f"/records/{BANK}/transactions/?month=2026-01")

    page = alice.open("/admin/evidence/connection/disclosures/?client=you")
    assert page.has_link("b1")
    assert page.has_link("b2")
    assert not page.has_link("b3")


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
    assert "Charlie 1 time, last" in again.text
    assert "You 1 time" in again.text
    assert "stream=transactions" in again.link("Erase this record")


def test_html_is_sanitized_and_framed(talk: str, alice: Browser) -> None:
    page = alice.open(f"{talk}/meetings/t1")

    [frame] = [given for tag, given in page.elements if tag == "iframe"]
    assert frame["sandbox"] in ("", None)
    assert frame["srcdoc"] == ('<h2>Agenda</h2><p>Budget</p><a rel="noopener noreferrer">open</a>')
    assert "script-src 'self'" in page.headers["Content-Security-Policy"]


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
