"""The consent page without scripts: what it shows, what it takes for an answer, and what it gives."""

import dataclasses
import datetime as dt
import re
from collections.abc import Iterator
from unittest.mock import patch

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.utils import timezone

from evidence.access.quotas import list_quotas
from evidence.access.tokens import create_token
from evidence.models.connections import Connection
from evidence.models.grants import Grant, Package
from evidence.models.records import Record
from owner.grants.grantable_sources import RequestedStream, RequestingClient
from tests.owner.consent.asking_page import ASK, asking, detailed, plain
from tests.owner.pages.browser import Browser, Form, Page
from tests.owner.pages.giving import named
from tests.owners import sign_up
from tests.world import MAIL, NOW, PERSONAL, WORK, World

pytestmark = pytest.mark.urls("tests.owner.consent.asking_page")
JANUARY = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


@pytest.fixture
def anything() -> Iterator[None]:
    with asking(plain()):
        yield


def the_form(page: Page) -> Form:
    (form,) = [each for each in page.forms if each.action == ASK]
    return form


def prefix(form: Form, stream: str) -> str:
    """What the names of one stream's fields begin with."""
    (name,) = {name for said, (name, _) in form.boxes.items() if said.startswith(stream)}
    return name.removesuffix("-included")


def again(browser: Browser, form: Form) -> Page:
    """Press "Update summary"."""
    return browser.press(form, "decision", "review")


def allow(browser: Browser, form: Form) -> Page:
    return browser.press(form, "decision", "allow")


def seen_and_allowed(browser: Browser, form: Form) -> Package:
    """What a person does: count again, then allow."""
    page = allow(browser, the_form(again(browser, form)))
    assert page.text.startswith("approved pkg_"), page.text
    return Package.unscoped.get(pk=page.text.split()[1])


def token_of(package: Package) -> str:
    return create_token(package, resource="/v1", now=NOW)


def packages() -> int:
    return Package.unscoped.count()


@pytest.mark.usefixtures("anything")
def test_nothing_is_selected_initially(alice: Browser) -> None:
    page = alice.open(ASK)

    assert page.status == 200
    assert "Claude Code wants to read your records" in page.text
    assert "Nothing is selected yet" in page.text
    for label in ("Personal mail", "Work mail", "Workspace", "Bank account"):
        assert not the_form(page).is_ticked(label)


@pytest.mark.usefixtures("anything")
def test_allowing_nothing_gives_nothing(alice: Browser) -> None:
    before = packages()

    page = allow(alice, the_form(alice.open(ASK)))

    assert page.status == 422
    assert "Nothing is selected yet" in page.text
    assert packages() == before


@pytest.mark.usefixtures("anything")
def test_selection_is_counted_before_approval(alice: Browser) -> None:
    form = the_form(alice.open(ASK))
    form.tick("Personal mail")

    page = again(alice, form)

    assert "5 records , 1 June 2025 to 5 March 2026" in page.text
    assert "Dinner on Friday?" in page.text
    assert "Everything in “Bank account”, “Work mail” and “Workspace”" in page.text


@pytest.mark.usefixtures("anything")
def test_preview_shows_what_describes_a_record_first_and_folds_the_rest(alice: Browser) -> None:
    form = the_form(alice.open(ASK))
    form.tick("Personal mail")
    form.tick("Messages")
    shown = again(alice, form)

    sample = shown.html.partition('<article class="sample">')[2].partition("</article>")[0]
    first, folded = sample.split("<details>")
    labels = [re.findall("<dt>(.*?)</dt>", part) for part in (first, folded)]
    assert labels[0][:2] == ["From name", "Received at"]
    assert f"{len(labels[1])} more fields that it will read" in folded
    assert len(labels[0]) <= 5
    assert "5 March 2026, 18:30" in first
    assert "[&quot;" not in sample
    assert "null" not in sample
    record = Record.unscoped.get(connection_id=PERSONAL, stream="messages", record_key="m3")
    assert len(labels[0] + labels[1]) == len(record.data)


@pytest.mark.usefixtures("anything")
def test_token_reads_exactly_what_was_shown(world: World, alice: Browser) -> None:
    form = the_form(alice.open(ASK))
    form.tick("Personal mail")
    form.untick("Threads")
    form.untick("Body text")
    form.fill(f"{prefix(form, 'Messages')}-since", "2026-01-12")
    page = again(alice, form)
    assert "2 of 5 records" in page.text
    assert "Wonderful, I will transfer" not in page.text
    assert "3 records and the field Body text" in page.text

    token = token_of(seen_and_allowed(alice, form))
    listed = world.get("/v1/streams/messages/records", token)

    assert listed.ids == ["m3", "m2"]
    assert "body_text" not in listed.body["data"][0]["data"]
    assert world.get("/v1/streams/threads/records", token).status == 403


@pytest.mark.usefixtures("anything")
def test_unreviewed_change_is_not_approved(alice: Browser) -> None:
    form = the_form(alice.open(ASK))
    form.tick("Personal mail")
    shown = the_form(again(alice, form))
    before = packages()

    shown.tick("Work mail")
    page = allow(alice, shown)

    assert page.status == 422
    assert "Your changes updated the summary" in page.text
    assert packages() == before
    assert "approved" in allow(alice, the_form(page)).text


@pytest.mark.usefixtures("anything")
@pytest.mark.parametrize("change", ["declaration", "label"])
def test_declaration_change_requires_another_review(
    world: World, alice: Browser, change: str
) -> None:
    form = the_form(alice.open(ASK))
    form.tick("Personal mail")
    shown = the_form(again(alice, form))
    before = packages()
    if change == "declaration":
        world.declare(MAIL | {"version": "1.0.1", "display_name": "Mail, now otherwise"})
    else:
        world_label(PERSONAL, "Not what it was")

    page = allow(alice, shown)

    assert page.status == 422
    assert packages() == before


def world_label(connection_id: str, label: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE evidence_connection SET display_name = %s WHERE connection_id = %s",
            [label, connection_id],
        )


@pytest.mark.usefixtures("anything")
def test_limits_and_expiry_apply_as_typed(world: World, alice: Browser) -> None:
    form = the_form(alice.open(ASK))
    form.tick("Bank account")
    shown = the_form(again(alice, form))
    shown.fill("limits-max_records_day", "3")
    shown.fill("limits-max_calls_minute", "100")
    shown.fill("terms-expires", "7")

    page = again(alice, shown)
    assert "Limit for each source: 100 calls per minute and 3 records per day" in page.text
    assert "at most 100 calls per minute and 3 records per day per source" in page.text
    approved = allow(alice, shown)
    token = token_of(Package.unscoped.get(pk=approved.text.split()[1]))
    listed = [world.get("/v1/streams/transactions/records", token).status for _ in range(2)]
    assert listed == [200, 429]
    [grant] = Grant.unscoped.filter(package_id=approved.text.split()[1])
    assert grant.expires_at is not None
    assert grant.expires_at < dt.datetime.now(dt.UTC) + dt.timedelta(days=7, minutes=5)


@pytest.mark.usefixtures("anything")
def test_empty_limit_is_no_limit_and_invalid_one_is_refused(alice: Browser) -> None:
    form = the_form(alice.open(ASK))
    form.tick("Bank account")
    shown = the_form(again(alice, form))
    shown.fill("limits-max_records_day", "0")
    before = packages()
    page = allow(alice, shown)
    assert (page.status, packages(), len(page.errors)) == (422, before, 1)
    assert ("details", {"class": "limits", "open": None}) in page.elements

    corrected = the_form(page)
    corrected.fill("limits-max_records_day", "")
    package = seen_and_allowed(alice, corrected)
    (grant,) = Grant.unscoped.filter(package=package)
    assert list_quotas(grant.pk, now=NOW) == []


@pytest.mark.usefixtures("anything")
def test_new_records_of_the_same_kind_do_not_prevent_an_answer(
    world: World, alice: Browser
) -> None:
    form = the_form(alice.open(ASK))
    form.tick("Personal mail")
    shown = the_form(again(alice, form))
    world.put((PERSONAL, "messages", {"id": "m9", "received_at": "2026-04-01T00:00:00Z"}))

    assert "approved" in allow(alice, shown).text


@pytest.mark.usefixtures("anything")
def test_form_submitted_twice_approves_once(alice: Browser) -> None:
    form = the_form(alice.open(ASK))
    form.tick("Bank account")
    shown = the_form(again(alice, form))
    before = packages()

    first, second = allow(alice, shown), allow(alice, shown)

    assert first.text == second.text
    assert packages() == before + 1


@pytest.mark.usefixtures("anything")
def test_review_of_another_account_is_not_approved(alice: Browser) -> None:
    form = the_form(alice.open(ASK))
    form.tick("Bank account")
    shown = the_form(again(alice, form))
    before = packages()
    other = Browser().sign_in(sign_up("carol", owner_id="carol"))
    token = dict(the_form(other.open(ASK)).answers)["csrfmiddlewaretoken"]
    shown.fill("csrfmiddlewaretoken", token)

    page = allow(other, shown)

    assert page.status == 422
    assert packages() == before


@pytest.mark.usefixtures("anything")
def test_wizard_requires_the_owner(world: World, alice: Browser) -> None:
    form = the_form(alice.open(ASK))
    form.tick("Bank account")
    shown = the_form(again(alice, form))
    before = packages()
    for stranger in (Browser(), Browser().sign_in(User.objects.create_user("mallory"))):
        stranger.http.handler.enforce_csrf_checks = False

        assert stranger.open(ASK).status == 403
        assert allow(stranger, shown).status == 403
    assert packages() == before


@pytest.mark.usefixtures("anything")
def test_wizard_requires_a_csrf_token(alice: Browser) -> None:
    form = the_form(alice.open(ASK))
    form.tick("Bank account")
    shown = the_form(again(alice, form))
    shown.answers = [each for each in shown.answers if each[0] != "csrfmiddlewaretoken"]
    before = packages()

    assert allow(alice, shown).status == 403
    assert packages() == before


@pytest.mark.usefixtures("anything")
def test_the_fields_of_the_caller_come_back_and_no_others(alice: Browser) -> None:
    form = the_form(alice.open(ASK))
    form.tick("Bank account")

    page = the_form(again(alice, form))

    assert page.values("state") == ["kept"]
    assert len(page.values("form_token")) == len(page.values("review_signature")) == 1


@pytest.mark.usefixtures("anything")
def test_the_page_cannot_be_framed_kept_or_loaded_into(alice: Browser) -> None:
    page = alice.open(ASK)

    assert "frame-ancestors 'none'" in page.headers["Content-Security-Policy"]
    assert "default-src 'none'" in page.headers["Content-Security-Policy"]
    assert page.headers["X-Frame-Options"] == "DENY"
    assert "no-store" in page.headers["Cache-Control"]
    for tag, given in page.elements:
        assert tag != "img"
        assert tag != "style"
        assert "style" not in given
        assert not (given.get("src") or "").startswith(("http", "//"))


def test_a_request_is_ticked_as_it_was_asked_and_can_only_be_narrowed(
    world: World, alice: Browser
) -> None:
    asked = detailed(
        RequestedStream(name="messages", fields=("subject", "received_at"), since=JANUARY)
    )
    with asking(asked):
        page = alice.open(ASK)
        form = the_form(page)
        assert form.is_ticked("Personal mail")
        assert "5 of 7 records" in page.text
        assert "To answer questions about your lease" in page.text
        assert "Body text" not in form.boxes
        assert not any(words.startswith("Threads") for words in form.boxes)

        form.untick("Work mail")
        form.fill(named(form, "-since"), "2020-01-01")
        form.answers.append((named(form, "-since").replace("since", "chosen"), "body_text"))
        refused = again(alice, form)
        assert "body_text is not one of the available choices" in refused.text
        form.answers.pop()
        package = seen_and_allowed(alice, form)

    listed = world.get("/v1/streams/messages/records", token_of(package))
    assert listed.ids == ["m3", "m2", "m1"]  # not m0, which is older than what was asked for
    assert set(listed.body["data"][0]["data"]) == {"id", "subject", "received_at"}
    (grant,) = Grant.unscoped.filter(package=package)
    assert grant.purpose_description == "To answer questions about your lease"
    assert [each["instance_ids"] for each in grant.streams] == [[PERSONAL]]


def test_a_request_names_its_connections_by_stream(world: World, alice: Browser) -> None:
    asked = detailed(
        RequestedStream(name="messages", instance_ids=(WORK,)),
        RequestedStream(name="threads", instance_ids=(PERSONAL,)),
    )
    with asking(asked):
        package = seen_and_allowed(alice, the_form(alice.open(ASK)))

    token = token_of(package)
    assert world.get("/v1/streams/messages/records", token).ids == ["w2", "m1"]
    assert world.get("/v1/streams/threads/records", token).ids == ["t1"]


def test_single_records_that_were_asked_for_are_the_most_that_is_given(
    world: World, alice: Browser
) -> None:
    with asking(detailed(RequestedStream(name="messages", resources=("m1", "m2")))):
        form = the_form(alice.open(ASK))
        form.fill(named(form, "-record_keys"), "m3")
        assert "No record “m3” found" in again(alice, form).text
        form.fill(named(form, "-record_keys"), "m2")
        package = seen_and_allowed(alice, form)

    assert world.get("/v1/streams/messages/records", token_of(package)).ids == ["m2"]


def test_what_cannot_be_given_is_said_and_left_out(alice: Browser) -> None:
    with asking(detailed(RequestedStream(name="letters"), RequestedStream(name="threads"))):
        page = alice.open(ASK)

    assert "Not included: “letters”: this source has no such stream." in page.text


def test_a_source_that_is_not_there_leaves_only_no(alice: Browser) -> None:
    with asking(detailed(source="diary")):
        page = alice.open(ASK)

        assert "https://registry.example/connectors/diary" in page.text
        assert "None of your connections matches" in page.text
        assert alice.press(the_form(page), "decision", "deny").text == "denied"


def test_access_ends_no_later_than_was_asked(alice: Browser) -> None:
    ends = timezone.now() + dt.timedelta(days=40)
    with asking(detailed(expires_at=ends)):
        form = the_form(alice.open(ASK))
        package = seen_and_allowed(alice, form)
        form.fill("terms-expires", "never")
        refused = again(alice, form)

    assert {grant.expires_at for grant in Grant.unscoped.filter(package=package)} == {ends}
    assert "never is not one of the available choices" in refused.text


DOCUMENTED = {"verified": True, "host": "claude.example"}


@pytest.mark.parametrize(
    ("known", "redirect_host", "says"),
    [
        (DOCUMENTED, "claude.example", "Verified: this app belongs to claude.example"),
        (DOCUMENTED, "localhost:33418", "Not verified: claude.example describes this app"),
        (DOCUMENTED, "x-claude:", "Not verified: claude.example describes this app"),
        (DOCUMENTED, None, "Not verified: claude.example describes this app"),
        ({}, "claude.example", "Not verified: any app can use this name."),
        ({"registered_by": "owner"}, "claude.example", "You registered this app yourself."),
    ],
)
def test_client_identity_is_shown(
    alice: Browser, known: dict[str, object], redirect_host: str | None, says: str
) -> None:
    fields = {
        "client_id": "cli_x", "name": "Bank\u202egro.elpmaxe", "uri": None, "host": None,
        "verified": False, "registered_by": "dynamic",
    } | known  # fmt: skip
    asked = plain(RequestingClient(**fields))  # type: ignore[arg-type]
    with asking(dataclasses.replace(asked, redirect_host=redirect_host)):
        page = alice.open(ASK)

    assert says in page.text
    assert "Bank⟨U+202E⟩gro.elpmaxe wants to read" in page.text


@pytest.mark.usefixtures("anything")
def test_a_refusal_at_the_last_moment_is_shown(alice: Browser) -> None:
    from evidence.errors import ConnectionNotFound

    form = the_form(alice.open(ASK))
    form.tick("Bank account")
    shown = the_form(again(alice, form))
    with patch(
        "owner.grants.wizard.issue", side_effect=ConnectionNotFound(message="Gone just now.")
    ):
        page = allow(alice, shown)

    assert page.status == 422
    assert "Gone just now." in page.text


@pytest.mark.usefixtures("anything")
def test_demo_data_is_apart_from_the_names_of_the_owner(world: World, alice: Browser) -> None:
    mailboxes = Connection.unscoped.filter(source__connector_key="mail")
    mailboxes.update(demo=True)
    page = alice.open(ASK)

    legends = re.findall(r"<legend>(.*?)</legend>", page.html)
    sources = [each for each in legends if each.startswith(("Bank", "Workspace", "Mail"))]
    assert sources == ["Bank", "Workspace", 'Mail <span class="badge">Demo</span>']
    assert {"Personal mail (demo)", "Work mail (demo)", "Bank account"} <= the_form(
        page
    ).boxes.keys()
    assert "What may it read? Demo" not in page.text

    Connection.unscoped.update(demo=True)
    alone = alice.open(ASK)
    assert "What may it read? Demo" in alone.text
    assert alone.html.count(">Demo<") == 1
