"""The home page: what is here, what apps read, what needs attention, and the demo data apart."""

import re
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client as HttpClient
from django.utils import timezone

from evidence.access.grant_terms import StreamRequest
from evidence.access.grants import GrantRequest, issue, revoke_client
from evidence.ledger.disclosures import disclosures_of_record, read_disclosures
from evidence.models.connections import Connection
from evidence.models.grants import Grant
from evidence.models.owners import Owner
from evidence.write.record_erasure import erase_connection
from importers.models import ImportRun
from operations.models import Job
from tests.ledger.test_tripwire import filled, read
from tests.owner.pages.browser import Browser
from tests.world import BANK, PERSONAL, WORK, World

MESSAGES = "/v1/streams/messages/records"


def html(alice: Browser, address: str = "/") -> str:
    return alice.http.get(address, headers={"Accept": "text/html"}).content.decode()


@pytest.fixture
def home(alice: Browser) -> Browser:
    alice.http.defaults["HTTP_ACCEPT"] = "text/html"
    return alice


def test_it_shows_each_connection_with_its_records_and_dates(world: World, home: Browser) -> None:
    page = home.open("/")

    assert "13 records in 4 connections" in page.text
    assert "Personal mail Mail · 6 records 1 Jun 2025 \N{EN DASH} 5 Mar 2026" in page.text
    assert 'aria-label="Records by month in Bank account: 3 records, from 13 January 2026' in (
        page.html
    )
    assert page.link("Transactions") == f"/records/{BANK}/transactions/"


def test_it_counts_again_after_an_import_and_an_erasure(world: World, home: Browser) -> None:
    assert "Bank account Bank · 3 records" in home.open("/").text

    world.put((BANK, "transactions", {"id": "b4", "date": "2026-10-20", "amount": 1}))

    assert (
        "Bank account Bank · 4 records 13 Jan 2026 \N{EN DASH} 20 Oct 2026" in home.open("/").text
    )


def test_records_of_one_day_have_one_date(world: World, home: Browser) -> None:
    world.connect("cin_second", "account", "Second account")
    world.put(("cin_second", "transactions", {"id": "s1", "date": "2026-10-20", "amount": 1}))

    assert re.search(r"Second account Bank · 1 record 20 Oct 2026 \d+ days", home.open("/").text)


@pytest.mark.parametrize("year", [9999, timezone.localdate().year + 2])
def test_a_date_that_cannot_be_does_not_stretch_the_time(
    world: World, home: Browser, year: int
) -> None:
    world.put((PERSONAL, "messages", {"id": "far", "received_at": f"{year}-12-31T00:00:00Z"}))

    assert "Mail · 7 records 1 Jun 2025 \N{EN DASH} 5 Mar 2026" in home.open("/").text


def test_a_few_much_older_records_do_not_stretch_the_time(world: World, home: Browser) -> None:
    world.put((PERSONAL, "messages", {"id": "old", "received_at": "2018-03-01T00:00:00Z"}))
    assert "March 2018 to" in home.open("/").text, "one of few"
    world.put(*(
        (PERSONAL, "messages", {"id": f"new-{number}", "received_at": "2026-03-01T00:00:00Z"})
        for number in range(400)
    ))  # fmt: skip

    page = home.open("/")
    assert "March 2018 to" not in page.text
    assert "1 Mar 2018 \N{EN DASH} 5 Mar 2026" in page.text


def test_months_are_those_of_the_time_zone(world: World, home: Browser) -> None:
    Owner.unscoped.update(time_zone="Pacific/Kiritimati")  # 14 hours ahead
    for number, at in enumerate(["2026-06-30T10:00:00Z", "2026-07-31T09:59:00Z"] * 4):
        world.put((PERSONAL, "messages", {"id": f"july-{number}", "received_at": at}))
    for number, at in enumerate(["2026-06-30T09:59:00Z", "2026-07-31T10:00:00Z"] * 3):
        world.put((PERSONAL, "messages", {"id": f"other-{number}", "received_at": at}))
    world.put((PERSONAL, "messages", {"id": "no time"}))

    text = home.open("/").text
    assert "Mail · 21 records" in text
    assert "at most 8 records a month" in text


def test_it_says_what_apps_read_and_not_what_the_owner_read(world: World, home: Browser) -> None:
    assert "No app read anything." in home.open("/").text

    world.get(MESSAGES, "bob", connection_id=PERSONAL)
    world.get(MESSAGES, "alice", connection_id=PERSONAL)

    page = home.open("/")
    assert re.search(r"Bob \d+ records in 1 answer, from “Personal mail” ?\.", page.text)
    assert page.link("Activity of Bob").endswith("client=" + world.packages["bob"].client_id)


def test_records_of_removed_connections_are_not_said_to_be_of_others(
    world: World, home: Browser
) -> None:
    for connection_id in (PERSONAL, WORK):
        world.get(MESSAGES, "dora", connection_id=connection_id)
    erase_connection(WORK)

    assert "from “Personal mail” and 1 removed connection" in home.open("/").text


def test_a_refusal_before_the_owner_granted_more_needs_no_attention(
    world: World, home: Browser
) -> None:
    world.get("/v1/streams/transactions/records", "bob")
    assert "1 call of Bob was refused" in home.open("/").text

    request = GrantRequest(connection_ids=[BANK], streams=[StreamRequest(name="transactions")])
    issue([request], client=world.packages["bob"].client, now=timezone.now())

    assert "was refused" not in home.open("/").text


def test_it_says_what_needs_attention(world: World, home: Browser) -> None:
    nothing = "What needs attention There is no backup yet. Create a recovery key first. Backups"
    assert f"{nothing} Last backup: never" in home.open("/").text
    soon = timezone.now() + timedelta(days=3)
    world.grant("eve", GrantRequest(connection_ids=[BANK], streams=[StreamRequest(name="transactions")],
                                    expires_at=soon))  # fmt: skip
    world.get("/v1/streams/transactions/records", "bob")
    ImportRun.unscoped.create(
        run_id="run_1", owner_id=world.owner_id, connection_id=BANK, kind="csv", label="june.csv",
        fingerprint="f", status="stopped", started_at=timezone.now(), updated_at=timezone.now(),
    )  # fmt: skip

    page = home.open("/")

    assert "1 call of Bob was refused in the last 7 days." in page.text
    revoke_client(world.packages["bob"].client_id, now=timezone.now())
    assert "1 call of Bob" not in home.open("/").text, "an app that is disconnected"
    assert "The import of june.csv stopped before its end." in page.text
    assert "Access of Eve to Bank ends on" in page.text


def test_it_tells_an_administrator_of_jobs_that_nobody_does(world: World, home: Browser) -> None:
    Job.unscoped.create(name="upkeep", due_at=timezone.now() - timedelta(hours=1))
    told = "Background jobs have been waiting since"
    assert told in home.open("/").text

    Owner.unscoped.update(is_administrator=False)
    assert told not in home.open("/").text


def test_a_tripwire_is_the_first_thing_that_needs_attention(
    world: World, home: Browser, settings: Any
) -> None:
    read(filled(world, settings), 30)

    page = home.open("/")

    assert "What needs attention Access of Bob to Mail was paused automatically" in page.text
    assert page.text.count("was paused automatically") == 1
    [dismiss] = [each for each in page.forms if each.action.endswith("/connected/seen")]
    assert "paused automatically" not in home.press(dismiss).text
    assert "What needs attention There is no backup yet." in home.open("/").text


def test_first_steps_are_offered_until_they_are_taken(world: World, home: Browser) -> None:
    Connection.unscoped.update(identities=[])
    assert "First steps 2 of 6 done" in home.open("/").text
    assert home.open("/").link("Tell which addresses are yours") == "/connections"

    Connection.unscoped.filter(pk=PERSONAL).update(identities=["alice@example.org"])
    assert "3 of 6 done" in home.open("/").text
    assert not home.open("/").has_link("Tell which addresses are yours")


def test_home_shows_today_and_this_day_in_earlier_years(
    world: World, home: Browser, django_assert_max_num_queries: Any
) -> None:
    assert "Nothing of today is here. The latest day with records is 5 March 2026" in (
        home.open("/").text
    )
    today = timezone.localdate()
    past = today.replace(year=today.year - 4)
    world.put(
        (PERSONAL, "messages", {"id": "t1", "received_at": f"{today}T00:00:00Z", "subject": "Now"}),
        (WORK, "messages", {"id": "t1", "received_at": f"{today}T00:01:00Z", "subject": "Later"}),
        (PERSONAL, "messages", {"id": "t4", "received_at": f"{past}T10:00:00Z", "subject": "Then"}),
        (BANK, "transactions", {"id": "t1", "date": str(today), "amount": -512, "currency": "EUR"}),
    )
    home.open("/")  # counts months

    with django_assert_max_num_queries(50):
        page = home.open("/")

    assert "Today New mail 00:01 Later 00:00 Now Money Spent 5.12 EUR" in page.text
    assert f"On this day {past.year} · Then" in page.text
    assert {
        each.route for each in read_disclosures(disclosures_of_record(PERSONAL, "messages", "t4"))
    } == {"admin home"}
    [to] = [to for _, to in home.open("/activity?client=you").links if "/activity/reading" in to]
    assert "home page · 4 records" in home.open(to).text


def test_demo_data_alone_is_named_and_needs_no_backup(world: World, home: Browser) -> None:
    Connection.unscoped.update(demo=True)
    page = home.open("/")
    assert "So far, only the demo data of a fictional person." in page.text
    assert "Nothing needs you." in page.text
    assert "Last backup" not in page.text

    Connection.unscoped.filter(pk=BANK).update(demo=False)
    page = home.open("/")
    assert "There is no backup yet." in page.text
    assert "Nothing needs you." not in page.text


def test_demo_data_is_separate_and_can_be_removed(world: World, home: Browser) -> None:
    Connection.unscoped.filter(pk=BANK).update(demo=True)
    page = home.open("/")
    assert "10 records in 3 connections" in page.text
    assert "3 demo records" in page.text

    question = home.open(page.link("Remove the demo data"))
    assert "Bank account" in question.text
    assert "Personal mail" not in question.text
    answer = home.press(question.form)

    assert "The demo data is removed." in answer.text
    assert not Connection.unscoped.filter(pk=BANK).exists()
    assert Connection.unscoped.filter(pk=PERSONAL).exists()
    assert world.get("/v1/streams/transactions/records", "charlie").status == 403


@pytest.mark.parametrize(
    "address",
    [
        f"/records/{PERSONAL}/messages/",
        f"/records/{PERSONAL}/messages/m1",
        "/search?q=lease",
        "/day/2026-01-10",
        "/connections",
        "/admin/evidence/grant/add/",
    ],
)
def test_demo_records_have_a_badge_everywhere(world: World, home: Browser, address: str) -> None:
    assert "demo" not in home.open(address).text.lower()

    Connection.unscoped.filter(pk=PERSONAL).update(demo=True)

    page = home.open(address)
    assert ">Demo<" in page.html or "Personal mail (demo)" in page.text


@pytest.mark.parametrize(
    ("address", "heading"),
    [("/search?q=lease", " records Demo"), ("/day/2026-01-10", "10 January 2026 Demo")],
)
def test_a_list_of_demo_records_alone_has_one_badge(
    world: World, home: Browser, address: str, heading: str
) -> None:
    world.put((WORK, "messages", {"id": "l1", "received_at": "2026-01-10T10:00:00Z",
               "subject": "Lease of the office"}))  # fmt: skip
    Connection.unscoped.filter(pk=PERSONAL).update(demo=True)
    mixed = home.open(address)
    Connection.unscoped.update(demo=True)
    alone = home.open(address)

    assert "Personal mail Demo" in mixed.text
    assert heading not in mixed.text
    assert heading in alone.text
    assert alone.html.count(">Demo<") == 1


@pytest.mark.parametrize(
    "address", ["/", "/search", "/settings", "/connected", "/accounts", "/tokens",
                "/imports"]
)  # fmt: skip
def test_every_page_has_the_search(world: World, home: Browser, address: str) -> None:
    [search] = [each for each in home.open(address).forms if each.action == "/search"]
    search.fill("q", "lease")

    assert "Lease signed" in home.press(search).text


def test_nobody_else_sees_it(world: World) -> None:
    assert "Personal mail" not in html(Browser())
    for address in ("/search?q=lease", "/day/2026-01-10", f"/records/{BANK}/transactions/",
                    "/demo/remove"):  # fmt: skip
        answer = HttpClient().get(address)
        assert answer.status_code == 302, address
        assert answer.headers["Location"].startswith("/login?next="), address
    assert Grant.unscoped.count() > 0
