"""Whoever reads the database signs in nowhere: no secret that works is in any column of any table."""

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.test import Client
from django.utils import timezone
from time_machine import travel

from operations import background_jobs
from owner import second_factor
from tests.events.conftest import receiver
from tests.events.receiving import SUBSCRIPTIONS, Receiver, send_json
from tests.operations.test_erasing import places_of
from tests.owner.consent.client import Asking
from tests.owner.consent.test_device import start
from tests.owner.consent.test_pushed import push
from tests.owners import set_up_link, sign_up
from tests.world import World

__all__ = ["receiver"]

PASSWORD = "correct horse battery"


def sign_in(browser: Client, **more: str) -> str:
    answer = browser.post("/login", {"username": "alice", "password": PASSWORD, **more})
    assert answer.status_code == 302
    return browser.cookies["pdpp-session"].value


def opens_the_site(session_key: str) -> bool:
    browser = Client()
    browser.cookies["pdpp-session"] = session_key
    return browser.get("/admin/").status_code == 200


@pytest.fixture
def alice(world: World) -> User:
    return sign_up("alice", password=PASSWORD)


def second_factor_of(user: User) -> list[str]:
    second_factor.start_enrolment(user)
    device = second_factor.pending_device(user)
    assert device is not None
    return [*second_factor.renew_recovery_codes(user), second_factor.decrypted(device).key]


def questions(program: Client) -> list[str]:
    """The codes of a device and of a command line that wait for the owner."""
    device = Asking(program=program)
    device.client_id = device.register(redirect_uris=[], client_name="PDPP CLI").json()["client_id"]
    started = start(device)
    opened = program.post("/agent-connect", {}, content_type="application/json").json()
    return [started["device_code"], started["user_code"], opened["polling_code"]]


@pytest.mark.slow
@pytest.mark.django_db
def test_no_secret_that_works_is_in_any_column_of_any_table(
    world: World, receiver: Receiver
) -> None:
    asking = Asking.registered()
    user = User.objects.get()
    user.set_password(PASSWORD)
    user.save()
    asking.owner.force_login(user)
    browser = Client()
    session_key = sign_in(browser)
    tokens = asking.tokens()
    confidential = asking.register(token_endpoint_auth_method="client_secret_basic").json()
    subscription: Any = send_json(world, "POST", SUBSCRIPTIONS, callback_url=receiver.url)
    live = {
        "bearers": [*world.tokens.values(), tokens["access_token"]],
        "refresh token": [tokens["refresh_token"]],
        "session keys": [session_key, asking.owner.cookies["pdpp-session"].value],
        "known browser": [browser.cookies["pdpp-known"].value],
        "authorization code": [asking.code()],
        "client secret": [confidential["client_secret"]],
        "pushed request": [push(asking).json()["request_uri"].rpartition(":")[2]],
        "codes of questions": questions(asking.program),
        "set-up link": [set_up_link()],
        "second factor": second_factor_of(user),
        "signing secret": [subscription.body["secret"].removeprefix("whsec_")],
        "password": [PASSWORD],
    }

    kept = {
        (kind, place)
        for kind, secrets in live.items()
        for secret in secrets
        for form in {secret, secret.replace("-", "")}
        for place in places_of(form)
    }

    assert opens_the_site(session_key)
    assert kept == set()


@pytest.mark.django_db
def test_what_the_table_of_sessions_says_opens_nothing(alice: User) -> None:
    session_key = sign_in(Client())

    [row] = Session.objects.all()

    assert opens_the_site(session_key)
    assert not opens_the_site(row.session_key)


@pytest.mark.django_db
def test_a_session_that_is_ended_stays_ended(alice: User) -> None:
    browser = Client()
    session_key = sign_in(browser)
    browser.post("/admin/logout/")

    assert not opens_the_site(session_key)
    assert not Session.objects.exists()


@pytest.mark.django_db
@pytest.mark.parametrize("cookie", ["", "x", "a\x00bcdefghij", "x" * 5_000])
def test_a_cookie_that_is_no_session_key_leads_to_the_sign_in(alice: User, cookie: str) -> None:
    browser = Client(raise_request_exception=False)
    browser.cookies["pdpp-session"] = cookie

    assert browser.get("/admin/").status_code == 302


@pytest.mark.django_db
def test_a_session_ends_after_twelve_hours_without_use(alice: User) -> None:
    now = timezone.now()
    unused, used = sign_in(Client()), sign_in(Client())

    with travel(now + timedelta(hours=11)):
        assert opens_the_site(used)
    with travel(now + timedelta(hours=12, minutes=1)):
        assert (opens_the_site(unused), opens_the_site(used)) == (False, True)
    with travel(now + timedelta(hours=25)):
        assert not opens_the_site(used)


@pytest.mark.django_db
def test_a_session_ends_seven_days_after_signing_in(alice: User) -> None:
    now = timezone.now()
    session_key = sign_in(Client())

    opened = set()
    for hours in range(10, 7 * 24 + 10, 10):
        with travel(now + timedelta(hours=hours)):
            if opens_the_site(session_key):
                opened.add(hours)

    assert opened == {*range(10, 7 * 24, 10)}


@pytest.mark.django_db
def test_a_session_that_is_kept_ends_thirty_days_after_signing_in(alice: User) -> None:
    now = timezone.now()
    browser = Client()
    assert "Keep me signed in" in browser.get("/login").content.decode()
    session_key = sign_in(browser, keep="on")

    assert browser.cookies["pdpp-session"]["max-age"] > 29 * 24 * 3600
    with travel(now + timedelta(days=29)):
        assert opens_the_site(session_key)
    with travel(now + timedelta(days=30, minutes=1)):
        assert not opens_the_site(session_key)


@pytest.mark.django_db
def test_expired_sessions_are_deleted(alice: User, world: World) -> None:
    sign_in(Client())

    with travel(timezone.now() + timedelta(days=8)):
        list(background_jobs.upkeep())

    assert not Session.objects.exists()
