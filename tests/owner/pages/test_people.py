"""People: who occurs across sources, joined by address and number, and by name if the owner says so."""

import json
from typing import Any

import pytest
from django.core.management import call_command
from django.db.models import F
from django.utils import timezone

from evidence.models.connections import Connection
from operations.backup import table_copy
from owner.records import people_index
from owner.records.models import Mention, PeopleProgress, PersonCount, PersonMerge
from tests.owner.pages.browser import Browser, Page
from tests.world import PERSONAL, WORK, World

pytestmark = pytest.mark.slow

NEXT = timezone.now().year + 2
TIME = {"type": "string", "format": "date-time", "x_pdpp_role": "event-time"}
TITLE = {"type": "string", "x_pdpp_role": "primary-title"}
PEOPLE = {"type": "array", "items": {"type": "string"}, "x_pdpp_role": "participant"}


def source(key: str, *streams: dict[str, Any]) -> dict[str, Any]:
    return {
        "protocol_version": "0.1.0",
        "connector_id": f"https://registry.example/connectors/{key}",
        "connector_key": key,
        "version": "1.0.0",
        "display_name": key.title(),
        "streams": list(streams),
    }


def stream(name: str, fields: dict[str, Any], **more: Any) -> dict[str, Any]:
    time = next((each for each, node in fields.items() if node == TIME), None)
    times = {"cursor_field": time, "consent_time_field": time} if time else {}
    return {
        "name": name,
        "semantics": "mutable_state",
        "schema": {
            "type": "object",
            "required": ["id"],
            "properties": {"id": {"type": "string"}, **fields},
        },
        "primary_key": ["id"],
        "selection": {"fields": True, "resources": True},
        **times,
        **more,
    }


PHONE = source(
    "phone",
    stream("chats", {"name": TITLE}),
    stream(
        "texts",
        {
            "chat": {"type": "string"},
            "who": {"type": "string", "x_pdpp_role": "actor"},
            "number": {"type": "string", "x_pdpp_role": "actor-id"},
            "sent": TIME,
            "words": {"type": "string", "x_pdpp_role": "secondary", "x_pdpp_type": "text"},
        },
        relationships=[{"name": "in", "stream": "chats", "foreign_key": "chat",
                        "cardinality": "has_one"}],
    ),
)  # fmt: skip
BOOK = source(
    "book",
    stream(
        "cards",
        {
            "name": TITLE,
            "reach": {
                "type": "array", "items": {"type": "string"}, "x_pdpp_role": "address",
            },
            "job": {"type": "string"},
        },
    ),
)  # fmt: skip
DIARY = source(
    "diary",
    stream(
        "events",
        {
            "title": TITLE,
            "begins": TIME,
            "ends": {"type": "string", "format": "date-time"},
            "guests": PEOPLE,
        },
        query={"range_filters": {"begins": ["gte", "lt"], "ends": ["gte", "lt"]}},
    ),
)


def text(key: str, who: str, number: str, words: str, sent: str, chat: str = "c1") -> Any:
    data = {"id": key, "who": who, "number": number, "words": words, "sent": sent, "chat": chat}
    return ("cin_phone", "texts", data)


@pytest.fixture
def eva(world: World) -> World:
    """Eva Lang in mail, chat, contacts and calendar, with one address and one number."""
    for document in (PHONE, BOOK, DIARY):
        world.declare(document)
    world.connect("cin_phone", "phone", "Phone", identities=["+49 30 1234567"])
    world.connect("cin_book", "book", "Contacts")
    world.connect("cin_diary", "diary", "Diary")
    world.put(
        text("x1", "Eva", "+49 (0)170 1234567", "On my way", "2026-01-11T08:00:00Z"),
        text("x2", "Alice", "+49 30 1234567", "See you", "2026-01-11T08:01:00Z"),
        text("x3", "Jonas W", "0049 151 7654321", "Tomorrow?", "2026-01-11T09:00:00Z", "c2"),
        ("cin_book", "cards", {"id": "k1", "name": "Eva Lang", "job": "Landlady",
                               "reach": ["EVA@example.org", "+491701234567"]}),
        ("cin_diary", "events", {"id": "e1", "title": "Handover", "begins": "2026-01-15T10:00:00Z",
                                 "guests": ["Eva Lang <eva@example.org>", "Jonas Weber"]}),
        ("cin_diary", "events", {"id": "e2", "title": "Chimney", "begins": f"{NEXT}-01-15T10:00:00Z",
                                 "guests": ["eva@example.org"]}),
    )  # fmt: skip
    sum(people_index.derive_people())
    return world


def open_person(browser: Browser, query: str) -> Page:
    """The page of the first person that a query finds."""
    page = browser.open(f"/people?who={query}")
    return browser.open(next(at for _, at in page.links if "/people/" in at))


def names(page: Page) -> list[str]:
    return [words for words, at in page.links if "/people/" in at]


def test_a_person_is_joined_by_address_and_number(eva: World, alice: Browser) -> None:
    found = alice.open("/people?who=Eva Lang")
    page = open_person(alice, "eva@example.org")

    assert names(found).count("Eva Lang") == 2, "a second one occurs without an address"
    assert "eva@example.org" in page.text
    assert "+491701234567" in page.text
    assert "Records Diary 2 Contacts 1 Personal mail 1 Phone 1" in page.text
    assert "Landlady" in page.text
    assert f"Next events Chimney 15 Jan {NEXT}" in page.text
    assert "Past events Handover 15 Jan 2026" in page.text


def test_ids_of_a_source_are_hidden_beside_a_name(eva: World, alice: Browser) -> None:
    eva.put(text("u1", "Noor", "u_136c71de", "Hello", "2026-01-12T08:00:00Z"),
            ("cin_phone", "texts", {
                "id": "u2", "number": "u_99", "words": "Who am I?", "chat": "c3",
                "sent": "2026-01-12T09:00:00Z"}))  # fmt: skip
    sum(people_index.derive_people())

    listed = alice.open("/people")

    assert {"Noor", "u_99"} <= set(names(listed))
    assert "u_136c71de" not in listed.text
    assert "u_136c71de" not in open_person(alice, "Noor").text


def test_conversations_of_all_channels_are_in_one_order(eva: World, alice: Browser) -> None:
    page = open_person(alice, "eva@example.org")

    assert page.text.index("See you") < page.text.index("On my way") < page.text.index("Lease sig")
    assert "You Alice" in page.text, "the owner's reply in a chat with nobody else"
    assert "Tomorrow?" not in page.text


def test_a_history_has_pages_without_gaps(eva: World, alice: Browser) -> None:
    eva.put(*(text(f"y{n:03}", "Eva", "+491701234567", "same", f"2026-02-0{n % 3 + 1}T00:00:00Z")
              for n in range(90)))  # fmt: skip
    sum(people_index.derive_people())
    page = open_person(alice, "eva@example.org")
    found = [at for _, at in page.links if "/texts/y" in at]
    while page.has_link("Earlier"):
        page = alice.open(page.link("Earlier"))
        found += [at for _, at in page.links if "/texts/y" in at]

    assert len(found) == len(set(found)) == 90
    assert "Lease signed" in page.text


def test_people_are_found_by_name_address_and_number(eva: World, alice: Browser) -> None:
    for query in ("eva lang", "EVA@example", "0170", "+49 (0)170 1234567", "1701234567"):
        found = alice.open(f"/people?who={query.replace('+', '%2B')}")
        assert "Eva Lang" in names(found), query
        assert "Mara Novak" not in names(found)
    assert "Nobody has this name" in alice.open("/people?who=nobody").text
    everyone = alice.open("/people")
    assert {"Eva Lang", "Mara Novak", "Jonas Weber", "Jonas W"} <= set(names(everyone))
    assert alice.open("/people?sort=most&start=50&who=x").status == 200


@pytest.mark.parametrize("sort", ["", "most"])
def test_person_stays_listed_without_the_connection_that_names_them_last(
    eva: World, alice: Browser, sort: str
) -> None:
    address = f"/people?who=Eva Lang&sort={sort}"
    listed = alice.open(address)
    Connection.unscoped.filter(display_name="Diary").update(status=Connection.Status.REVOKED)
    without = alice.open(address)

    assert "eva@example.org" in listed.text
    assert "eva@example.org" in without.text
    assert "Diary" not in without.text


def test_the_owner_is_nobody_of_these_people(eva: World, alice: Browser) -> None:
    Connection.unscoped.filter(pk=PERSONAL).update(identities=["alice", "eva@example.org"])
    sum(people_index.derive_people())

    assert "eva@example.org" not in alice.open("/people").text
    assert "Alice" not in names(alice.open("/people"))


def test_merge_of_two_people_with_one_name_names_them_once(eva: World, alice: Browser) -> None:
    eva.put(
        ("cin_book", "cards", {"id": "k2", "name": "Eva Lang", "reach": ["lang@example.net"]}),
    )
    sum(people_index.derive_people())
    page = open_person(alice, "Eva Lang")
    form = next(each for each in page.forms if "/merge" in each.action)

    merged = alice.press(form)

    assert "Two people named Eva Lang are one person now." in merged.text


def test_two_people_are_merged_and_separated(eva: World, alice: Browser) -> None:
    other = open_person(alice, "151765").address.rpartition("/")[2]
    page = open_person(alice, "Jonas Weber")
    assert "Tomorrow?" not in page.text
    page = alice.open(f"{page.address}?who=Jonas W")
    form = next(each for each in page.forms if other in each.values("other"))
    merged = alice.press(form)

    assert "are one person now" in merged.text
    assert "Tomorrow?" in merged.text
    assert "Dinner on Friday?" in merged.text
    call_command("reindex", "--all")
    again = alice.open(merged.address)
    assert "Tomorrow?" in again.text
    undo = [each for each in again.forms if "/separate" in each.action]
    page = alice.press(undo[0])
    assert "The merge is undone." in page.text
    assert not PersonMerge.unscoped.exists()


def test_a_name_without_an_address_is_joined_where_the_owner_says_so(
    eva: World, alice: Browser
) -> None:
    page = open_person(alice, "Jonas Weber")
    assert "Same name Merge them if they are one person" in page.text
    form = next(each for each in page.forms if "/merge" in each.action)
    merged = alice.press(form)

    assert "Dinner on Friday?" in merged.text
    assert "Handover" in merged.text
    assert not merged.text.count("Same name")


def test_a_number_on_cards_of_two_names_joins_nobody(eva: World, alice: Browser) -> None:
    eva.put(("cin_book", "cards", {"id": "k2", "name": "Rolf Lang", "reach": ["+491701234567"]}))
    sum(people_index.derive_people())
    assert "On my way" not in open_person(alice, "eva@example.org").text

    eva.send([{"op": "delete", "connection_id": "cin_book", "stream": "cards", "key": "k2",
               "emitted_at": "2026-10-02T00:00:00Z"}])  # fmt: skip
    sum(people_index.derive_people())
    assert "On my way" in open_person(alice, "eva@example.org").text


def test_names_on_other_pages_link_to_the_person(eva: World, alice: Browser) -> None:
    person = open_person(alice, "eva@example.org").address
    for path in (
        f"/records/{PERSONAL}/messages/",
        f"/records/{PERSONAL}/messages/m1",
        "/records/cin_phone/texts/?in=c1",
        "/records/cin_phone/texts/x1",
        "/records/cin_diary/events/e1",
        "/day/2026-01-10",
        "/search?q=lease+signed",
    ):
        page = alice.open(path)
        assert person in [at for _, at in page.links], path
    card = alice.open("/records/cin_book/cards/k1")
    assert card.link("Everything with Eva Lang") == person


def test_an_erased_record_takes_its_people_along_at_once(eva: World, alice: Browser) -> None:
    person = open_person(alice, "151765")
    eva.put(("cin_book", "cards", {"id": "k3", "name": "Jonas W", "reach": ["+491517654321"]}))
    sum(people_index.derive_people())
    for place in (("cin_phone", "texts", "x3"), ("cin_book", "cards", "k3")):
        call_command("erase", "record", *place, "--yes")

    assert not Mention.unscoped.filter(identity="tel:+491517654321").exists()
    assert not PersonCount.unscoped.filter(identity="tel:+491517654321").exists()
    assert alice.open(person.address).status == 404
    call_command("erase", "record", "cin_book", "cards", "k1", "--yes")
    assert not PersonCount.unscoped.exclude(person=F("own_person")).exists()


def test_an_erased_connection_takes_its_people_and_merges_along(eva: World, alice: Browser) -> None:
    page = open_person(alice, "Jonas Weber")
    alice.press(next(each for each in page.forms if "/merge" in each.action))
    for connection_id in ("cin_diary", "cin_phone", "cin_book", PERSONAL, WORK):
        call_command("erase", "connection", connection_id, "--yes")

    assert not Mention.unscoped.exists()
    assert not PersonCount.unscoped.exists()
    assert not PersonMerge.unscoped.exists()


def test_counts_stay_true_however_records_change(eva: World) -> None:
    eva.put(text("x1", "Eva", "+49151 7654321", "Other phone", "2026-01-12T08:00:00Z"))
    eva.put(text("x9", "Eva", "+491701234567", "New", "2026-01-13T08:00:00Z"))
    eva.send([{"op": "delete", "connection_id": "cin_phone", "stream": "texts", "key": "x3",
               "emitted_at": "2026-10-02T00:00:00Z"}])  # fmt: skip
    sum(people_index.derive_people())

    changed = counts()
    call_command("reindex", "--all")
    assert counts() == changed
    assert changed["cin_phone", "tel:+491517654321"][:2] == (1, "Eva")


def counts() -> dict[tuple[str, str], tuple[Any, ...]]:
    rows = PersonCount.unscoped.all()
    for row in rows:
        held = Mention.unscoped.filter(
            connection_id=row.connection_id, stream=row.stream, identity=row.identity
        )
        assert held.count() == row.records
    return {
        (row.connection_id, row.identity): (
            row.records, row.name, row.first_at, row.last_at, row.person,
        )
        for row in rows
    }  # fmt: skip


def test_an_interrupted_collection_continues(eva: World, monkeypatch: pytest.MonkeyPatch) -> None:
    complete = counts()
    monkeypatch.setattr(people_index, "BATCH_SIZE", 1)
    people_index.mentions.rebuild_people([PERSONAL, "cin_phone"])
    PersonCount.unscoped.filter(connection_id="cin_phone").delete()
    Mention.unscoped.filter(connection_id="cin_phone").delete()
    run = people_index.derive_people()
    for _ in range(4):
        next(run)
    run.close()
    assert people_index.outdated_connections()

    sum(people_index.derive_people())
    assert counts() == complete
    assert people_index.outdated_connections() == []


def test_a_stream_that_names_nobody_any_more_has_no_people(eva: World) -> None:
    plain = {**BOOK, "version": "1.1.0", "streams": [stream("cards", {"name": TITLE})]}
    eva.declare(plain)
    sum(people_index.derive_people())

    assert not Mention.unscoped.filter(connection_id="cin_book").exists()
    assert not PersonCount.unscoped.filter(connection_id="cin_book").exists()


def test_backups_leave_derived_people_out_and_keep_merges(world: World) -> None:
    included = {table.name for table in table_copy.backup_tables()}

    assert "people_personmerge" in included
    assert included.isdisjoint(
        model._meta.db_table for model in (Mention, PersonCount, PeopleProgress)
    )


def test_what_a_page_of_people_showed_is_on_record(eva: World, alice: Browser) -> None:
    open_person(alice, "eva@example.org")
    answer = alice.http.get("/activity/export.json?client=you")

    entries = json.loads(b"".join(answer.streaming_content))
    shown = {each["record_key"] for entry in entries for each in entry["records"]}
    assert shown == {"m1", "x1", "x2", "k1", "e1", "e2"}


@pytest.mark.parametrize("person", ["none", "x" * 400])
def test_a_person_who_is_not_there_is_not_found(world: World, alice: Browser, person: str) -> None:
    assert alice.open(f"/people/{person}").status == 404


def test_a_number_without_a_country_joins_when_the_owners_country_is_known(
    eva: World, alice: Browser
) -> None:
    eva.put(text("x8", "Eva", "0170 1234567", "National", "2026-01-14T08:00:00Z"))
    sum(people_index.derive_people())
    assert Mention.unscoped.filter(identity="tel:01701234567").exists()
    assert "National" not in open_person(alice, "1701234567").text

    form = alice.open("/settings").form
    form.fill("country", "DE")
    alice.press(form)
    assert people_index.is_collecting() or people_index.outdated_connections()
    sum(people_index.derive_people())

    assert not Mention.unscoped.filter(identity="tel:01701234567").exists()
    assert "National" in open_person(alice, "0170 1234567").text
    stored = eva.get("/v1/streams/texts/records/x8", "alice", connection_id="cin_phone").body
    assert "0170 1234567" in str(stored["data"])


def test_an_import_is_not_proposed_while_people_are_collected(world: World, alice: Browser) -> None:
    page = alice.open("/people")

    assert "People are still being collected from your records." in page.text
    assert "Nobody yet" not in page.text


def test_records_of_one_day_are_not_from_that_day_to_that_day(world: World, alice: Browser) -> None:
    sum(people_index.derive_people())

    assert "1 record, on 5 March 2026" in open_person(alice, "jonas").text
