"""The owner gives access on one page, without scripts."""

import datetime as dt

import pytest
from django.utils import timezone

from evidence.errors import ConnectionNotFound
from evidence.models.clients import Client
from evidence.models.grants import AccessToken, Grant, Package
from owner.grants import wizard
from tests.access.test_narrowed_meanwhile import overtake
from tests.owner.pages.browser import Browser, Form, Page
from tests.owner.pages.giving import ADD, allow, at, bearers, give, of, review, what
from tests.owners import sign_up
from tests.world import ACCOUNT, BANK, PERSONAL, World, mail

pytestmark = pytest.mark.slow


def newest() -> Grant:
    return Grant.unscoped.order_by("-issued_at").first() or pytest.fail("there is no grant")


def counts() -> tuple[int, int, int]:
    return (Grant.unscoped.count(), AccessToken.unscoped.count(), Client.unscoped.count())


def only_rest(form: Form) -> Form:
    form.untick("an AI agent")
    form.tick("my own app")
    return form


def test_the_token_reads_what_was_ticked_and_nothing_else(world: World, alice: Browser) -> None:
    form = only_rest(what(alice, "Personal mail"))
    form.tick("Messages")
    for words in ("From email", "Labels", "Seen", "Size", "Conversation"):
        form.untick(words)
    form.fill(of(form, "Messages", "since"), "2026-01-12")
    form.fill(of(form, "Messages", "until"), "2026-03-05")

    (token,) = bearers(give(alice, form))
    listed = world.get("/v1/streams/messages/records", token)

    assert listed.ids == ["m3", "m2"]
    assert set(listed.body["data"][0]["data"]) == {
        "id", "subject", "from_name", "received_at", "body_text",
    }  # fmt: skip
    assert world.get("/v1/streams/messages/records/m1", token).status == 404
    assert world.get("/v1/streams/threads/records", token).status == 403
    assert world.get("/v1/streams/transactions/records", token).status == 404


def test_each_kind_of_program_gets_a_token_of_its_own(world: World, alice: Browser) -> None:
    form = what(alice, "Bank account")
    form.tick("Transactions")
    form.tick("my own app")

    page = give(alice, form)
    agent, program = bearers(page)

    assert (
        f'claude mcp add --transport http pdpp http://127.0.0.1:8000/mcp --header "Authorization: Bearer {agent}"'
        in page.text
    )
    assert f'curl -H "Authorization: Bearer {program}"' in page.text
    assert world.get("/v1/streams/transactions/records", program).status == 200
    assert world.get("/v1/streams/transactions/records", agent).status == 401


def test_the_token_is_shown_once_and_kept_by_nobody(world: World, alice: Browser) -> None:
    form = what(alice, "Bank account")
    form.tick("Transactions")

    page = give(alice, form)
    (token,) = bearers(page)

    assert "no-store" in page.headers["Cache-Control"]
    row = AccessToken.unscoped.latest("created_at")
    for address in ("/admin/evidence/grant/", at("grant", newest().pk), "/tokens"):
        later = alice.open(address)
        assert later.status == 200
        assert bearers(later) == []
    assert token.encode() not in bytes(row.digest)
    assert token not in str(list(alice.http.session.values()))


def test_several_sources_make_one_package_with_a_grant_for_each(
    world: World, alice: Browser
) -> None:
    form = only_rest(what(alice, "Personal mail", "Work mail", "Bank account"))
    form.tick("Messages")
    form.tick("Transactions")

    (token,) = bearers(give(alice, form))

    package = newest().package
    assert Grant.unscoped.filter(package=package).count() == 2
    assert len(world.get("/v1/streams/messages/records", token).ids) == 7
    assert len(world.get("/v1/streams/transactions/records", token).ids) == 3


def test_single_records_are_named_by_their_keys(world: World, alice: Browser) -> None:
    form = only_rest(what(alice, "Personal mail"))
    form.tick("Messages")
    form.fill(of(form, "Messages", "record_keys"), " m1 \r\nm4\r\n\r\nm1")

    (token,) = bearers(give(alice, form))

    assert sorted(world.get("/v1/streams/messages/records", token).ids) == ["m1", "m4"]


def test_a_client_is_made_with_its_first_grant_and_not_before(world: World, alice: Browser) -> None:
    form = what(alice, "Bank account", client="Budget script")
    form.tick("Transactions")
    reviewed = review(alice, form)
    assert not Client.unscoped.filter(display_name="Budget script").exists()

    allow(alice, reviewed.form)

    assert newest().package.client.display_name == "Budget script"


def test_a_known_client_is_chosen_from_the_list(world: World, alice: Browser) -> None:
    bob = world.packages["bob"].client
    form = what(alice, "Bank account", client="")
    form.fill("client", bob.pk)
    form.tick("Transactions")

    give(alice, form)

    assert newest().package.client == bob
    assert Package.unscoped.filter(client=bob).count() == 2


def test_the_key_of_a_record_is_always_given_and_says_so(world: World, alice: Browser) -> None:
    form = what(alice, "Bank account")
    form.tick("Transactions")
    page = review(alice, form)
    fixed = [
        given
        for tag, given in page.elements
        if tag == "input" and "disabled" in given and "checked" in given
    ]

    assert fixed
    assert "Id always included: identifies the record" in page.text
    for words in ("Date", "Amount", "Currency", "Memo"):
        form.untick(words)
    give(alice, form)
    assert newest().streams[0]["fields"] == ["id", "name"]


def test_a_view_ticks_its_fields_and_no_others(world: World, alice: Browser) -> None:
    form = what(alice, "Personal mail")
    prefix = of(form, "Messages", "").removesuffix("-")
    form.fill("purpose", "Find the lease")

    page = alice.press(form, "pick", f"{prefix}:envelope")

    assert sorted(page.form.values(f"{prefix}-chosen")) == ["received_at", "subject"]
    assert page.form.is_ticked("Messages")
    assert page.form.values("purpose") == ["Find the lease"]
    everything = alice.press(page.form, "pick", f"{prefix}:")
    assert len(everything.form.values(f"{prefix}-chosen")) == 9


def test_streams_with_equal_terms_share_a_sentence_and_faulty_dates_are_left_out(
    world: World, alice: Browser
) -> None:
    world.put((PERSONAL, "messages", mail("m9", "0001-01-01T00:00:00Z")))
    form = what(alice, "Personal mail")
    form.tick("Messages")
    form.tick("Threads")

    reviewed = review(alice, form)

    sentence = "Messages and Threads: every field of all records, through “Personal mail”."
    assert sentence in reviewed.text
    assert "6 records of Messages" in reviewed.text
    assert "January 1 " not in reviewed.text


def test_two_submits_at_the_same_moment_give_access_once(committed: World) -> None:
    alice = Browser().sign_in(sign_up("alice"))
    form = what(alice, "Bank account")
    form.tick("Transactions")
    reviewed = review(alice, form)
    tab = Browser()
    tab.http.cookies = alice.http.cookies
    packages, (grants, tokens, clients) = Package.unscoped.count(), counts()
    pages = list[Page]()

    overtake(
        lambda: pages.append(allow(alice, reviewed.form)),
        lambda: pages.append(allow(tab, reviewed.form)),
    )

    assert [len(bearers(each)) for each in pages] == [1, 0]
    assert "Access was already given" in pages[1].text
    assert Package.unscoped.count() == packages + 1
    assert counts() == (grants + 1, tokens + 1, clients + 1)


def test_an_answer_without_its_summary_gives_no_access(world: World, alice: Browser) -> None:
    form = what(alice, "Bank account")
    form.tick("Transactions")
    before = counts()

    for mark in ("", "x" * 3_000):
        form.fill("review_signature", mark)
        page = allow(alice, form)
        assert page.status == 422
        assert "Your changes updated the summary" in page.text

    assert counts() == before


@pytest.mark.parametrize(("choice", "days"), [(None, 90), ("1", 1), ("365", 365), ("never", None)])
def test_access_ends_after_ninety_days_unless_said_otherwise(
    world: World, alice: Browser, choice: str | None, days: int | None
) -> None:
    form = what(alice, "Bank account")
    form.tick("Transactions")
    form.fill("purpose", "Taxes")
    if choice is not None:
        form.fill("terms-expires", choice)

    give(alice, form)

    grant = newest()
    assert grant.purpose_description == "Taxes"
    if days is None:
        assert grant.expires_at is None
    else:
        assert grant.expires_at is not None
        lasts = grant.expires_at - timezone.now()
        assert dt.timedelta(days=days, minutes=-5) < lasts <= dt.timedelta(days=days)


def test_the_name_of_the_app_is_checked(world: World, alice: Browser) -> None:
    before = counts()
    form = what(alice, "Bank account")
    form.tick("Transactions")
    for client, complaint in (
        ("", "Enter a name, or choose an app."),
        ("Bob", "An app with this name exists. Choose it in the list."),
        ("Bo\u202eb", "Use visible characters only."),
        ("x" * 201, "at most 200 characters"),
    ):
        form.fill("new_client", client)
        page = give(alice, form)
        assert page.status == 422
        assert any(complaint in error for error in page.errors), page.errors
        assert page.form.values("new_client") == [client]

    form.fill("new_client", "Claude")
    form.fill("client", world.packages["bob"].client_id)
    assert "Choose an app or enter a new name, not both." in give(alice, form).errors
    assert counts() == before


def test_the_page_marks_what_is_wrong(world: World, alice: Browser) -> None:
    form = what(alice, "Personal mail")
    form.tick("Messages")
    form.fill(of(form, "Messages", "since"), "2026-01-01")
    assert review(alice, form).errors == []
    before, right = counts(), list(form.answers)
    for name, value, complaint in (
        (of(form, "Messages", "since"), "soon", "Enter a valid date."),
        (of(form, "Messages", "since"), "0001-01-01", "greater than or equal to"),
        (of(form, "Messages", "until"), "9999-12-31", "less than or equal to"),
        (of(form, "Messages", "until"), "2025-12-31", "The time range ends before it starts."),
        (of(form, "Messages", "record_keys"), "m1\nnope\u202e", "No record “nope⟨U+202E⟩” found."),
        ("terms-expires", "12345", "Select a valid choice."),
        ("purpose", "x" * 1001, "at most 1000 characters"),
    ):
        form.answers = list(right)
        form.fill(name, value)
        page = allow(alice, form)
        assert page.status == 422
        assert any(complaint in error for error in page.errors), page.errors

    assert counts() == before


def test_a_stream_without_fields_and_a_source_without_streams_are_refused(
    world: World, alice: Browser
) -> None:
    form = what(alice, "Bank account")
    nothing = review(alice, form)
    form.tick("Transactions")
    for words in ("Date", "Amount", "Currency", "Name", "Memo"):
        form.untick(words)
    without_fields = review(alice, form)

    assert "Select at least one stream" in nothing.text
    assert any("Select at least one field." in error for error in without_fields.errors)


def test_a_stream_without_time_offers_no_dates(world: World, alice: Browser) -> None:
    form = what(alice, "Personal mail")

    # Messages have a time, conversations have none; both can be given record by record.
    for stream, has_time in (("Messages", True), ("Threads", False)):
        assert bool(form.values(of(form, stream, "since"))) is has_time
        assert form.values(of(form, stream, "record_keys")) == [""]


@pytest.mark.parametrize("connection_id", ["cin_nobodys", BANK])
def test_a_connection_that_is_not_there_or_has_ended_cannot_be_given(
    world: World, alice: Browser, connection_id: str
) -> None:
    from evidence.models.connections import Connection

    form = what(alice, "Personal mail")
    form.tick("Messages")
    [name] = {name for name, value in form.answers if value == PERSONAL}
    form.answers = [(name, connection_id) if each[1] == PERSONAL else each for each in form.answers]
    Connection.unscoped.filter(pk=BANK).update(status="revoked")
    before = counts()

    page = give_anyway(alice, form)

    assert page.status == 422
    assert counts() == before


def give_anyway(browser: Browser, form: Form) -> Page:
    return allow(browser, review(browser, form).form)


def test_a_connection_that_ends_meanwhile_is_refused_at_the_last_button(
    world: World, alice: Browser
) -> None:
    from evidence.models.connections import Connection

    form = what(alice, "Personal mail", "Bank account")
    form.tick("Transactions")
    form.tick("Messages")
    reviewed = review(alice, form)
    before = counts()
    Connection.unscoped.filter(pk=PERSONAL).update(status="revoked")

    page = allow(alice, reviewed.form)

    assert page.status == 422
    assert counts() == before


def test_without_any_connection_the_page_leads_to_the_import(
    db: None, django_user_model: type
) -> None:

    browser = Browser().sign_in(sign_up("alice"))

    assert "Import an export" in browser.open(browser.open(ADD).link("Import")).text


def test_a_view_that_is_not_there_ticks_nothing_else(world: World, alice: Browser) -> None:
    form = what(alice, "Personal mail")
    prefix = of(form, "Messages", "").removesuffix("-")

    for pick in ("nonsense", f"{prefix}:nonsense", ":"):
        page = alice.press(form, "pick", pick)
        assert page.form.values(f"{prefix}-chosen") == form.values(f"{prefix}-chosen")
        assert not page.form.is_ticked("Messages")


def test_a_stream_that_is_given_as_a_whole_has_no_boxes(world: World, alice: Browser) -> None:
    document = {
        **ACCOUNT,
        "connector_id": "https://registry.example/connectors/whole",
        "connector_key": "whole",
        "display_name": "Whole",
        "streams": [
            {
                **ACCOUNT["streams"][0],
                "selection": {"fields": False, "resources": False},
                "display": {"label": "Everything booked"},
            }
        ],
    }
    world.declare(document)
    world.connect("cin_whole", "whole", "Whole account")

    form = what(alice, "Whole account")
    form.tick("Everything booked")
    page = review(alice, form)

    assert "This stream is always shared with all its fields." in page.text
    prefix = of(form, "Everything booked", "")
    chosen = (f"{prefix}chosen", f"{prefix}record_keys")
    assert not [name for name, _ in form.answers if name in chosen]
    give(alice, form)
    assert len(newest().streams[0]["fields"]) == 6


def test_a_refusal_at_the_last_moment_comes_back_to_the_form_and_nothing_is_written(
    world: World, alice: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object, **__: object) -> None:
        raise ConnectionNotFound(message="No such connection: cin_bank.")

    form = what(alice, "Bank account")
    form.tick("Transactions")
    reviewed = review(alice, form)
    before = counts()
    monkeypatch.setattr(wizard, "issue", refused)

    page = allow(alice, reviewed.form)

    assert page.status == 422
    assert "No such connection: cin_bank." in page.text
    assert page.form.is_ticked("Transactions")
    assert counts() == before
