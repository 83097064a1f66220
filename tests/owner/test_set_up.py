"""The owner's account is made, and its password replaced, through one-time links only."""

import datetime as dt
from concurrent.futures import ThreadPoolExecutor
from io import StringIO

import pytest
from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.db import connection
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from evidence.models.owners import get_or_create_owner
from owner.accounts import setup
from owner.models import SetupLink
from tests.owners import set_up_link

pytestmark = pytest.mark.django_db

GOOD = {"username": "alice", "password": "correct horse battery", "again": "correct horse battery"}


def page(token: str) -> str:
    return reverse("set-up", args=[token])


def test_link_creates_the_account_and_signs_in(client: Client) -> None:
    token = set_up_link()

    answer = client.post(page(token), GOOD)

    assert answer.status_code == 302
    assert answer["Location"] == reverse("home")
    assert client.get(answer["Location"]).status_code == 200
    user = get_or_create_owner(timezone.now()).user
    assert user is not None
    assert user.check_password(GOOD["password"])


def test_used_link_is_invalid(client: Client) -> None:
    token = set_up_link()
    client.post(page(token), GOOD)

    for answer in (client.get(page(token)), client.post(page(token), GOOD | {"username": "eve"})):
        assert answer.status_code == 410
    assert not get_user_model().objects.filter(username="eve").exists()


def test_a_link_ends_after_its_lifetime(client: Client) -> None:
    past = timezone.now() - setup.LIFETIME - dt.timedelta(seconds=1)
    token = set_up_link(past)

    assert client.get(page(token)).status_code == 410
    assert client.post(page(token), GOOD).status_code == 410
    assert not get_user_model().objects.exists()


def test_new_link_invalidates_the_previous_one(client: Client) -> None:
    earlier = set_up_link()
    later = set_up_link()

    assert client.get(page(earlier)).status_code == 410
    assert client.get(page(later)).status_code == 200


def test_unknown_link_looks_like_an_expired_one(client: Client) -> None:
    token = set_up_link()
    client.post(page(token), GOOD)
    client.logout()

    assert client.get(page("x" * 43)).content == client.get(page(token)).content


def test_only_a_hash_of_the_token_is_kept() -> None:
    token = set_up_link()

    (link,) = SetupLink.unscoped.all()
    assert token.encode() not in bytes(link.digest)
    assert len(bytes(link.digest)) == 32


def test_a_lost_password_is_replaced_and_every_session_ends(client: Client) -> None:
    client.post(page(set_up_link()), GOOD)
    elsewhere = Client()
    token = set_up_link()

    shown = elsewhere.get(page(token))
    new = {"password": "another long phrase", "again": "another long phrase"}
    elsewhere.post(page(token), GOOD | new)

    assert 'value="alice"' in shown.content.decode()
    assert get_user_model().objects.count() == 1
    assert client.get(reverse("admin:index")).status_code == 302
    assert elsewhere.get(reverse("admin:index")).status_code == 200


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"again": "something else entirely"}, "The passwords do not match."),
        ({"password": "12345678", "again": "12345678"}, "entirely numeric"),
        ({"password": "elevenchars", "again": "elevenchars"}, "too short"),
        ({"username": "alice and bob"}, "Enter a valid username"),
        ({"username": ""}, "This field is required."),
    ],
)
def test_invalid_form_keeps_the_link_valid(
    client: Client, change: dict[str, str], complaint: str
) -> None:
    token = set_up_link()

    answer = client.post(page(token), GOOD | change)

    assert answer.status_code == 422
    assert complaint in answer.content.decode()
    assert client.post(page(token), GOOD).status_code == 302


def test_the_form_needs_the_token_of_its_own_page() -> None:
    strict = Client(enforce_csrf_checks=True)
    token = set_up_link()

    assert strict.post(page(token), GOOD).status_code == 403
    strict.get(page(token))
    csrf = strict.cookies["pdpp-csrf"].value
    assert strict.post(page(token), GOOD | {"csrfmiddlewaretoken": csrf}).status_code == 302


def test_the_page_loads_nothing_from_other_hosts_and_is_not_cached(client: Client) -> None:
    answer = client.get(page(set_up_link()))

    assert answer["Referrer-Policy"] == "strict-origin"
    assert "default-src 'none'" in answer["Content-Security-Policy"]
    assert "no-store" in answer["Cache-Control"]
    assert answer["X-Frame-Options"] == "DENY"


@pytest.mark.django_db(transaction=True)
def test_the_command_prints_a_link_that_works(client: Client) -> None:
    printed = StringIO()
    call_command("setup_link", stdout=printed)

    address = printed.getvalue().strip()
    assert address.startswith("http://127.0.0.1:8000/set-up/")
    assert client.get(address.removeprefix("http://127.0.0.1:8000")).status_code == 200


@pytest.mark.django_db(transaction=True)
def test_many_set_up_forms_at_once_are_all_answered() -> None:
    token = set_up_link()

    def post(_: int) -> int:
        try:
            browser = Client(raise_request_exception=False)
            return browser.post(page(token), GOOD | {"password": "short"}).status_code
        finally:
            connection.close()

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(post, range(64))) <= {422, 429}
