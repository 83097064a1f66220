"""Who guesses has to wait; the owner is never kept out for good."""

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from time_machine import Traveller

from owner.accounts import sign_in_throttle
from owner.models import Attempts
from tests.owners import set_up_link, sign_up

pytestmark = pytest.mark.django_db

RIGHT = "correct horse battery"
FREE = sign_in_throttle.FREE_FAILURES["account"]


@pytest.fixture(autouse=True)
def owner() -> User:
    return sign_up("alice", password=RIGHT)


def sign_in(browser: Client, password: str, *, name: str = "alice", **more: str) -> Any:
    return browser.post("/login", {"username": name, "password": password}, **more)


def fail(times: int, *, name: str = "alice", browser: Client | None = None) -> Any:
    answer = None
    for number in range(times):
        # From elsewhere each time: what counts here is the account.
        answer = sign_in(
            browser or Client(), f"wrong {number}", name=name, REMOTE_ADDR=f"192.0.2.{number}"
        )
    return answer


def test_correct_password_works_after_a_few_failures() -> None:
    assert fail(FREE).status_code == 200

    assert sign_in(Client(), RIGHT).status_code == 302
    account = sign_in_throttle.ThrottleKey("account", "alice")
    assert not Attempts.unscoped.filter(digest=account.digest).exists()


def test_throttled_account_is_refused_even_with_the_right_password() -> None:
    fail(FREE + 1)

    answer = sign_in(Client(), RIGHT)

    assert answer.status_code == 429
    assert answer["Retry-After"] == "30"
    assert "Too many failed attempts. Try again in 30 seconds" in answer.content.decode()
    assert "manage.py setup-link" in answer.content.decode()


def test_unknown_user_name_is_throttled_like_a_known_one() -> None:
    taken, free = (fail(FREE + 2, name=name).content.decode() for name in ("alice", "nobody"))

    assert "Too many failed attempts" in taken
    assert free.count("\n") == taken.count("\n")


def test_address_that_tries_many_names_is_throttled() -> None:
    for number in range(sign_in_throttle.FREE_FAILURES["address"] + 1):
        assert sign_in(Client(), "wrong", name=f"name{number}").status_code == 200

    assert sign_in(Client(), RIGHT).status_code == 429
    assert sign_in(Client(), RIGHT, REMOTE_ADDR="192.0.2.1").status_code == 302


@pytest.mark.parametrize("admin", ["/admin/login/", "/login"])
def test_every_sign_in_page_applies_the_throttle(admin: str) -> None:
    fail(FREE + 1)

    answer = Client().post(admin, {"username": "alice", "password": RIGHT}, follow=True)

    assert "_auth_user_id" not in answer.client.session


def test_delay_grows_with_each_failure(time_machine: Traveller) -> None:
    time_machine.move_to("2026-11-22T12:00:00Z", tick=False)
    fail(FREE + 1)
    waits = []
    for number in range(8):
        waits.append(int(sign_in(Client(), RIGHT)["Retry-After"]))
        time_machine.shift(waits[-1])
        assert sign_in(Client(), f"wrong {number}").status_code == 200

    assert waits == [30, 60, 120, 240, 480, 900, 900, 900]
    time_machine.shift(900)
    assert sign_in(Client(), RIGHT).status_code == 302


def test_failures_reset_after_an_hour(time_machine: Traveller) -> None:
    time_machine.move_to("2026-11-22T12:00:00Z", tick=False)
    fail(FREE)
    time_machine.shift(sign_in_throttle.RESET_AFTER.total_seconds() + 1)

    assert fail(FREE).status_code == 200
    assert sign_in(Client(), RIGHT).status_code == 302


def test_clock_set_back_does_not_extend_the_delay(time_machine: Traveller) -> None:
    time_machine.move_to("2027-11-22T12:00:00Z", tick=False)
    fail(FREE + 1)
    time_machine.move_to("2026-11-22T12:00:00Z", tick=False)

    assert sign_in(Client(), RIGHT).status_code == 302


def test_strangers_failures_do_not_lock_out_the_owners_browser() -> None:
    known = Client()
    sign_in(known, RIGHT)
    known.post("/admin/logout/")
    fail(FREE + 3)

    assert sign_in(Client(), RIGHT).status_code == 429
    assert sign_in(known, RIGHT).status_code == 302


def test_known_browser_is_throttled_too() -> None:
    known = Client()
    sign_in(known, RIGHT)
    known.post("/admin/logout/")

    assert fail(sign_in_throttle.FREE_FAILURES["browser"] + 1, browser=known).status_code == 200
    assert fail(1, browser=known).status_code == 429


def test_known_browser_cookie_is_valid_for_one_account() -> None:
    sign_up("eve", password=RIGHT, owner_id="eve")
    eve = Client()
    sign_in(eve, RIGHT, name="eve")
    fail(FREE + 1)

    assert sign_in(eve, RIGHT).status_code == 429


@pytest.mark.django_db(transaction=True)
def test_new_setup_link_resets_the_throttle(capsys: pytest.CaptureFixture[str]) -> None:
    fail(FREE + 1)
    call_command("setup_link")

    assert sign_in(Client(), RIGHT).status_code == 302


def test_guessing_setup_links_is_throttled() -> None:
    guesser = Client()
    for number in range(sign_in_throttle.FREE_FAILURES["address"] + 1):
        assert guesser.get(reverse("set-up", args=[f"guess-{number}"])).status_code == 410

    answer = guesser.get(reverse("set-up", args=["guess"]))

    assert answer.status_code == 429
    assert int(answer["Retry-After"]) > 0
    assert "Too many failed attempts" in answer.content.decode()


def test_opening_a_valid_setup_link_is_no_failure() -> None:
    link = reverse("set-up", args=[set_up_link()])

    answers = {
        Client().get(link).status_code for _ in range(sign_in_throttle.FREE_FAILURES["address"] + 2)
    }

    assert answers == {200}


def test_parallel_attempts_are_all_counted() -> None:
    subject = sign_in_throttle.ThrottleKey("account", "alice")
    now = timezone.now()
    for _ in range(FREE + 1):
        sign_in_throttle.record_attempt(subject, now=now)  # none of them has been judged yet

    with pytest.raises(sign_in_throttle.ThrottledError):
        sign_in_throttle.record_attempt(subject, now=now)


def test_throttle_stores_no_names_or_addresses() -> None:
    fail(1)

    for row in Attempts.unscoped.all():
        assert b"alice" not in bytes(row.digest)
        assert len(bytes(row.digest)) == 32
    assert sign_in_throttle.delete_expired(now=timezone.now() + timedelta(hours=2)) == 2


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("2001:db8::1", "2001:db8::ffff", True),
        ("2001:db8::1", "2001:db8:1::1", False),
        ("192.0.2.1", "192.0.2.2", False),
        ("", "not an address", True),
    ],
)
def test_ipv6_network_counts_as_one_address(one: str, other: str, same: bool) -> None:
    assert (sign_in_throttle.address_key(one) == sign_in_throttle.address_key(other)) is same


def test_sign_in_rotates_the_session_key() -> None:
    browser = Client()
    browser.get("/login")
    session = browser.session
    session["planted"] = "by a stranger"
    session.save()
    planted = session.session_key
    browser.cookies["pdpp-session"] = planted

    sign_in(browser, RIGHT)

    assert browser.session["_auth_user_id"]
    assert browser.cookies["pdpp-session"].value != planted
    assert not type(session)().exists(planted)
