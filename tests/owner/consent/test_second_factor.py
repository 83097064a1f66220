"""Once the owner has a second factor, a password alone opens nothing."""

import base64
import re
import time
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from django_otp.oath import TOTP
from django_otp.plugins.otp_static.models import StaticToken
from django_otp.plugins.otp_totp.models import TOTPDevice
from time_machine import Traveller

from owner import second_factor
from owner.accounts import sign_in_throttle
from tests.owner.consent.client import Asking
from tests.owner.pages.browser import Page
from tests.owners import set_up_link, sign_up
from tests.world import World

pytestmark = pytest.mark.django_db

PASSWORD = "correct horse battery"
PAGE = "/second-factor"
START = "2026-11-22T12:00:00Z"


@pytest.fixture(autouse=True)
def clock(time_machine: Traveller) -> Traveller:
    time_machine.move_to(START, tick=False)
    return time_machine


@pytest.fixture
def owner(clock: Traveller) -> User:
    return sign_up("alice", password=PASSWORD)


def phone(user: User, *, later: int = 0) -> str:
    """What the phone shows; ``later`` counts in steps of 30 seconds."""
    totp = TOTP(second_factor.decrypted(TOTPDevice.objects.get(user=user)).bin_key)
    totp.time = time.time() + 30 * later
    return f"{totp.token():06}"


def sign_in(**more: str) -> Client:
    browser = Client(**more)
    browser.post("/login", {"username": "alice", "password": PASSWORD})
    return browser


def enrol(user: User, clock: Traveller) -> tuple[Client, list[str]]:
    """The browser in which it was turned on, and the recovery codes."""
    browser = sign_in()
    browser.post(PAGE, {"action": "start"})
    shown = browser.post(PAGE, {"action": "confirm", "code": phone(user)})
    assert shown.status_code == 200, shown.content.decode()
    codes = re.findall(r"\b[a-z2-9]{5}-[a-z2-9]{5}-[a-z2-9]{5}\b", shown.content.decode())
    assert len(codes) == second_factor.RECOVERY_CODES
    clock.shift(30)  # a code works once
    return browser, codes


def is_in(browser: Client) -> bool:
    return browser.get("/admin/").status_code == 200


def test_a_password_is_enough_as_long_as_there_is_no_second_factor(owner: User) -> None:
    browser = sign_in()

    assert is_in(browser)
    browser.post(PAGE, {"action": "start"})
    assert is_in(sign_in()), "what is not finished asks for nothing"


def test_the_page_draws_the_code_itself_and_shows_the_secret_of_this_account(owner: User) -> None:
    browser = sign_in()
    browser.post(PAGE, {"action": "start"})

    answer = browser.get(PAGE)

    device = second_factor.decrypted(TOTPDevice.objects.get(user=owner))
    address = urlsplit(device.config_url)
    assert "<svg" in answer.content.decode()
    secret = parse_qs(address.query)["secret"][0]
    assert secret in answer.content.decode().replace(" ", "")
    assert unquote(address.path) == "/PDPP:alice"
    assert "no-store" in answer["Cache-Control"]
    assert not re.search(r"<img|style=", answer.content.decode())


def test_a_wrong_first_code_enables_nothing(owner: User) -> None:
    browser = sign_in()
    browser.post(PAGE, {"action": "start"})

    answer = browser.post(PAGE, {"action": "confirm", "code": "000000"})

    assert answer.status_code == 422
    assert "Wrong or already used code" in answer.content.decode()
    assert "000000" not in answer.content.decode()
    assert is_in(sign_in())


def test_password_alone_leads_to_the_second_factor_only(owner: User, clock: Traveller) -> None:
    enrolled, _ = enrol(owner, clock)
    assert is_in(enrolled)

    browser = Client()
    answer = browser.post("/login?next=/connected", {"username": "alice", "password": PASSWORD})

    assert answer["Location"] == "/login/second?next=%2Fconnected"
    assert "pdpp-known" not in browser.cookies
    for address in ("/admin/", PAGE, "/connected", "/connect", "/device", "/records/a/b/c"):
        assert "login" in browser.get(address)["Location"], address
    answer = browser.post(answer["Location"], {"code": phone(owner)})
    assert answer["Location"] == "/connected"
    assert browser.get("/connected").status_code == 200
    assert "pdpp-known" in browser.cookies


def test_every_other_session_has_to_show_it_from_then_on(owner: User, clock: Traveller) -> None:
    elsewhere = sign_in()
    assert is_in(elsewhere)

    enrol(owner, clock)

    assert not is_in(elsewhere)


def test_consent_asks_for_it_too(world: World, clock: Traveller) -> None:
    asking = Asking.registered()
    owner = User.objects.get(username="alice")
    second_factor.start_enrolment(owner)
    assert second_factor.confirm_enrolment(owner, phone(owner))
    clock.shift(30)

    assert asking.ask()["Location"].startswith("/login?")
    strict = asking.owner.handler.enforce_csrf_checks
    asking.owner.handler.enforce_csrf_checks = False
    assert asking.owner.post("/oauth/authorize", {"decision": "allow"}).status_code == 403
    answer = asking.owner.post("/login/second", {"code": phone(owner)})
    assert answer.status_code == 302
    asking.owner.handler.enforce_csrf_checks = strict
    assert asking.ask().status_code == 200


def test_a_code_works_once(owner: User, clock: Traveller) -> None:
    enrol(owner, clock)
    code = phone(owner)
    first, second = sign_in(), sign_in()

    assert first.post("/login/second", {"code": code}).status_code == 302
    assert second.post("/login/second", {"code": code}).status_code == 200
    assert is_in(first)
    assert not is_in(second)


def test_a_recovery_code_works_once_however_it_is_typed(owner: User, clock: Traveller) -> None:
    _, codes = enrol(owner, clock)
    typed = codes[0].upper().replace("-", " ")
    first, second = sign_in(), sign_in()

    assert first.post("/login/second", {"code": typed}).status_code == 302
    assert second.post("/login/second", {"code": codes[0]}).status_code == 200
    assert is_in(first)
    assert not is_in(second)
    assert f"{len(codes) - 1} recovery codes are left" in first.get(PAGE).content.decode()
    StaticToken.objects.exclude(pk=StaticToken.objects.earliest("pk").pk).delete()
    assert "1 recovery code is left" in first.get(PAGE).content.decode()


def test_recovery_codes_are_kept_as_hashes_and_shown_once(owner: User, clock: Traveller) -> None:
    browser, codes = enrol(owner, clock)

    kept = set(StaticToken.objects.values_list("token", flat=True))
    assert len(kept) == len(codes)
    for code in codes:
        assert code not in kept
        assert code.replace("-", "") not in kept
        assert code not in browser.get(PAGE).content.decode()


def test_totp_secret_is_encrypted_for_its_account(owner: User, clock: Traveller) -> None:
    enrol(owner, clock)
    device = TOTPDevice.objects.get(user=owner)
    secret = second_factor.decrypted(device).bin_key
    assert secret.hex() not in device.key
    assert secret not in base64.b64decode(device.key)
    other = sign_up("mallory", owner_id="mallory")
    TOTPDevice.objects.create(user=other, name="phone", confirmed=True, key=device.key)
    assert second_factor.verify_code(other, phone(owner)) is None
    assert second_factor.verify_code(owner, phone(owner)) is not None


def test_a_secret_that_is_not_sealed_does_not_work(owner: User, clock: Traveller) -> None:
    enrol(owner, clock)
    device, code = TOTPDevice.objects.get(user=owner), phone(owner)
    device.key = second_factor.decrypted(device).key
    device.save()
    assert second_factor.verify_code(owner, code) is None


def test_a_phone_outlives_the_secret_it_was_sealed_with(
    owner: User, clock: Traveller, settings: Any
) -> None:
    enrol(owner, clock)
    settings.SECRET_KEY_FALLBACKS = [settings.SECRET_KEY]
    settings.SECRET_KEY = "another-secret-of-this-installation"
    assert second_factor.verify_code(owner, phone(owner)) is not None
    clock.shift(30)
    assert second_factor.reencrypt() == 1
    settings.SECRET_KEY_FALLBACKS = []
    assert second_factor.verify_code(owner, phone(owner)) is not None
    clock.shift(30)
    code, settings.SECRET_KEY = phone(owner), "a-secret-that-sealed-nothing"
    assert second_factor.verify_code(owner, code) is None


def test_new_recovery_codes_end_the_old_ones(owner: User, clock: Traveller) -> None:
    browser, codes = enrol(owner, clock)
    assert browser.post(PAGE, {"action": "renew", "code": codes[0]}).status_code == 422
    renewed = browser.post(PAGE, {"action": "renew", "code": phone(owner)})
    assert renewed.status_code == 200

    stale = sign_in()
    assert stale.post("/login/second", {"code": codes[1]}).status_code == 200
    assert not is_in(stale)


def test_the_session_gets_another_name_at_the_second_step(owner: User, clock: Traveller) -> None:
    enrol(owner, clock)
    browser = sign_in()
    before = browser.cookies["pdpp-session"].value

    browser.post("/login/second", {"code": phone(owner)})

    after = browser.cookies["pdpp-session"].value
    assert after != before
    assert not type(browser.session)().exists(before)


def test_codes_are_throttled(owner: User, clock: Traveller) -> None:
    enrol(owner, clock)
    guesser = sign_in(REMOTE_ADDR="192.0.2.9")
    for number in range(sign_in_throttle.FREE_FAILURES["second factor"] + 1):
        assert guesser.post("/login/second", {"code": f"{number:06}"}).status_code == 200

    answer = guesser.post("/login/second", {"code": phone(owner)})

    assert answer.status_code == 429
    assert answer["Retry-After"] == "30"
    assert not is_in(guesser)
    clock.shift(30)
    assert guesser.post("/login/second", {"code": phone(owner)}).status_code == 302


def test_it_ends_with_a_code_and_not_without(owner: User, clock: Traveller) -> None:
    browser, _ = enrol(owner, clock)

    assert browser.post(PAGE, {"action": "disable", "code": "000000"}).status_code == 422
    assert not is_in(sign_in())
    assert browser.post(PAGE, {"action": "disable", "code": phone(owner)}).status_code == 302
    assert is_in(sign_in())


def test_another_phone_takes_over_once_it_has_shown_a_code(owner: User, clock: Traveller) -> None:
    browser, _ = enrol(owner, clock)
    old = TOTPDevice.objects.get(user=owner)
    browser.post(PAGE, {"action": "start"})
    new = TOTPDevice.objects.get(user=owner, confirmed=False)
    assert not is_in(sign_in())

    totp = TOTP(second_factor.decrypted(new).bin_key)
    totp.time = time.time()
    assert (
        browser.post(PAGE, {"action": "confirm", "code": f"{totp.token():06}"}).status_code == 200
    )

    assert TOTPDevice.objects.get(user=owner).pk == new.pk != old.pk
    assert is_in(browser)


def test_unattended_browser_sets_up_no_other_phone(owner: User, clock: Traveller) -> None:
    browser, _ = enrol(owner, clock)
    clock.shift(11 * 60)

    for action in ("start", "confirm"):
        answer = browser.post(PAGE, {"action": action, "code": phone(owner)})
        assert answer["Location"].startswith("/login/confirm?")

    assert not TOTPDevice.objects.filter(confirmed=False).exists()


@pytest.mark.django_db(
    transaction=True
)  # the command waits for its turn over a connection of its own
def test_a_set_up_link_helps_when_phone_and_codes_are_lost(owner: User, clock: Traveller) -> None:
    from evidence.models.owners import get_or_create_owner

    known = get_or_create_owner(timezone.now())
    known.user = owner
    known.save()
    old, _ = enrol(owner, clock)
    call_command("setup_link")
    link = reverse("set-up", args=[set_up_link()])
    new = {"password": "another long phrase", "again": "another long phrase"}

    browser = Client()
    browser.post(link, {"username": "alice", **new})

    assert is_in(browser)
    assert not is_in(old)
    assert not TOTPDevice.objects.exists()
    assert not StaticToken.objects.exists()


def test_the_second_step_requires_the_first(owner: User, clock: Traveller) -> None:
    enrol(owner, clock)

    answer = Client().post("/login/second", {"code": phone(owner)})
    elsewhere = sign_in().get("/login/second?next=https://thief.example/")

    assert answer["Location"].startswith("/login?")
    assert "thief" not in elsewhere.content.decode()
    page = Page("/login/second", sign_in().get("/login"))
    assert page.status == 302
