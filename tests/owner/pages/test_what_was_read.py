"""The owner sees who has read what, down to the record, and can take it away as a table."""

import csv
from io import StringIO
from urllib.parse import urlencode

from django.core.management import call_command
from django.test import Client as HttpClient

from evidence.ledger.disclosures import disclosures_of_record, read_disclosures
from evidence.models.accounts import Client
from evidence.storing.record_erasure import delete_record
from tests.owner.pages.browser import Browser
from tests.world import NOW, PERSONAL, WORK, World

PAGE = "/admin/evidence/connection/disclosures/"
CSV = "/admin/evidence/connection/disclosures.csv"
ONE = "/admin/evidence/connection/record/"
RECORD = "/v1/streams/messages/records/m1"
PLACE = {"connection": PERSONAL, "stream": "messages", "key": "m1"}


def table(browser: Browser, **query: str) -> list[dict[str, str]]:
    answer = browser.http.get(CSV, query)
    return list(csv.DictReader(StringIO(b"".join(answer.streaming_content).decode())))


def test_an_answer_is_shown_with_who_how_and_what(world: World, alice: Browser) -> None:
    world.get(RECORD, connection_id=PERSONAL, fields="subject")
    page = alice.open(PAGE)
    assert "1 answer " in page.text
    assert "Bob rest record" in page.text
    assert "Personal mail: messages (id, subject)" in page.text
    assert page.has_link("m1")


def test_answers_are_narrowed_by_client_connection_and_day(world: World, alice: Browser) -> None:
    world.get(RECORD, connection_id=PERSONAL)
    world.get(RECORD, "dora", connection_id=WORK)
    bob = world.packages["bob"].client_id
    assert "1 answer " in alice.open(f"{PAGE}?client={bob}").text
    assert "1 answer " in alice.open(f"{PAGE}?connection={WORK}").text
    assert "0 answers" in alice.open(f"{PAGE}?client={bob}&connection={WORK}").text
    assert "0 answers" in alice.open(f"{PAGE}?day=2020-01-01").text
    assert "2 answers" in alice.open(f"{PAGE}?client=nobody&day=never").text


def test_a_record_says_who_has_seen_it(world: World, alice: Browser) -> None:
    world.get(RECORD, connection_id=PERSONAL)
    world.get(RECORD, "dora", connection_id=WORK)
    page = alice.open(f"{ONE}?{urlencode(PLACE)}")
    seen = alice.open(page.link("Who has seen it"))
    assert "2 answers" in seen.text  # Bob's, and the owner's own look just now
    assert "You admin record" in seen.text
    assert "Dora" not in seen.text


def test_every_look_of_the_owner_is_written_down(world: World, alice: Browser) -> None:
    alice.open(f"{ONE}?{urlencode(PLACE)}")
    alice.open(f"/records/{PERSONAL}/messages/m1")
    alice.open(f"{ONE}list/?{urlencode({'connection': PERSONAL, 'stream': 'messages'})}")
    looks = [
        each.route for each in read_disclosures(disclosures_of_record(PERSONAL, "messages", "m1"))
    ]
    assert looks == ["admin records", "admin record", "admin record"]


def test_the_table_has_a_line_for_each_record(world: World, alice: Browser) -> None:
    shown = world.get("/v1/streams/messages/records", limit=3).ids
    world.get(RECORD, "dora", connection_id=WORK)
    rows = table(alice, client=world.packages["bob"].client_id)
    assert sorted(row["record_key"] for row in rows) == sorted(shown)
    assert {row["client"] for row in rows} == {"Bob"}


def test_an_erased_record_is_counted_and_not_named(world: World, alice: Browser) -> None:
    world.get(RECORD, connection_id=PERSONAL)
    delete_record(PERSONAL, stream="messages", record_key="m1", suppress=True, now=NOW)
    assert [row["record_key"] for row in table(alice)] == ["(erased)"]
    page = alice.open(PAGE)
    assert not page.has_link("m1")
    assert "and 1 more, or erased since" in page.text


def test_a_cell_is_never_a_formula(world: World, alice: Browser) -> None:
    world.put((PERSONAL, "messages", {"id": "=1+1", "received_at": "2026-09-01T00:00:00Z"}))
    world.get("/v1/streams/messages/records/%3D1%2B1", connection_id=PERSONAL)
    assert [row["record_key"] for row in table(alice)] == ["'=1+1"]


def test_a_client_cannot_make_many_answers_look_like_one(world: World, alice: Browser) -> None:
    headers = {"Authorization": f"Bearer {world.tokens['bob']}", "Request-Id": "same"}
    for _ in range(3):
        assert (
            HttpClient(headers=headers).get(RECORD, {"connection_id": PERSONAL}).status_code == 200
        )
    world.get("/v1/search", "dora", q="lease OR deposit OR budget", limit=100)
    assert "4 answers, " in alice.open(PAGE).text
    assert "3 calls in 30 days" in alice.open("/connected").text


def test_a_client_name_is_no_formula_even_next_to_erased_records(
    world: World, alice: Browser
) -> None:
    Client.unscoped.update(display_name="=1+1")
    world.get(RECORD, connection_id=PERSONAL)
    delete_record(PERSONAL, stream="messages", record_key="m1", suppress=True, now=NOW)
    assert [row["client"] for row in table(alice)] == ["'=1+1"]


def test_names_of_fields_that_do_something_are_spelled_out(world: World, alice: Browser) -> None:
    hostile = "\x1b[2J\u202egnp"
    world.put(
        (PERSONAL, "messages", {"id": "h", "received_at": "2026-09-01T00:00:00Z", hostile: "x"})
    )
    world.get("/v1/streams/messages/records/h", "alice", connection_id=PERSONAL)
    shown = StringIO()
    call_command("ledger", "show", "owner", stdout=shown)
    assert "⟨U+001B⟩[2J⟨U+202E⟩gnp" in shown.getvalue()
    assert "⟨U+001B⟩[2J⟨U+202E⟩gnp" in alice.open(PAGE).text


def test_a_name_shows_what_all_have_read_that_are_called_so(world: World) -> None:
    world.get(RECORD, connection_id=PERSONAL)
    world.get(RECORD, "dora", connection_id=WORK)
    Client.unscoped.update(display_name="Claude")
    shown = StringIO()
    call_command("ledger", "show", "Claude", stdout=shown)
    assert "cin_personal/messages" in shown.getvalue()
    assert "cin_work/messages" in shown.getvalue()


def test_only_the_owner_sees_it(world: World) -> None:
    for address in (PAGE, CSV):
        answer = Browser().http.get(address)
        assert answer.status_code == 302
        assert "/login" in answer["Location"]
