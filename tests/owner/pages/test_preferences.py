"""Time zone and language: found from the browser at set-up, kept as settings, used on every page."""

import pytest
from django.test import Client
from django.urls import reverse

from evidence.models.owners import Owner
from owner.preferences import first_weekday
from tests.owner.pages.browser import Browser
from tests.owner.pages.test_browse import TALK
from tests.owners import set_up_link
from tests.world import BANK, PERSONAL, World

pytestmark = pytest.mark.slow

NEW_YORK, TOKYO = "America/New_York", "Asia/Tokyo"
HOLIDAYS = {
    "protocol_version": "0.1.0",
    "connector_id": "https://registry.example/connectors/holidays",
    "connector_key": "holidays",
    "version": "1.0.0",
    "display_name": "Holidays",
    "streams": [
        {
            "name": "days",
            "semantics": "mutable_state",
            "schema": {"type": "object", "required": ["id"], "properties": {
                "id": {"type": "string"},
                "title": {"type": "string", "x_pdpp_role": "primary-title"},
                "starts": {"type": "string", "format": "date-time", "x_pdpp_role": "event-time"},
                "ends": {"type": "string", "format": "date-time"},
                "is_all_day": {"type": "boolean"}}},
            "primary_key": ["id"],
            "selection": {"fields": True, "resources": True},
            "cursor_field": "starts",
            "consent_time_field": "starts",
            "query": {"range_filters": {"starts": ["gte", "lt"], "ends": ["gte", "lt"]}},
        }
    ],
}  # fmt: skip


def live_in(zone: str) -> None:
    Owner.unscoped.update(time_zone=zone)


def set_up(client: Client, **answers: str) -> str:
    address = reverse("set-up", args=[set_up_link()])
    browser = {"Accept-Language": "de-AT,de;q=0.9,en;q=0.5"}
    shown = client.get(address, headers=browser)
    password = {"password": "correct horse battery", "again": "correct horse battery"}
    client.post(address, {"username": "alice", **password, **answers}, headers=browser)
    return shown.content.decode()


@pytest.mark.django_db
def test_set_up_proposes_the_language_of_the_browser_and_keeps_the_answers(client: Client) -> None:
    shown = set_up(client, time_zone="Europe/Vienna", language="de-AT")

    assert '<option value="de-AT" selected>German (AT)</option>' in shown
    assert "owner/preferences.js" in shown
    owner = Owner.unscoped.get()
    assert (owner.time_zone, owner.language) == ("Europe/Vienna", "de-AT")
    assert owner.country == "AT"


@pytest.mark.django_db
def test_set_up_without_a_script_leaves_utc(client: Client) -> None:
    set_up(client)

    assert Owner.unscoped.get().time_zone == "UTC"


def test_the_settings_page_changes_both_and_refuses_an_unknown_zone(
    world: World, alice: Browser
) -> None:
    form = alice.open("/settings").form
    form.fill("time_zone", "Middle/Earth")
    refused = alice.press(form)
    assert refused.status == 422
    assert "Use the name of a time zone" in refused.text

    form.fill("time_zone", TOKYO)
    form.fill("language", "ja")
    form.fill("country", "JP")
    assert "Your settings are saved." in alice.press(form).text
    assert "Times are in Asia/Tokyo." in alice.open("/day/2026-01-10").text


def test_a_record_is_on_the_day_of_the_owners_clock(world: World, alice: Browser) -> None:
    world.put((PERSONAL, "messages", {"id": "late", "subject": "Late",
                                      "received_at": "2026-03-31T22:30:00Z"}))  # fmt: skip
    live_in(TOKYO)

    assert "07:30 Personal mail Messages Late" in alice.open("/day/2026-04-01").text
    assert "Messages Late" not in alice.open("/day/2026-03-31").text
    assert (
        "Wednesday, 1 April 2026 , 07:30" in alice.open(f"/records/{PERSONAL}/messages/late").text
    )
    assert "1 record" in alice.open("/search?q=late&period=2026-04").text
    assert "Nothing matches" in alice.open("/search?q=late&period=2026-03").text


@pytest.mark.parametrize("zone", [NEW_YORK, TOKYO])
def test_dates_without_a_time_stay_on_their_day(world: World, alice: Browser, zone: str) -> None:
    live_in(zone)

    page = alice.open(f"/records/{BANK}/transactions/?month=2026-01")
    assert "In 4,100.00 EUR Out 2,340.00 EUR" in page.text
    assert "Eva Lang -2,340.00 EUR" in alice.open("/day/2026-01-13").text


@pytest.mark.parametrize("zone", ["UTC", NEW_YORK, TOKYO])
@pytest.mark.parametrize("offset", ["Z", "+02:00"])
def test_all_day_events_are_on_their_day_in_every_zone(
    world: World, alice: Browser, zone: str, offset: str
) -> None:
    world.declare(HOLIDAYS)
    world.connect("cin_days", "holidays", "Holidays")
    day = {"id": "d1", "title": "May Day", "is_all_day": True,
           "starts": f"2026-05-01T00:00:00{offset}", "ends": f"2026-05-02T00:00:00{offset}"}  # fmt: skip
    world.put(("cin_days", "days", day))
    live_in(zone)

    assert "1 Friday all day May Day" in alice.open("/records/cin_days/days/?month=2026-05").text
    assert "May Day" not in alice.open("/records/cin_days/days/?month=2026-04").text
    assert "May Day" in alice.open("/day/2026-05-01").text
    assert "May Day" not in alice.open("/day/2026-04-30").text
    assert "May Day" not in alice.open("/day/2026-05-02").text


def test_events_are_in_the_month_of_the_owners_clock(world: World, alice: Browser) -> None:
    world.declare(TALK)
    world.connect("cin_talk", "talk", "Talk")
    world.put(("cin_talk", "meetings", {"id": "t1", "topic": "Budget",
               "begins": "2026-04-30T20:00:00Z", "ends": "2026-04-30T21:00:00Z"}))  # fmt: skip
    live_in(TOKYO)

    page = alice.open("/records/cin_talk/meetings/?month=2026-05")
    assert "1 Friday 05:00\N{EN DASH}06:00 Budget" in page.text


@pytest.mark.parametrize("zone", [NEW_YORK, TOKYO])
def test_times_at_the_ends_of_the_calendar_break_no_page(
    world: World, alice: Browser, zone: str
) -> None:
    world.put(*((PERSONAL, "messages", {"id": at[:4], "subject": "Lease", "received_at": at})
                for at in ("0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z")))  # fmt: skip
    live_in(zone)

    alice.http.defaults["HTTP_ACCEPT"] = "text/html"
    pages = ("/", "/search?q=lease", f"/records/{PERSONAL}/messages/",
             f"/records/{PERSONAL}/messages/9999", f"/records/{PERSONAL}/messages/0001",
             "/day/9998-12-31", "/day/0002-01-01")  # fmt: skip
    assert [alice.open(each).status for each in pages] == [200] * len(pages)


def test_programs_read_utc_whatever_the_owner_lives_in(world: World) -> None:
    before = world.get("/v1/streams/messages/records", "bob", connection_id=PERSONAL).body
    live_in(TOKYO)

    assert world.get("/v1/streams/messages/records", "bob", connection_id=PERSONAL).body == before


def test_weeks_begin_as_the_language_has_it() -> None:
    assert [first_weekday(language) for language in ("", "de-AT", "en", "pt")] == [0, 0, 6, 6]
