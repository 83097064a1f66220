"""The owner answers an app's request for more access."""

import re
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client as HttpClient
from django.utils import timezone

from evidence.access.grant_lifecycle import narrow_grant
from evidence.access.grant_terms import StreamRequest
from evidence.access.grants import GrantRequest, pause_client, revoke_client
from evidence.models.clients import Client
from evidence.models.connections import Connection
from evidence.models.grants import Grant, PermissionRequest
from owner.text import format_time
from tests.operations.notification_receivers import add_channel, announce
from tests.owner.pages.browser import Browser, Form, Page
from tests.world import PERSONAL, World

pytestmark = pytest.mark.slow

LIST = "/v1/streams/messages/records"
THREADS = "/v1/streams/threads/records"


def ask(world: World, path: str = LIST, who: str = "bob", **query: Any) -> str:
    """The path of the link in a refusal."""
    url: str = world.get(path, who, **(query or {"fields": "labels"})).error["ask_url"]
    return "/ask/" + url.rpartition("/")[2]


def press(alice: Browser, form: Form, answer: str) -> Page:
    form.fill("answer", answer)
    return alice.press(form)


def test_page_shows_the_difference(world: World, alice: Browser) -> None:
    page = alice.open(ask(world, fields="size_bytes"))

    assert "Bob asks to read more" in page.text
    assert "It could not read Size of Messages in Mail" in page.text
    assert "Messages: shows the field Size." in page.text
    assert "5 records, 10 January 2026 to 5 March 2026" in page.text
    assert "700" in page.text, "the newest record shows the field"
    assert "Shall we meet" not in page.text, "and no other one"
    assert "From email" in page.text.partition("Stays hidden")[2]


def test_page_shows_a_whole_stream(world: World, alice: Browser) -> None:
    page = alice.open(ask(world, THREADS, limit=1))

    assert "It could not read Threads in Mail" in page.text
    assert "Threads: shows 1 more record and the fields Id and Topic." in page.text
    assert "The lease" in page.text
    assert "Time range None: these records have no dates" in page.text


@pytest.mark.parametrize(
    ("answer", "status", "said"),
    [
        ("once", 200, "Bob can now read Labels of Messages in Mail once."),
        ("hour", 200, "Bob can now read Labels of Messages in Mail for an hour."),
        ("always", 200, "Bob can now read Labels of Messages in Mail."),
        ("declined", 403, "Bob stays without Labels of Messages in Mail."),
    ],
)
def test_owner_answers(world: World, alice: Browser, answer: str, status: int, said: str) -> None:
    alice.http.defaults["HTTP_ACCEPT"] = "text/html"
    path = ask(world)
    assert "Bob asks to read Labels of Messages in Mail." in alice.open("/").text
    form = alice.open(alice.open("/").link("Decide")).form
    assert world.get(LIST, fields="labels").status == 403, "to open the page changes nothing"

    after = press(alice, form, answer)

    assert said in after.text
    assert world.get(LIST, fields="labels").status == status
    assert "asks to read" not in alice.open("/").text
    again = press(alice, form, "always")
    assert "It asked to read Labels of Messages in Mail" in again.text
    assert "You answered this on" in again.text
    assert PermissionRequest.unscoped.get().answer == answer
    assert again.status == alice.open(path).status == 200
    assert not [each for each in again.forms if each.action.endswith(path)]


def test_apps_show_when_access_for_once_ends(world: World, alice: Browser) -> None:
    alice.http.defaults["HTTP_ACCEPT"] = "text/html"
    press(alice, alice.open(ask(world)).form, "once")
    hour = format_time(Grant.unscoped.get(access_mode="single_use").expires_at)
    unread = alice.open("/connected").text
    assert f"ends ten minutes after the first answer, at the latest {hour}." in unread

    world.get(LIST, fields="labels")

    until = format_time(Grant.unscoped.get(access_mode="single_use").readable_until)
    read = alice.open("/connected").text
    assert f"expires {until}" in read
    assert hour not in read


def test_link_needs_the_owner(world: World, alice: Browser) -> None:
    path = ask(world)
    form = alice.open(path).form
    stranger = Browser().sign_in(User.objects.create_user("mallory", is_staff=True))

    bearer = {"Authorization": f"Bearer {world.tokens['alice']}"}
    for client in (HttpClient(), HttpClient(headers=bearer), stranger.http):
        client.handler.enforce_csrf_checks = False
        for answered in (client.get(path), client.post(path, {"answer": "always"})):
            assert answered.status_code == 302
            assert answered.headers["Location"] == f"/login?next={path}"
    assert world.get(LIST, fields="labels").status == 403
    assert press(alice, form, "hour").status == 200


def test_answer_needs_the_token_of_the_form(world: World, alice: Browser) -> None:
    path = ask(world)
    form = alice.open(path).form
    signature = form.values("review_signature")[0]
    strict = HttpClient(enforce_csrf_checks=True)
    strict.cookies = alice.http.cookies

    forged = strict.post(path, {"answer": "always", "review_signature": signature})

    assert forged.status_code == 403
    unsigned = alice.http.post(
        path, {"answer": "always", "csrfmiddlewaretoken": form.values("csrfmiddlewaretoken")[0]}
    )
    assert unsigned.status_code in (403, 422)
    form.fill("review_signature", "0" * 64)
    assert "The access changed meanwhile" in press(alice, form, "always").text
    assert world.get(LIST, fields="labels").status == 403


def test_answer_is_one_of_four(world: World, alice: Browser) -> None:
    path = ask(world)

    assert press(alice, alice.open(path).form, "everything").status == 422

    assert PermissionRequest.unscoped.get().answered_at is None


def test_signature_of_one_request_does_not_answer_another(world: World, alice: Browser) -> None:
    first, second = ask(world, fields="labels"), ask(world, fields="is_seen")
    form = alice.open(second).form
    form.fill("review_signature", alice.open(first).form.values("review_signature")[0])

    assert press(alice, form, "always").status == 422

    assert world.get(LIST, fields="is_seen").status == 403


def test_what_changed_meanwhile_is_shown_again(world: World, alice: Browser) -> None:
    grant = world.grants["bob"][0]
    form = alice.open(ask(world)).form
    kept = [
        StreamRequest(name="messages", fields=["subject"], resources=["m1"], since=since(grant))
    ]
    narrow_grant(grant.pk, kept, connection_ids=[PERSONAL], expires_at=None, now=timezone.now())

    page = press(alice, form, "always")

    assert page.status == 422
    assert "1 record," in page.text
    assert world.get(LIST, fields="labels").status == 403
    assert press(alice, page.form, "always").status == 200
    assert world.get(LIST).body["data"][0]["data"].keys() == {"id", "subject", "labels"}


def since(grant: Grant) -> Any:
    return datetime.fromisoformat(grant.streams[0]["time_constraint"]["since"])


@pytest.mark.parametrize("how", ["expired", "paused", "revoked", "granted", "no connection"])
def test_request_that_has_ended_shows_no_form(world: World, alice: Browser, how: str) -> None:
    alice.http.defaults["HTTP_ACCEPT"] = "text/html"
    path, now = ask(world), timezone.now()
    form = alice.open(path).form
    match how:
        case "expired":
            PermissionRequest.unscoped.update(expires_at=now)
        case "paused":
            pause_client(world.packages["bob"].client_id, now=now)
        case "revoked":
            revoke_client(world.packages["bob"].client_id, now=now)
        case "granted":
            Grant.unscoped.filter(pk=world.grants["bob"][0].pk).update(revoked_at=now)
        case _:
            Connection.unscoped.filter(source__connector_key="mail").update(status="revoked")
    grants = Grant.unscoped.count()

    page = alice.open(path)

    assert (page.status, "This request has ended" in page.text) == (410, True)
    assert press(alice, form, "always").status == 410
    assert Grant.unscoped.count() == grants
    if how != "no connection":
        assert "asks to read" not in alice.open("/").text


def test_unknown_link_is_not_found(world: World, alice: Browser) -> None:
    path = ask(world)

    for other in (path[:-1], path + "A", path.swapcase(), "/ask/" + "A" * 24):
        assert alice.open(other).status == 404


def test_app_of_another_client_has_a_link_of_its_own(world: World, alice: Browser) -> None:
    request = GrantRequest(
        connection_ids=[PERSONAL], streams=[StreamRequest(name="messages", fields=["subject"])]
    )
    world.grant("eve", request)
    bobs, eves = ask(world), ask(world, who="eve")
    assert bobs != eves

    press(alice, alice.open(eves).form, "always")

    assert world.get(LIST, "eve", fields="labels").status == 200
    assert world.get(LIST, "bob", fields="labels").status == 403
    assert ask(world) == bobs


def test_hostile_name_stays_text(world: World, alice: Browser) -> None:
    alice.http.defaults["HTTP_ACCEPT"] = "text/html"
    name = "<script>alert(1)</script> {} The owner allowed this"
    Client.unscoped.filter(pk=world.packages["bob"].client_id).update(display_name=name)
    path = ask(world)

    for page in (alice.open(path), alice.open("/")):
        assert "<script>alert" not in page.html
        assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page.html
    after = press(alice, alice.open(path).form, "declined")
    assert "<script>alert" not in after.html


def test_page_has_only_names_that_the_source_declares(world: World, alice: Browser) -> None:
    """No word of a record or of a call gets on the page but values that the owner would share."""
    path = ask(world, filter__labels="please allow this")

    assert "please allow this" not in alice.open(path).html


def test_other_pages_say_that_a_request_waits(world: World, alice: Browser) -> None:
    assert "waits for your answer" not in alice.open("/connected").text
    ask(world, fields="labels")
    assert "1 request for more access waits for your answer." in alice.open("/connected").text
    ask(world, fields="is_seen")

    page = alice.open("/connected")

    assert "2 requests for more access wait for your answer." in page.text
    assert page.link("See them").endswith("/#attention")
    assert "for your answer" not in Browser().open("/login").text


def test_owner_is_notified_once(world: World) -> None:
    add_channel()
    path = ask(world)

    [text] = announce(2)

    assert text.startswith("“Bob” asks to read more of Mail.")
    assert path not in text, "a message is no place for the link"


def test_page_loads_nothing_from_elsewhere(world: World, alice: Browser) -> None:
    page = alice.open(ask(world))

    assert "default-src 'none'" in page.headers["Content-Security-Policy"]
    assert page.headers["Cache-Control"] == "private, no-store"
    assert page.headers["Referrer-Policy"] == "same-origin"
    assert not re.findall(r'(?:src|href)="https?:', page.html)


def test_temporary_access_is_shown_with_its_end(world: World, alice: Browser) -> None:
    press(alice, alice.open(ask(world)).form, "hour")

    page = alice.open("/connected")

    ends = timezone.now() + timedelta(hours=1)
    assert f"{ends:%B %Y}" in page.text
    assert "for a short time, expires" in page.text
    Grant.unscoped.filter(extends__isnull=False).update(revoked_at=timezone.now())
    assert "for a short time" not in alice.open("/connected").text
