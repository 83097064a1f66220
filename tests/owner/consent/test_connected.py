"""Connected apps: what they show, and that pausing, narrowing and ending hold at once."""

import datetime as dt
import re

import pytest
from django.utils import timezone

from evidence.access.grant_lifecycle import narrow_grant
from evidence.access.grant_terms import StreamRequest
from evidence.access.grants import GrantRequest
from evidence.errors import GrantRevoked, InvalidRequest
from evidence.models.events import Subscription
from evidence.models.grants import Grant
from tests.events.receiving import SUBSCRIPTIONS, send_json
from tests.owner.pages.browser import Browser, Form, Page
from tests.world import BANK, PERSONAL, WORK, World

CONNECTED = "/connected"
MESSAGES = "/v1/streams/messages/records"


def client(world: World, name: str) -> str:
    return world.packages[name].client_id


def do(browser: Browser, world: World, deed: str, name: str) -> Page:
    """Open the question of a deed and say yes."""
    page = browser.open(f"{CONNECTED}/{deed}?client={client(world, name)}")
    return browser.press(page.form)


def narrowing(world: World, name: str) -> str:
    return f"{CONNECTED}/narrow?grant={world.grants[name][0].pk}"


def standing(world: World, name: str) -> Grant:
    return Grant.unscoped.get(package=world.packages[name], superseded_by=None)


def prefix(form: Form, stream: str) -> str:
    (name,) = {name for said, (name, _) in form.boxes.items() if said.startswith(stream)}
    return name.removesuffix("-included")


def test_app_shows_its_webhook_hosts(world: World, alice: Browser) -> None:
    send_json(world, "POST", SUBSCRIPTIONS, callback_url="https://receiver.example/hook?key=geheim")
    assert "receiver.example" not in alice.open(CONNECTED).text
    Subscription.unscoped.update(status=Subscription.Status.ACTIVE)

    page = alice.open(CONNECTED)

    assert "without record contents, go to receiver.example" in page.text
    assert "geheim" not in page.text


def test_app_shows_its_grants_and_usage(world: World, alice: Browser) -> None:
    world.get(MESSAGES, "bob")
    world.get(MESSAGES, "bob")

    page = alice.open(CONNECTED)

    assert page.status == 200
    assert re.search(r"Bob Active Last used (now|an? \w+ ago|\d+\W\w+ ago) · Today: 10", page.text)
    assert "Today: 10 records in 2 answers · Last 7 days: 10 records in 2 answers" in page.text
    assert "Charlie Active Last used never · Today: nothing · Last 7 days: nothing" in page.text
    assert "does not expire. No limits." in page.text
    assert "received from 1 January 2026 on, through “Personal mail” and “Work mail”." in page.text
    assert "default-src 'none'" in page.headers["Content-Security-Policy"]
    assert "no-store" in page.headers["Cache-Control"]


def test_confirmation_page_changes_nothing(world: World, alice: Browser) -> None:
    for deed in ("pause", "resume", "end"):
        assert alice.open(f"{CONNECTED}/{deed}?client={client(world, 'bob')}").status == 200

    assert world.get(MESSAGES).status == 200


def test_app_action_requires_a_csrf_token(world: World, alice: Browser) -> None:
    answer = alice.http.post(f"{CONNECTED}/end?client={client(world, 'bob')}")

    assert answer.status_code == 403
    assert world.get(MESSAGES).status == 200


def test_only_an_end_that_stays_is_marked_as_one(world: World, alice: Browser) -> None:
    for deed, is_marked in (("pause", False), ("resume", False), ("end", True)):
        page = alice.open(f"{CONNECTED}/{deed}?client={client(world, 'bob')}")
        assert ('<button class="danger primary">' in page.html) == is_marked, deed


def test_paused_app_reads_nothing_until_resumed(world: World, alice: Browser) -> None:
    page = do(alice, world, "pause", "bob")
    assert "Bob is paused and cannot read anything." in page.text
    assert "Bob Paused" in page.text

    refused = world.get(MESSAGES, "bob")
    assert (refused.status, refused.error["code"]) == (403, "grant_paused")
    assert world.get("/v1/streams/transactions/records", "charlie").status == 200

    assert "Bob can read again." in do(alice, world, "resume", "bob").text
    assert world.get(MESSAGES, "bob").status == 200


def test_a_pause_is_undone_unless_something_was_paused_before(world: World, alice: Browser) -> None:
    def undo(page: Page) -> list[Form]:
        [note] = re.findall(r'<div class="note good.*?</div>', page.html, re.DOTALL)
        return [each for each in page.own_forms if f'action="{each.action}"' in note][:1]

    paused = do(alice, world, "pause", "dora")
    assert "Dora can read again." in alice.press(undo(paused)[0]).text
    assert world.get("/v1/streams/transactions/records", "dora").status == 200

    Grant.unscoped.filter(pk=world.grants["dora"][0].pk).update(paused_at=timezone.now())
    assert undo(do(alice, world, "pause", "dora")) == []


def test_disconnected_app_reads_nothing(world: World, alice: Browser) -> None:
    page = do(alice, world, "end", "bob")

    assert "Bob is disconnected." in page.text
    assert world.get(MESSAGES, "bob").error["code"] == "grant_revoked"
    do(alice, world, "resume", "bob")
    assert world.get(MESSAGES, "bob").error["code"] == "grant_revoked"


def test_unknown_app_is_not_found(world: World, alice: Browser) -> None:
    assert alice.open(f"{CONNECTED}/end?client=cli_none").status == 404
    assert alice.open(f"{CONNECTED}/narrow?grant=grt_none").status == 404


def test_narrowing_applies_to_the_next_request(world: World, alice: Browser) -> None:
    bookmark = world.get(MESSAGES, "bob", changes_since="beginning").body["next_changes_since"]
    form = alice.open(narrowing(world, "bob")).form
    assert form.is_ticked("Personal mail")
    assert not any(words.startswith("From email") for words in form.boxes)  # was never granted
    form.untick("Work mail")
    form.untick("Body text")
    form.fill(f"{prefix(form, 'Messages')}-since", "2026-01-12")
    counted = alice.press(form, "decision", "review")
    assert "2 of 5 records" in counted.text

    page = alice.press(counted.form, "decision", "allow")
    listed = world.get(MESSAGES, "bob")

    assert "Bob can now read less." in page.text
    assert listed.ids == ["m3", "m2"]
    assert "body_text" not in listed.body["data"][0]["data"]
    assert world.get(MESSAGES, "bob", changes_since=bookmark).status == 410
    assert Grant.unscoped.get(pk=world.grants["bob"][0].pk).superseded_by == standing(world, "bob")


def test_narrowing_keeps_the_end_of_access_unless_the_owner_changes_it(
    world: World, alice: Browser
) -> None:
    form = alice.open(narrowing(world, "bob")).form
    form.untick("Work mail")
    counted = alice.press(form, "decision", "review")
    assert "Access does not expire." in counted.text
    counted.form.fill("terms-expires", "30")
    end = timezone.now() + dt.timedelta(days=30)
    change = f"Access will expire on {end.day} {end:%B %Y}. Currently, it does not expire."

    assert change not in counted.text
    assert change in alice.press(counted.form, "decision", "review").text
    counted.form.fill("terms-expires", "never")
    alice.press(counted.form, "decision", "allow")
    assert standing(world, "bob").expires_at is None


def test_unreviewed_change_is_not_narrowed(world: World, alice: Browser) -> None:
    form = alice.open(narrowing(world, "bob")).form
    form.untick("Work mail")

    page = alice.press(form, "decision", "allow")

    assert page.status == 422
    assert "Your changes updated the summary" in page.text
    assert standing(world, "bob") == world.grants["bob"][0]


def test_narrowing_to_nothing_is_refused(world: World, alice: Browser) -> None:
    form = alice.open(narrowing(world, "bob")).form
    form.untick("Work mail")
    form.untick("Personal mail")

    assert "Nothing would be left" in alice.press(form, "decision", "allow").text


def test_form_submitted_twice_narrows_once(world: World, alice: Browser) -> None:
    form = alice.press(alice.open(narrowing(world, "bob")).form, "decision", "review").form

    first = alice.press(form, "decision", "allow")
    second = alice.press(form, "decision", "allow")

    assert "can now read less" in first.text
    assert second.status == 404


def test_a_paused_grant_stays_paused_when_it_is_narrowed(world: World, alice: Browser) -> None:
    do(alice, world, "pause", "bob")
    form = alice.press(alice.open(narrowing(world, "bob")).form, "decision", "review").form
    alice.press(form, "decision", "allow")

    assert world.get(MESSAGES, "bob").error["code"] == "grant_paused"


JANUARY = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
ASKED = {"name": "messages", "fields": ["id", "subject"], "since": JANUARY}
WIDER = {
    "connections": ({}, [PERSONAL, WORK]),
    "streams": ({"name": "threads", "fields": ["id"], "since": None}, [PERSONAL]),
    "fields": ({"fields": ["id", "size_bytes"]}, [PERSONAL]),
    "since": ({"since": JANUARY - dt.timedelta(days=1)}, [PERSONAL]),
}


@pytest.mark.parametrize("wider", [None, *WIDER])
def test_narrowed_grant_is_never_wider(world: World, wider: str | None) -> None:
    request = GrantRequest(
        connection_ids=[PERSONAL],
        streams=[StreamRequest(**ASKED)],  # type: ignore[arg-type]
    )
    world.grant("erin", request)
    changed, connections = ({}, [PERSONAL]) if wider is None else WIDER[wider]

    def take() -> None:
        narrow_grant(
            world.grants["erin"][0].pk,
            [StreamRequest(**(ASKED | changed))],  # type: ignore[arg-type]
            connection_ids=connections,
            expires_at=None,
            now=timezone.now(),
        )

    if wider is None:
        take()
        assert standing(world, "erin") != world.grants["erin"][0]
    else:
        with pytest.raises(InvalidRequest) as refused:
            take()
        assert refused.value.param == wider
        assert standing(world, "erin") == world.grants["erin"][0]


def test_single_records_can_only_become_fewer(world: World) -> None:
    keys = StreamRequest(name="messages", resources=["m1", "m2"])
    world.grant("erin", GrantRequest(connection_ids=[PERSONAL, WORK], streams=[keys]))
    grant = world.grants["erin"][0]

    def take(*keys: str) -> Grant:
        return narrow_grant(
            grant.pk,
            [StreamRequest(name="messages", resources=keys)],
            connection_ids=[PERSONAL],
            expires_at=None,
            now=timezone.now(),
        )

    with pytest.raises(InvalidRequest):
        take("m1", "m3")
    assert take("m1").streams[0]["resources"] == ["m1"]
    with pytest.raises(GrantRevoked):
        take("m1")


def test_narrowed_grant_expires_no_later(world: World) -> None:
    soon, late = (timezone.now() + dt.timedelta(days=days) for days in (30, 900))
    stream = StreamRequest(name="transactions")
    world.grant("erin", GrantRequest(connection_ids=[BANK], streams=[stream], expires_at=soon))

    successor = narrow_grant(
        world.grants["erin"][0].pk,
        [stream],
        connection_ids=[BANK],
        expires_at=late,
        now=timezone.now(),
    )

    assert successor.expires_at == soon
