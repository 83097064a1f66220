"""The owner erases on these pages: counted before, asked once, watched, and receipted."""

import copy
from typing import Any

import pytest
from django.utils import timezone

from evidence.erasure import run_pending_erasures
from evidence.models.connections import Connection
from evidence.write.retention import retention_periods
from importers.models import SourceAccount
from tests.owner.pages.browser import Browser, Page
from tests.world import BANK, MAIL, NOW, PERSONAL, WORK, World
from tests.write import stored


@pytest.fixture(autouse=True)
def _nowhere_near_a_real_installation(settings: Any, tmp_path: Any) -> None:
    settings.PDPP_VAR = tmp_path


def do_the_work() -> None:
    """What the server does beside requests."""
    list(run_pending_erasures(now=NOW))


def record_page(alice: Browser, key: str = "m1") -> Page:
    return alice.open(f"/records/{PERSONAL}/messages/{key}")


def test_a_record_goes_from_its_own_page(world: World, alice: Browser) -> None:
    asked = alice.open(record_page(alice).link("Erase this record"))
    assert "Personal mail: Messages: m1 is erased permanently" in asked.text
    assert "To be erased" in asked.text
    assert "“Lease signed” · Eva Lang · 10 January 2026" in asked.text
    assert "1 record" in asked.text
    assert "The ledger of disclosures stays verifiable" in asked.text
    assert stored.record(PERSONAL, "m1") is not None

    done = alice.press(asked.form)

    assert stored.record(PERSONAL, "m1") is None
    assert "Receipt" in done.text
    assert "one record of messages of “Personal mail”" in done.text
    assert "m1" not in done.text
    assert stored.kinds(PERSONAL, "m1") == ""  # only the owner has seen it, on this page
    assert record_page(alice).status == 404


@pytest.mark.parametrize(
    ("stream", "cardinality"), [("files", "has_one"), ("messages", "has_many")]
)
def test_the_mail_of_an_attachment_is_named(
    world: World, alice: Browser, stream: str, cardinality: str
) -> None:
    document = copy.deepcopy(MAIL)
    document["version"] = "1.1.0"
    fields = {name: {"type": "string"} for name in ("id", "mail", "name")}
    document["streams"].append({
        "name": "files", "semantics": "mutable_state", "primary_key": ["id"],
        "schema": {"type": "object", "required": ["id"], "properties": fields},
        "selection": {"fields": True, "resources": True}})  # fmt: skip
    declaring = next(each for each in document["streams"] if each["name"] == stream)
    other = {"files": "messages", "messages": "files"}[stream]
    relation = {"name": "r", "stream": other, "foreign_key": "mail", "cardinality": cardinality}
    declaring.setdefault("relationships", []).append(relation)
    world.declare(document)
    world.put((PERSONAL, "files", {"id": "f1", "mail": "m1", "name": "lease.pdf"}))

    asked = alice.open(alice.open(f"/records/{PERSONAL}/files/f1").link("Erase this record"))

    assert "It belongs to “Lease signed” · Eva Lang · 10 January 2026" in asked.text


def test_no_deletion_is_published_if_the_owner_chooses_so(world: World, alice: Browser) -> None:
    assert world.get("/v1/streams/messages/records/m1", connection_id=PERSONAL).status == 200
    form = alice.open(record_page(alice).link("Erase this record")).form
    form.tick("Erase it without notifying apps")
    alice.press(form)
    assert stored.kinds(PERSONAL, "m1") == ""


def test_a_stream_is_erased_in_the_background_with_progress(world: World, alice: Browser) -> None:
    page = alice.open(f"/connections/{BANK}")
    watched = alice.press(alice.open(page.link("Erase")).form)
    assert "Erasing continues while the server runs" in watched.text
    assert len(stored.true_counts()) == 5
    assert any("data-follow" in given for _, given in watched.elements)

    do_the_work()

    done = alice.open(watched.address)
    assert "Receipt" in done.text
    assert "3 records" in done.text
    assert not any("data-follow" in given for _, given in done.elements)
    assert (BANK, "transactions") not in stored.true_counts()
    receipts = alice.open("/erasures")
    assert any(watched.address.startswith(at) for _, at in receipts.links if "erasures/ers" in at)


def test_a_stream_has_the_name_that_other_pages_use(world: World, alice: Browser) -> None:
    document = copy.deepcopy(MAIL)
    document["version"] = "1.1.0"
    document["streams"][0]["display"] = {"label": "Your mail"}
    world.declare(document)

    asked = alice.open(f"/erase?of=stream&connection={PERSONAL}&stream=messages")

    assert "Personal mail: Mail is erased permanently." in asked.text


def test_counts_are_in_the_words_of_the_pages(world: World, alice: Browser) -> None:
    assert world.get("/v1/streams/messages/records", "bob").status == 200

    SourceAccount.unscoped.create(connection_id=PERSONAL, owner_id=world.owner_id,
        source_name="imap", due_at=NOW, created_at=NOW)  # fmt: skip

    asked = alice.open(f"/erase?of=connection&connection={PERSONAL}").text

    assert "1 live account" in asked
    assert "references in Activity" in asked
    assert "names in the ledger" not in asked
    assert "counter" not in asked


def test_a_connection_goes_once_it_is_confirmed(world: World, alice: Browser) -> None:
    page = alice.open(f"/connections/{WORK}")
    asked = alice.open(page.link("Erase this connection"))
    do_the_work()
    assert Connection.unscoped.filter(pk=WORK).exists()
    watched = alice.press(asked.form)
    do_the_work()
    assert "1 connection" in alice.open(watched.address).text
    assert not Connection.unscoped.filter(pk=WORK).exists()
    assert (
        world.get("/v1/streams/messages/records/m1", "dora", connection_id=PERSONAL).status == 200
    )


def test_everything_takes_a_word(world: World, alice: Browser) -> None:
    asked = alice.open(alice.open("/erasures").link("Erase everything"))
    assert "4 connections" in asked.text
    refused = alice.press(asked.form)
    assert "Type “erase everything” to go on" in refused.text
    do_the_work()
    assert Connection.unscoped.count() == 4
    form = refused.form
    form.fill("word", "Erase everything")
    alice.press(form)
    do_the_work()
    assert not Connection.unscoped.exists()
    assert "Sign in" in alice.open("/admin/").text


@pytest.mark.parametrize(
    "wrong",
    ["", "of=all", "of=stream", f"of=stream&connection={PERSONAL}", "of=connection&connection=cin_x"],
)  # fmt: skip
def test_what_names_nothing_is_no_page(world: World, alice: Browser, wrong: str) -> None:
    assert alice.open(f"/erase?{wrong}").status == 404
    assert alice.open("/erasures/ers_no").status == 404


def test_how_long_records_are_kept_is_set_stream_by_stream(world: World, alice: Browser) -> None:
    page = alice.open(alice.open(f"/connections/{PERSONAL}").link("Retention"))
    form = page.form
    form.fill("days_0", "400")
    form.fill("days_1", "30")
    assert "Older records are erased within the hour" in alice.press(form).text
    assert retention_periods(PERSONAL) == {"": 400, "messages": 30}
    form = alice.open(page.address).form
    assert form.values("days_1") == ["30"]
    form.fill("days_0", "")
    form.fill("days_1", "0")
    refused = alice.press(form)
    assert refused.errors == ["Ensure this value is greater than or equal to 1."]
    assert retention_periods(PERSONAL) == {"": 400, "messages": 30}
    assert timezone.now() > NOW
    form.fill("days_1", "")
    assert "All records are kept." in alice.press(form).text
    assert retention_periods(PERSONAL) == {}
