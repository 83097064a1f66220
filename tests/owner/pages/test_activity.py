"""The owner sees in words who read what, down to the record, and can export it."""

import csv
import json
import re
from collections.abc import Iterator
from datetime import timedelta
from io import StringIO
from typing import Any
from urllib.parse import urlencode

import pytest
from django.core.cache import cache
from django.core.management import call_command
from django.test import Client as HttpClient
from django.utils import timezone
from time_machine import Traveller

from evidence.access.quotas import set_quotas
from evidence.ledger import disclosures
from evidence.ledger.checkpoints import sign_entries
from evidence.ledger.disclosures import (
    disclosures_of_record,
    read_disclosures,
    recount_shown_records,
)
from evidence.ledger.verification import verify_daily
from evidence.models.clients import Client
from evidence.models.connections import Connection
from evidence.models.owners import Owner
from evidence.write.record_erasure import delete_record
from owner.activity.activity_page import Share
from tests.ledger.test_whole_or_not import tamper
from tests.owner.pages.browser import Browser
from tests.world import NOW, PERSONAL, WORK, World

PAGE = "/activity"
RECORD = "/v1/streams/messages/records/m1"
MESSAGES = "/v1/streams/messages/records"
PLACE = {"connection": PERSONAL, "stream": "messages", "key": "m1"}


@pytest.fixture(autouse=True)
def _empty_cache() -> Iterator[None]:
    cache.clear()
    yield
    cache.clear()


def export(browser: Browser, kind: str, **query: str) -> str:
    answer = browser.http.get(f"/activity/export.{kind}", query)
    return b"".join(answer.streaming_content).decode()


def table(browser: Browser, **query: str) -> list[dict[str, str]]:
    return list(csv.DictReader(StringIO(export(browser, "csv", **query))))


def lines(browser: Browser, address: str = PAGE) -> list[tuple[str, str]]:
    """Return text and address of each reading on the page."""
    found = browser.open(address).links
    return [(said, to) for said, to in found if "/activity/reading" in to]


def test_a_reading_is_told_in_words_and_opens_to_the_records(
    world: World, alice: Browser, time_machine: Traveller
) -> None:
    time_machine.move_to("2026-11-24T09:12:10Z", tick=False)
    for minute in range(3):
        time_machine.move_to(f"2026-11-24T09:{12 + minute * 4}:10Z", tick=False)
        world.get("/v1/search", q="lease", connection_id=PERSONAL)
    shown = world.get(MESSAGES, connection_id=PERSONAL, limit=2)

    page = alice.open(PAGE)
    [(said, to)] = lines(alice)
    found = int(re.search(r"read (\d+) messages", said).group(1))  # type: ignore[union-attr]
    assert f"Bob read {found} messages from Personal mail between 09:12 and 09:20," in said
    assert said.endswith("in three searches and one list.")
    assert "Tuesday, 24 November 2026" in page.text

    opened = alice.open(to)
    titles = {record["id"]: record["data"]["subject"] for record in shown.body["data"]}
    assert all(title in opened.text for title in titles.values())
    assert "rest search" in opened.text
    assert "Personal mail : messages ( " in opened.text
    assert opened.has_link("Bob")


def test_a_reading_says_how_many_records_a_number_covers(world: World, alice: Browser) -> None:
    counted = world.get("/v1/streams/messages/aggregate", "dora", metric="count",
                        connection_id=PERSONAL).body["value"]  # fmt: skip
    alice.open(PAGE)
    [(_, to)] = lines(alice)
    assert f"aggregate · 0 records · numbers over {counted} records" in alice.open(to).text


def test_a_reading_counts_different_records_also_of_one_connection(
    world: World, alice: Browser
) -> None:
    for _ in range(2):
        found = world.get("/v1/search", "dora", q="lease OR deposit OR budget", limit=100)
    places = [each["connection_id"] for each in found.body["data"]]
    assert len(set(places)) > 1
    [(said, _)] = lines(alice)
    assert sum(map(int, re.findall(r"(\d+) (?:message|transaction|record)", said))) == len(places)
    [(said, _)] = lines(alice, f"{PAGE}?{urlencode({'connection': PERSONAL})}")
    assert f"Dora read {places.count(PERSONAL)} messages from Personal mail at" in said
    delete_record(PERSONAL, stream="messages", record_key="m1", suppress=True, now=NOW)
    [(said, _)] = lines(alice)
    assert "1 other record" in said


def test_readings_are_separated_by_pauses_and_days(
    world: World, alice: Browser, time_machine: Traveller
) -> None:
    for moment in ("24T09:00", "24T09:29", "24T10:00", "24T10:01", "25T00:10"):
        time_machine.move_to(f"2026-11-{moment}:00Z", tick=False)
        key = "m2" if moment == "24T10:01" else "m1"
        world.get(RECORD.replace("m1", key), connection_id=PERSONAL)
    assert [said for said, _ in lines(alice)] == [
        "Bob read 1 message from Personal mail at 00:10, in one single record.",
        "Bob read 2 messages from Personal mail between 10:00 and 10:01, in two single records.",
        "Bob read 1 message from Personal mail between 09:00 and 09:29, in two single records.",
    ]


def test_days_and_times_are_in_the_zone_of_the_owner(
    world: World, alice: Browser, time_machine: Traveller
) -> None:
    Owner.unscoped.update(time_zone="Asia/Tokyo")
    for clock in ("14:50", "15:10"):
        time_machine.move_to(f"2026-11-24T{clock}:00Z", tick=False)
        world.get(RECORD, connection_id=PERSONAL)
    page = alice.open(PAGE)
    assert [said.split(" at ")[1] for said, _ in lines(alice)] == [
        "00:10, in one single record.", "23:50, in one single record."
    ]  # fmt: skip
    assert "Wednesday, 25 November 2026" in page.text
    assert len(lines(alice, f"{PAGE}?day=2026-11-25")) == 1
    assert len(table(alice, day="2026-11-24")) == 1


def test_an_answer_without_records_says_so(world: World, alice: Browser) -> None:
    world.get("/v1/streams/messages/records", "charlie", **{"filter[id]": "none"})
    world.get("/v1/streams/transactions/records", "charlie", **{"filter[id]": "none"})
    [(said, _)] = lines(alice)
    assert "Charlie read no record, only counts or names of streams in Bank account," in said
    assert said.endswith("in one list.")


def test_activity_is_narrowed_by_app_connection_and_day(world: World, alice: Browser) -> None:
    world.get(RECORD, connection_id=PERSONAL)
    world.get(RECORD, "dora", connection_id=WORK)
    world.get(RECORD, "alice", connection_id=WORK)
    bob = world.packages["bob"].client_id

    def apps(**query: str) -> list[str]:
        return [said.split()[0] for said, _ in lines(alice, f"{PAGE}?{urlencode(query)}")]

    assert sorted(apps()) == ["Bob", "Dora"]
    assert apps(client=bob) == ["Bob"]
    assert apps(connection=WORK) == ["Dora"]
    assert apps(client="you") == ["You"]
    assert apps(client=bob, connection=WORK) == []
    assert apps(day="2020-01-01") == []
    assert sorted(apps(client="nobody", day="never")) == ["Bob", "Dora"]


def test_a_page_has_a_week_and_leads_to_earlier_ones(
    world: World, alice: Browser, time_machine: Traveller
) -> None:
    for day in ("2026-09-01", "2026-11-20", "2026-11-24"):
        time_machine.move_to(f"{day}T09:00:00Z", tick=False)
        world.get(RECORD, connection_id=PERSONAL)

    page = alice.open(PAGE)
    assert "24 November 2026" in page.text
    assert "20 November 2026" in page.text
    earlier = alice.open(page.link("Earlier"))
    assert "1 September 2026" in earlier.text
    assert not earlier.has_link("Earlier")
    assert "24 November 2026" in alice.open(earlier.link("Latest")).text


def test_a_busy_week_is_split_into_days(
    world: World, alice: Browser, time_machine: Traveller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("owner.activity.activity_page.MAX_PAGE_ROWS", 2)
    for day in (22, 23, 24, 24):
        time_machine.move_to(f"2026-11-{day}T09:00:00Z", tick=False)
        world.get(RECORD, connection_id=PERSONAL)
    page = alice.open(PAGE)
    assert "in two single records" in page.text
    assert "23 November" not in page.text
    assert "23 November 2026" in alice.open(page.link("Earlier")).text


def test_all_places_count_the_same(world: World, alice: Browser) -> None:
    """One definition of a record read and of an answer, on every page and in the command."""
    answers = [
        world.get(MESSAGES, limit=3),
        world.get(MESSAGES, limit=3),  # the same records, read again
        world.get("/v1/search", q="lease OR deposit OR budget", limit=100),
        world.get("/v1/streams/messages"),
    ]
    read = sum(len(answer.ids) for answer in answers[:3])
    assert read > 8
    assert world.get(MESSAGES, "alice", connection_id=WORK, limit=2).status == 200
    set_quotas(world.grants["bob"][0].pk, {("records", "day"): 1000}, now=timezone.now())
    world.get(RECORD, connection_id=PERSONAL)
    records, bob = read + 1, world.packages["bob"].client_id
    amount = f"{records} records in 5 answers"

    alice.http.defaults["HTTP_ACCEPT"] = "text/html"
    assert amount in alice.open("/").text
    card = alice.open("/connected").text
    assert f"Today: {amount} · Last 7 days: {amount}" in card
    assert "Limits: 1 of 1,000 records today." in card
    page = alice.open(f"{PAGE}?client={bob}")
    assert amount in page.text
    [bar] = [
        given
        for tag, given in page.elements
        if tag == "a" and ":" in (given.get("aria-label") or "")
    ]
    assert (bar["aria-label"] or "").endswith(f": {records} records")
    printed = StringIO()
    call_command("ledger", "totals", stdout=printed)
    assert f"Bob: {amount}\n" in printed.getvalue()
    assert "You: 2 records in 1 answer\n" in printed.getvalue()
    shown = StringIO()
    call_command("ledger", "show", "Bob", stdout=shown)
    assert sum(map(int, re.findall(r"(\d+) records,", shown.getvalue()))) == records
    exported = json.loads(export(alice, "json", client=bob))
    assert sum(entry["records_read"] for entry in exported) == records
    assert sum(s["records_read"] for entry in exported for s in entry["streams"]) == records
    assert len([row for row in table(alice, client=bob) if row["record_key"]]) == records
    [said] = [said for said, _ in lines(alice, f"{PAGE}?client={bob}")]
    different = {
        (each["connection_id"], key)
        for answer in answers[:3]
        for key, each in zip(answer.ids, answer.body["data"], strict=True)
    } | {(PERSONAL, "m1")}
    assert len(different) < records
    assert sum(map(int, re.findall(r"(\d+) messages?", said))) == len(different)


def test_an_answer_of_several_grants_is_one_answer(world: World, alice: Browser) -> None:
    found = world.get("/v1/search", "dora", q="lease OR deposit OR budget", limit=100)
    assert len({each["connection_id"] for each in found.body["data"]}) > 2
    assert f"{len(found.ids)} records in 1 answer" in alice.open(PAGE).text
    assert f"{len(found.ids)} records in 1 answer" in alice.open("/connected").text
    [(said, _)] = lines(alice)
    assert said.endswith("in one search.")


def test_a_client_cannot_make_many_answers_look_like_one(world: World, alice: Browser) -> None:
    headers = {"Authorization": f"Bearer {world.tokens['bob']}", "Request-Id": "same"}
    for _ in range(3):
        assert (
            HttpClient(headers=headers).get(RECORD, {"connection_id": PERSONAL}).status_code == 200
        )
    assert "3 records in 3 answers" in alice.open(PAGE).text


def test_rows_of_earlier_releases_have_no_count_by_stream(world: World, alice: Browser) -> None:
    world.get("/v1/search", "dora", q="lease OR deposit OR budget", limit=100)
    tamper(
        r"UPDATE evidence_disclosure SET covered = regexp_replace(covered, '\],\d+\]', ']]', 'g')"
    )
    read = sum(entry["records_read"] for entry in json.loads(export(alice, "json")))
    [(said, _)] = lines(alice)
    counts = map(int, re.findall(r"(\d+) (?:message|transaction|record|other record)", said))
    assert sum(counts) == read


def test_a_record_says_who_has_seen_it(world: World, alice: Browser) -> None:
    world.get(RECORD, connection_id=PERSONAL)
    world.get(RECORD, "dora", connection_id=WORK)
    page = alice.open(f"/records/{PERSONAL}/messages/m1")
    seen = lines(alice, page.link("See each time"))
    assert sorted(said.split()[0] for said, _ in seen) == ["Bob", "You"]
    assert "Bob 1 answer" in alice.open(page.link("See each time")).text
    assert "Bob read it at" in alice.open(page.link("See each time")).text
    nobody = PLACE | {"key": "m2"}
    unread = alice.open(f"{PAGE}?{urlencode(nobody)}")
    assert "Nobody has read this record." in unread.text
    assert not unread.has_link("Connect an app")


def test_every_look_of_the_owner_is_written_down(world: World, alice: Browser) -> None:
    world.get(RECORD, connection_id=PERSONAL)
    [(_, to)] = lines(alice)
    alice.open(to)
    alice.open(f"/records/{PERSONAL}/messages/m1")
    looks = [
        each.route for each in read_disclosures(disclosures_of_record(PERSONAL, "messages", "m1"))
    ]
    assert looks == ["admin record", "admin activity", "rest record"]


def test_an_erased_record_is_counted_and_not_named(world: World, alice: Browser) -> None:
    world.get(RECORD, connection_id=PERSONAL)
    delete_record(PERSONAL, stream="messages", record_key="m1", suppress=True, now=NOW)
    assert [row["record_key"] for row in table(alice)] == ["(erased)"]
    [entry] = json.loads(export(alice, "json"))
    assert (entry["records"], entry["erased_records"]) == ([], 1)
    [(said, to)] = lines(alice)
    assert "read 1 message from Personal mail" in said
    assert "1 record on this page was erased since" in alice.open(to).text


def test_records_of_a_removed_connection_are_not_shown(world: World, alice: Browser) -> None:
    world.get(RECORD, connection_id=PERSONAL)
    Connection.unscoped.filter(pk=PERSONAL).update(status="revoked")
    [(_, to)] = lines(alice)
    assert 'name="q" value=""' in alice.open(to).html
    assert "1 record on this page was erased since, or its connection was removed" in (
        alice.open(to).text
    )


@pytest.mark.parametrize(
    "query", ["", "client=x", "since=2026-01-01&until=2026-01-02", "since=x&until=y"]
)
def test_a_reading_without_times_is_not_found(world: World, alice: Browser, query: str) -> None:
    assert alice.open(f"/activity/reading?{query}").status == 404


@pytest.mark.parametrize(
    "key", ["=1+1", "+1", "-1", "@SUM(A1)", " =1+1", "\N{FULLWIDTH EQUALS SIGN}1"]
)
def test_a_cell_is_never_a_formula(world: World, alice: Browser, key: str) -> None:
    world.put((PERSONAL, "messages", {"id": key, "received_at": "2026-09-01T00:00:00Z"}))
    world.get(MESSAGES, connection_id=PERSONAL, limit=1)
    assert [row["record_key"] for row in table(alice)] == [f"'{key}"]


def test_names_of_fields_with_control_characters_are_escaped(world: World, alice: Browser) -> None:
    hostile = "\x1b[2J\u202egnp"
    world.put(
        (PERSONAL, "messages", {"id": "h", "received_at": "2026-09-01T00:00:00Z", hostile: "x"})
    )
    world.get("/v1/streams/messages/records/h", "alice", connection_id=PERSONAL)
    shown = StringIO()
    call_command("ledger", "show", "owner", stdout=shown)
    assert "⟨U+001B⟩[2J⟨U+202E⟩gnp" in shown.getvalue()
    [(_, to)] = lines(alice, f"{PAGE}?client=you")
    assert "⟨U+001B⟩[2J⟨U+202E⟩gnp" in alice.open(to).text


def test_a_name_shows_what_all_have_read_that_are_called_so(world: World) -> None:
    world.get(RECORD, connection_id=PERSONAL)
    world.get(RECORD, "dora", connection_id=WORK)
    Client.unscoped.update(display_name="Claude")
    shown = StringIO()
    call_command("ledger", "show", "Claude", stdout=shown)
    assert "cin_personal/messages" in shown.getvalue()
    assert "cin_work/messages" in shown.getvalue()


def test_a_share_below_one_percent_is_not_one_percent(world: World, alice: Browser) -> None:
    world.put(*((PERSONAL, "messages", {"id": f"n{n}"}) for n in range(193)))  # beside eight
    world.get(MESSAGES, "dora", connection_id=PERSONAL, limit=1)

    page = alice.open(PAGE)

    assert "Mail <1 % 1 of 201" in page.text
    assert any(given.get("title") == "1 of 201 records" for _, given in page.elements)
    assert Share(shown=200, total=201).percent == "99"


def test_the_matrix_shows_the_share_of_each_source(
    world: World, alice: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    def share() -> list[str]:
        return re.findall(r"Mail \d+ % \d+ of \d+", alice.open(PAGE).text)

    for _ in range(2):
        world.get(MESSAGES, "dora", connection_id=PERSONAL, limit=2)
    [first] = share()  # of seven messages and one thread; reading them twice counts once
    assert first == "Mail 25 % 2 of 8"

    sign_entries(world.owner_id, now=NOW)
    monkeypatch.setattr(disclosures, "SMALL_LEDGER", 0)
    assert share() == []  # a large ledger is counted in the background
    assert [*recount_shown_records(world.owner_id, now=NOW)] == [world.packages["dora"].client_id]
    assert share() == [first]
    assert [*recount_shown_records(world.owner_id, now=NOW)] == []
    world.get(MESSAGES, "dora", connection_id=PERSONAL, limit=3)
    assert share() == [first]
    assert [*recount_shown_records(world.owner_id, now=NOW)] != []
    assert share() == ["Mail 37 % 3 of 8"]


def test_daily_use_is_shown_against_the_limit(world: World, alice: Browser) -> None:
    bob = world.packages["bob"].client_id
    assert "No daily limit" in alice.open(f"{PAGE}?client={bob}").text
    set_quotas(world.grants["bob"][0].pk, {("records", "day"): 10}, now=timezone.now())
    world.get(MESSAGES, limit=3)
    page = alice.open(f"{PAGE}?client={bob}")
    assert "Limit: 10 records" in page.text
    [bar] = [given for tag, given in page.elements if tag == "rect" and given["class"] == "bar"]
    assert bar["height"] == "30.0"
    assert "10 records 5 0" in page.text, "the scale"

    set_quotas(world.grants["bob"][0].pk, {("records", "day"): 250}, now=timezone.now())
    assert "400 records 200 0" in alice.open(f"{PAGE}?client={bob}").text


def test_the_proof_is_one_line(world: World, alice: Browser) -> None:
    assert verify_daily(world.owner_id, now=NOW - timedelta(days=1))
    world.get(RECORD, connection_id=PERSONAL)
    world.get(RECORD, connection_id=PERSONAL)
    world.get(RECORD, connection_id=PERSONAL)
    assert "The ledger is intact: 3 entries, not signed yet." in alice.open(PAGE).text
    sign_entries(world.owner_id, now=NOW)
    assert "3 entries, last signed 1 November 2026, 12:00." in alice.open(PAGE).text
    assert verify_daily(world.owner_id, now=NOW)
    assert not verify_daily(world.owner_id, now=NOW + timedelta(hours=1))
    assert "12:00, all checked 1 November, 12:00." in alice.open(PAGE).text
    world.get(RECORD, connection_id=PERSONAL)
    assert "12:00, the first 3 checked 1 November, 12:00." in alice.open(PAGE).text


@pytest.mark.parametrize(
    ("statement", "is_found_at_once"),
    [
        ("UPDATE evidence_disclosure SET record_count = 9 WHERE seq = 2", False),
        ("DELETE FROM evidence_disclosure WHERE seq = 3", True),
        ("UPDATE evidence_checkpoint SET note = replace(note, 'pdpp', 'x')", True),
        ("UPDATE evidence_disclosure SET digest = '' WHERE seq = 3", True),
    ],
)
def test_a_broken_ledger_is_plain_to_see(
    world: World, alice: Browser, statement: str, *, is_found_at_once: bool
) -> None:
    for _ in range(3):
        world.get(RECORD, connection_id=PERSONAL)
    sign_entries(world.owner_id, now=NOW)
    tamper(statement)
    assert ("The ledger is broken:" in alice.open(PAGE).text) is is_found_at_once
    verify_daily(world.owner_id, now=NOW)
    page = alice.open(PAGE)
    assert "The ledger is broken:" in page.text
    assert "The ledger is intact" not in page.text


def test_no_page_counts_more_queries_with_more_answers(
    world: World, alice: Browser, django_assert_max_num_queries: Any
) -> None:
    for _ in range(5):
        world.get("/v1/search", "dora", q="lease OR deposit OR budget", limit=100)
    with django_assert_max_num_queries(30):
        alice.open(PAGE)
