"""Passkeys as second factor and for confirmations, and what wrong answers get."""

import json
import re
from typing import Any

import orjson
import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from time_machine import Traveller

from owner import second_factor
from owner.accounts import sign_in_throttle
from owner.models import Passkey
from tests.owner.consent.authenticator import ORIGIN, Authenticator
from tests.owner.consent.test_second_factor import PAGE, PASSWORD, START, enrol, is_in, phone
from tests.owners import sign_up

pytestmark = [pytest.mark.slow, pytest.mark.django_db]

VERIFY, ADD = "/login/passkeys/options/verify", "/login/passkeys/add"
REMOVE = "/login/passkeys/remove"


@pytest.fixture(autouse=True)
def clock(time_machine: Traveller, settings: Any) -> Traveller:
    settings.PDPP_PUBLIC_URL = ORIGIN
    time_machine.move_to(START, tick=False)
    return time_machine


@pytest.fixture
def owner(clock: Traveller) -> User:
    return sign_up("alice", password=PASSWORD)


def sign_in(**more: str) -> Client:
    browser = Client(**more)
    browser.post("/login", {"username": "alice", "password": PASSWORD})
    return browser


def options(browser: Client, path: str = VERIFY) -> dict[str, Any]:
    answer = browser.post(path)
    assert answer.status_code == 200, answer.content
    found: dict[str, Any] = orjson.loads(answer.content)
    return found


def add(browser: Client, passkey: Authenticator, name: str = "Laptop") -> Any:
    found = options(browser, "/login/passkeys/options/add")
    return browser.post(ADD, {"name": name, "passkey": passkey.create(found)})


def enrolled(owner: User) -> tuple[Client, Authenticator]:
    browser, passkey = sign_in(), Authenticator()
    assert add(browser, passkey).status_code == 200
    return browser, passkey


def verify(browser: Client, passkey: Authenticator) -> Any:
    return browser.post("/login/second", {"passkey": passkey.get(options(browser))})


def test_passkey_is_asked_for_after_the_password(owner: User) -> None:
    browser, passkey = enrolled(owner)
    assert is_in(browser), "adding a passkey proves it"

    other = sign_in()
    assert not is_in(other)
    answer = verify(other, passkey)

    assert answer["Location"] == "/"
    assert is_in(other)


def test_first_passkey_brings_recovery_codes_which_still_work(owner: User) -> None:
    browser = sign_in()
    shown = add(browser, Authenticator()).content.decode()
    codes = re.findall(r"\b[a-z2-9]{5}-[a-z2-9]{5}-[a-z2-9]{5}\b", shown)
    assert len(codes) == second_factor.RECOVERY_CODES
    assert "in place of a passkey or authenticator app" in shown

    other = sign_in()
    assert other.post("/login/second", {"code": codes[0]}).status_code == 302
    assert is_in(other)
    assert add(browser, Authenticator(), "Key").status_code == 302, "the codes stay"
    assert second_factor.count_recovery_codes(owner) == len(codes) - 1


def test_several_passkeys_work_beside_the_phone(owner: User, clock: Traveller) -> None:
    browser, _ = enrol(owner, clock)
    first, second = Authenticator(), Authenticator(has_counter=False)
    add(browser, first)
    add(browser, second, "Key on my ring")

    page = browser.get(PAGE).content.decode()
    assert "Laptop" in page
    assert "Key on my ring" in page
    for passkey in (first, second):
        assert verify(sign_in(), passkey).status_code == 302
    assert sign_in().post("/login/second", {"code": phone(owner)}).status_code == 302


def test_removed_passkey_opens_nothing_and_ends_its_sessions(owner: User, clock: Traveller) -> None:
    browser, _ = enrol(owner, clock)
    passkey, elsewhere = Authenticator(), sign_in()
    add(browser, passkey)
    verify(elsewhere, passkey)
    assert is_in(elsewhere)
    browser.post("/login/confirm", {"code": phone(owner)})

    browser.post(REMOVE, {"id": Passkey.unscoped.get().pk})

    assert not is_in(elsewhere)
    assert verify(sign_in(), passkey).status_code == 200
    assert is_in(browser)


def test_last_passkey_takes_the_recovery_codes_along(owner: User) -> None:
    browser, _ = enrolled(owner)

    browser.post(REMOVE, {"id": Passkey.unscoped.get().pk})

    assert second_factor.count_recovery_codes(owner) == 0
    assert is_in(sign_in())


@pytest.mark.parametrize("action", ["renew", "disable"])
def test_passkey_changes_the_second_factor_where_a_code_does(owner: User, action: str) -> None:
    browser, passkey = enrolled(owner)
    assert browser.post(PAGE, {"action": action, "passkey": "{}"}).status_code == 422

    answer = browser.post(PAGE, {"action": action, "passkey": passkey.get(options(browser))})

    assert answer.status_code == (200 if action == "renew" else 302)
    assert Passkey.unscoped.exists() == (action == "renew")
    assert is_in(sign_in()) == (action == "disable")


def test_unattended_browser_neither_adds_nor_removes_a_passkey(
    owner: User, clock: Traveller
) -> None:
    browser, passkey = enrolled(owner)
    clock.shift(11 * 60)

    refused = browser.post("/login/passkeys/options/add")
    assert refused.status_code == 403
    assert orjson.loads(refused.content) == {"confirm": "/login/confirm?next=%2Fsecond-factor"}
    for path, values in ((ADD, {"passkey": "{}"}), (REMOVE, {"id": Passkey.unscoped.get().pk})):
        assert browser.post(path, values)["Location"].startswith("/login/confirm?")
    assert "passkey" in browser.get("/login/confirm").content.decode()
    assert browser.post("/login/confirm", {"code": "000000"}).status_code == 200
    assert (
        browser.post("/login/confirm", {"passkey": passkey.get(options(browser))}).status_code
        == 302
    )

    assert add(browser, Authenticator()).status_code == 302
    assert Passkey.unscoped.count() == 2


def answers(passkey: Authenticator, found: dict[str, Any]) -> dict[str, str]:
    """Wrong answers to a challenge, by what is wrong."""
    shared = {"credential_id": passkey.credential_id, "key": passkey.key, "count": 50}
    thief = ec_key()
    spoiled = orjson.loads(Authenticator(**shared).get(found))
    spoiled["response"]["signature"] = spoiled["response"]["signature"][:-4] + "AAAA"
    other = {**found, "challenge": "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"}
    return {
        "origin": Authenticator(origin="https://records.example.evil", **shared).get(found),
        "origin with a port": Authenticator(origin=f"{ORIGIN}:8443", **shared).get(found),
        "http": Authenticator(origin="http://records.example", **shared).get(found),
        "subdomain": Authenticator(origin="https://a.records.example", **shared).get(found),
        "party": Authenticator(party="evil.example", **shared).get(found),
        "challenge": Authenticator(**shared).get(other),
        "absent person": Authenticator(flags=0, **shared).get(found),
        "key": Authenticator(**{**shared, "key": thief}).get(found),
        "credential": Authenticator(**{**shared, "credential_id": b"x" * 32}).get(found),
        "signature": orjson.dumps(spoiled).decode(),
        "creation": Authenticator(**shared).create(found),
        "counter": Authenticator(**{**shared, "count": passkey.count - 1}).get(found),
    }


def ec_key() -> Any:
    return Authenticator().key


WRONG = sorted(answers(Authenticator(), {"challenge": "AAAA"}))


@pytest.mark.parametrize("wrong", WRONG)
def test_wrong_answer_is_refused_and_changes_nothing(owner: User, wrong: str) -> None:
    _, passkey = enrolled(owner)
    browser = sign_in()
    before = Passkey.unscoped.values().get()

    answer = browser.post("/login/second", {"passkey": answers(passkey, options(browser))[wrong]})

    assert answer.status_code == 200
    assert "The passkey was not accepted." in answer.content.decode()
    assert not is_in(browser)
    assert Passkey.unscoped.values().get() == before


@pytest.mark.parametrize("has_counter", [True, False])
def test_answer_counts_once(owner: User, has_counter: bool) -> None:
    browser, passkey = sign_in(), Authenticator(has_counter=has_counter)
    add(browser, passkey)
    first, second = sign_in(), sign_in()
    response = passkey.get(options(first))
    pending = first.session["passkey_challenge"]

    assert first.post("/login/second", {"passkey": response}).status_code == 302
    options(second)
    assert second.post("/login/second", {"passkey": response}).status_code == 200, "of another"
    # Two requests at once read the same session.
    session = second.session
    session["passkey_challenge"] = pending
    session.save()
    assert second.post("/login/second", {"passkey": response}).status_code == 200
    assert not is_in(second)


def test_answer_comes_within_five_minutes_for_its_purpose(owner: User, clock: Traveller) -> None:
    _, passkey = enrolled(owner)
    browser = sign_in()
    response = passkey.get(options(browser))
    clock.shift(5 * 60 + 1)
    assert browser.post("/login/second", {"passkey": response}).status_code == 200

    browser.post("/login/second", {"passkey": passkey.get(options(browser))})
    created = Authenticator()
    found = options(browser, VERIFY)
    assert browser.post(ADD, {"passkey": created.create(found)}).status_code == 302
    assert Passkey.unscoped.count() == 1, "a challenge to verify adds nothing"


def test_passkey_of_another_account_is_refused(owner: User) -> None:
    enrolled(owner)
    mallory = sign_up("mallory", password=PASSWORD, owner_id="mallory")
    other = Client()
    other.post("/login", {"username": "mallory", "password": PASSWORD})
    passkey = Authenticator()
    add(other, passkey)

    assert second_factor.list_passkeys(mallory)
    assert verify(sign_in(), passkey).status_code == 200


def test_same_passkey_is_stored_once(owner: User) -> None:
    browser, passkey = enrolled(owner)

    assert add(browser, passkey).status_code == 302

    assert Passkey.unscoped.count() == 1


def test_wrong_passkeys_are_throttled_as_codes_are(owner: User, clock: Traveller) -> None:
    _, passkey = enrolled(owner)
    guesser = sign_in(REMOTE_ADDR="192.0.2.9")
    for _ in range(sign_in_throttle.FREE_FAILURES["second factor"] + 1):
        assert guesser.post("/login/second", {"passkey": "{}"}).status_code == 200

    answer = verify(guesser, passkey)

    assert answer.status_code == 429
    assert answer["Retry-After"] == "30"
    clock.shift(30)
    assert verify(guesser, passkey).status_code == 302


def test_options_need_the_password(owner: User) -> None:
    enrolled(owner)
    for path in (VERIFY, "/login/passkeys/options/add"):
        assert Client().post(path).status_code == 403
    assert sign_in().post("/login/passkeys/options/add").status_code == 403
    assert Client().get(VERIFY).status_code == 405
    assert sign_in().post("/login/passkeys/options/none").status_code == 404
    assert Client(enforce_csrf_checks=True).post(VERIFY).status_code == 403


@pytest.mark.parametrize(
    ("url", "origin"),
    [
        ("https://records.example", "https://records.example"),
        ("https://records.example:8443", "https://records.example:8443"),
        ("http://127.0.0.1:8000", "http://localhost:8000"),
        ("http://[::1]:8000", "http://localhost:8000"),
        ("http://localhost:8000", "http://localhost:8000"),
        ("http://records.example", None),
        ("https://192.168.1.10", None),
        ("http://192.168.1.10", None),
    ],
)
def test_passkeys_belong_to_the_public_address(
    owner: User, settings: Any, url: str, origin: str | None
) -> None:
    settings.PDPP_PUBLIC_URL = url
    browser = sign_in()

    answer = browser.post("/login/passkeys/options/add")

    assert second_factor.passkey_origin() == origin
    assert answer.status_code == (409 if origin is None else 200)


def test_passkeys_are_bounded(owner: User) -> None:
    browser = sign_in()
    for _ in range(second_factor.MAX_PASSKEYS + 1):
        add(browser, Authenticator())

    assert Passkey.unscoped.count() == second_factor.MAX_PASSKEYS


def test_name_is_shown_as_text(owner: User) -> None:
    browser = sign_in()
    add(browser, Authenticator(), "<script>alert(1)</script>\u202e" + "W" * 100)

    page = browser.get(PAGE).content.decode()

    assert "<script>alert" not in page
    assert "\u202e" not in page
    assert "W" * 41 not in page


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20) | st.binary().map(repr),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(["id", "rawId", "type", "response", "clientDataJSON", "signature",
                         "authenticatorData", "attestationObject"]), inner, max_size=6,
    ),
)  # fmt: skip


@hypothesis_settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(response=JSON)
def test_malformed_answer_is_refused(owner: User, response: Any) -> None:
    session: Any = {}
    for purpose, finish in (
        (second_factor.VERIFY, second_factor.verify_passkey),
        (second_factor.ADD, second_factor.add_passkey),
    ):
        now = timezone.now()
        second_factor.begin_passkey(owner, session, purpose, now=now)
        more = {"name": "x"} if purpose == second_factor.ADD else {}
        text = json.dumps(response)
        assert finish(owner, session, text, now=now, **more) is None  # type: ignore[operator]


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "9" * 10_001, "[" * 9_000, '{"rawId": 1}'])
def test_text_that_is_no_answer_is_refused(owner: User, text: str) -> None:
    enrolled(owner)
    browser = sign_in()
    options(browser)

    answer = browser.post("/login/second", {"passkey": text})

    assert answer.status_code == 200
    assert not is_in(browser)
