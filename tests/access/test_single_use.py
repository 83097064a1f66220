"""A single-use grant closes ten minutes after its first disclosing answer."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from django.db import DatabaseError, connection, transaction
from django.utils import timezone

from evidence.access import grant_lifecycle
from evidence.access.grant_lifecycle import narrow_grant
from evidence.access.grant_states import state_of, with_grant_state, with_token_state
from evidence.access.grant_terms import StreamRequest
from evidence.access.grants import GrantRequest
from evidence.api.base_views import GrantedView
from evidence.models.grants import Grant
from evidence.models.ledger import Disclosure
from tests.owner.pages.browser import Browser
from tests.owners import sign_up
from tests.world import BANK, World

LIST = "/v1/streams/transactions/records"


@pytest.fixture
def once(world: World) -> World:
    return granted(world)


def granted(world: World) -> World:
    """Give Otto a single-use grant for the bank."""
    request = GrantRequest(
        connection_ids=[BANK],
        streams=[StreamRequest(name="transactions")],
        access_mode="single_use",
    )
    world.grant("otto", request)
    return world


def close_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grant_lifecycle, "SINGLE_USE_WINDOW", timedelta(0))


def grant_of(world: World) -> Grant:
    return Grant.unscoped.get(pk=world.grants["otto"][0].pk)


def test_first_disclosing_answer_opens_the_window(once: World) -> None:
    assert once.get("/v1/schema", "otto", view="index").status == 200
    assert once.get(f"{LIST}/missing", "otto").status == 404
    assert grant_of(once).readable_until is None

    assert [once.get(LIST, "otto").status for _ in range(5)] == [200] * 5

    until = grant_of(once).readable_until
    assert until is not None
    remaining = until - timezone.now()
    assert timedelta(minutes=9) < remaining <= timedelta(minutes=10)


@pytest.mark.parametrize(
    ("path", "query"),
    [
        ("/v1/search", {"q": "nowhere"}),
        ("/v1/schema", {}),
        ("/v1/streams/transactions/aggregate", {"metric": "count"}),
        (LIST, {"filter__amount__gte": 10**9}),
    ],
)
def test_an_answer_that_tells_something_without_a_record_opens_the_window(
    once: World, path: str, query: dict[str, Any]
) -> None:
    assert once.get(path, "otto", **query).status == 200
    assert grant_of(once).readable_until is not None


def test_closed_grant_refuses_all_calls(once: World, monkeypatch: pytest.MonkeyPatch) -> None:
    close_at_once(monkeypatch)
    assert once.get(LIST, "otto").status == 200

    refused = once.get("/v1/schema", "otto")

    assert (refused.status, refused.error["code"]) == (403, "grant_consumed")
    assert "single use" in refused.error["message"]
    assert Disclosure.unscoped.filter(chain=grant_of(once).pk).count() == 1
    [state] = [
        state_of(row) for row in with_grant_state(timezone.now()) if row.pk == grant_of(once).pk
    ]
    tokens = with_token_state(timezone.now()).filter(package=once.packages["otto"])
    assert {state, *map(state_of, tokens)} == {"consumed"}


def test_answer_is_refused_if_the_grant_closes_meanwhile(
    committed: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    once = granted(committed)
    authorize = GrantedView.initial

    def close_after_authorization(view: GrantedView, *args: Any, **kwargs: Any) -> None:
        authorize(view, *args, **kwargs)
        past = timezone.now() - timedelta(seconds=1)
        Grant.unscoped.filter(pk=grant_of(once).pk).update(readable_until=past)

    monkeypatch.setattr(GrantedView, "initial", close_after_authorization)

    refused = once.get(LIST, "otto")

    assert (refused.status, refused.error["code"]) == (403, "grant_consumed")
    assert not Disclosure.unscoped.filter(chain=grant_of(once).pk).exists()


def test_other_grants_of_the_package_stay_usable(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    close_at_once(monkeypatch)
    bank = GrantRequest(
        connection_ids=[BANK],
        streams=[StreamRequest(name="transactions")],
        access_mode="single_use",
    )
    mail = GrantRequest(connection_ids=["cin_personal"], streams=[StreamRequest(name="messages")])
    world.grant("otto", bank, mail)
    assert world.get(LIST, "otto").status == 200

    assert world.get(LIST, "otto").status == 404
    assert world.get("/v1/streams/messages/records", "otto").status == 200


def test_narrowed_grant_keeps_the_window(once: World, monkeypatch: pytest.MonkeyPatch) -> None:
    once.get(LIST, "otto")
    grant = grant_of(once)
    narrower = StreamRequest(name="transactions", fields=("id", "date"))

    successor = narrow_grant(
        grant.pk, [narrower], connection_ids=[BANK], expires_at=None, now=timezone.now()
    )

    assert successor.readable_until == grant.readable_until


def test_window_cannot_change(once: World) -> None:
    once.get(LIST, "otto")
    rows = Grant.unscoped.filter(pk=grant_of(once).pk)
    for later in (None, timezone.now() + timedelta(days=1)):
        with pytest.raises(DatabaseError, match="cannot change"), transaction.atomic():
            rows.update(readable_until=later)


def test_concurrent_first_answers_open_one_window(committed: World) -> None:
    world = granted(committed)

    def ask(_: int) -> Any:
        try:
            return world.get(LIST, "otto").status
        finally:
            connection.close()

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(ask, range(8))) == [200] * 8
    assert grant_of(world).readable_until is not None


def test_owner_pages_show_single_use_and_its_end(
    once: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice = Browser().sign_in(sign_up("alice"))
    grant_page = f"/grants/{grant_of(once).pk}"
    assert "once: for ten minutes from its first answer" in alice.open(grant_page).text
    close_at_once(monkeypatch)
    once.get(LIST, "otto")

    for page in ("/connected", grant_page):
        assert "Used once, closed" in alice.open(page).text
