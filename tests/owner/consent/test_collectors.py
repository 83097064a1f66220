"""A collector signs in with a code: the owner chooses what it may write to, and it reads nothing."""

from datetime import timedelta
from typing import Any

import pytest
import time_machine
from django.http import HttpResponse
from django.utils import timezone

from evidence.models.connections import Connection
from evidence.models.grants import AccessToken, Collector, Package
from tests.mcp_adapter.real import post
from tests.owner.consent.client import ORIGIN, Asking, pressed
from tests.owner.consent.test_device import DETAIL, GRANT, decide, poll, start, the_page
from tests.owner.pages.browser import Form, Page
from tests.world import WORK, World

COLLECT = "pdpp:collect"
SCOPE = {"resource": ORIGIN, "scope": COLLECT}


@pytest.fixture
def laptop(world: World) -> Asking:
    return Asking.registered(redirect_uris=[], client_name="Gmail on\u202e the laptop")


def the_form(asking: Asking, user_code: str) -> Form:
    [form] = [
        each
        for each in Page("/device", the_page(asking, user_code)).forms
        if any(name == "connections" for name, _ in each.boxes.values())
    ]
    return form


def allow(asking: Asking, user_code: str, *connections: str) -> HttpResponse:
    form = the_form(asking, user_code)
    for words in connections:
        form.tick(words)
    return asking.owner.post(form.action, pressed(form, "allow"))


def test_collector_writes_to_the_connections_that_the_owner_chose(
    laptop: Asking, world: World
) -> None:
    started = start(laptop, **SCOPE)
    shown = Page("/device", the_page(laptop, started["user_code"]))
    assert "Gmail on the laptop wants to store records" in shown.text
    assert "Work mail, Mail" in shown.text

    assert allow(laptop, started["user_code"], "Work mail").status_code == 200
    answer = poll(laptop, started)

    assert answer.status_code == 200, answer.content
    token = answer.json()
    world.tokens["laptop"] = token.pop("access_token")
    assert token == {"token_type": "Bearer", "scope": COLLECT, "connection_ids": [WORK]}
    assert world.get("/v1/state/mail", "laptop").body["connection_id"] == WORK
    assert world.get("/v1/search", "laptop", q="lease").status == 403
    assert post(world.tokens["laptop"]).status_code == 403
    listed = Page("/collectors", laptop.owner.get("/collectors"))
    assert "Gmail on the laptop Work mail" in listed.text
    assert poll(laptop, started, later=20).json()["error"] == "invalid_grant"
    assert Collector.unscoped.count() == 1

    address = listed.link("Revoke Gmail on the laptop")
    question = Page(address, laptop.owner.get(address)).form
    laptop.owner.post(question.action or address, dict(question.answers))

    assert world.get("/v1/state/mail", "laptop").status == 401


def test_no_connection_is_chosen_before_and_none_is_guessed(laptop: Asking) -> None:
    started = start(laptop, **SCOPE)
    form = the_form(laptop, started["user_code"])
    assert not form.values("connections")

    nothing = laptop.owner.post(form.action, pressed(form, "allow"))
    unknown = laptop.owner.post(
        form.action, pressed(form, "allow") | {"connections": ["cin_of_another"]}
    )

    for refused in (nothing, unknown):
        assert refused.status_code == 422
        assert poll(laptop, started, later=0).json()["error"] in {
            "authorization_pending", "slow_down",
        }  # fmt: skip
    assert "Choose a connection." in nothing.content.decode()
    assert not Collector.unscoped.exists()


def test_denied_and_expired_collectors_get_no_token(laptop: Asking) -> None:
    denied, late = start(laptop, **SCOPE), start(laptop, **SCOPE)
    form = the_form(laptop, denied["user_code"])
    laptop.owner.post(form.action, pressed(form, "deny"))
    form = the_form(laptop, late["user_code"])
    form.tick("Work mail")

    with time_machine.travel(timezone.now() + timedelta(seconds=301)):
        assert laptop.owner.post(form.action, pressed(form, "allow")).status_code == 422

    assert poll(laptop, denied).json()["error"] == "access_denied"
    assert poll(laptop, late, later=301).json()["error"] == "expired_token"
    assert not Collector.unscoped.exists()


def test_connection_that_ended_meanwhile_gives_no_token(laptop: Asking) -> None:
    started = start(laptop, **SCOPE)
    allow(laptop, started["user_code"], "Work mail")
    Connection.unscoped.filter(pk=WORK).update(status=Connection.Status.REVOKED)

    refused = poll(laptop, started)

    assert (refused.status_code, refused.json()["error"]) == (400, "invalid_grant")
    assert not Collector.unscoped.exists()


def test_code_that_reads_gives_no_collector_and_the_reverse(laptop: Asking) -> None:
    reads, writes = start(laptop), start(laptop, **SCOPE)
    form = the_form(laptop, writes["user_code"])
    form.tick("Work mail")

    # Each form is sent with the code of the other request.
    crossed = pressed(form, "allow") | {"user_code": [reads["user_code"]]}
    assert "wants to read your records" in laptop.owner.post("/device", crossed).content.decode()
    shown = the_page(laptop, reads["user_code"])
    [consent] = [each for each in Page("/device", shown).forms if each.values("form_token")]
    consent.tick("Work mail")
    seen = laptop.owner.post("/device", pressed(consent, "review"))
    [consent] = [each for each in Page("/device", seen).forms if each.values("form_token")]
    crossed = pressed(consent, "allow") | {"user_code": [writes["user_code"]]}
    assert laptop.owner.post("/device", crossed).status_code == 422
    assert not Package.unscoped.filter(client_id=laptop.client_id).exists()

    decide(laptop, reads["user_code"])
    allow(laptop, writes["user_code"], "Work mail")
    tokens_before = AccessToken.unscoped.count()

    # Neither endpoint of the other kinds of request knows the code of a collector.
    code = writes["device_code"]
    polled = laptop.program.post("/agent-connect/dev_x/token", {"polling_code": code})
    assert polled.json()["error"] == "invalid_grant"
    assert laptop.token(
        grant_type="authorization_code", code=code, client_id=laptop.client_id,
        redirect_uri=ORIGIN, code_verifier="x" * 43,
    ).status_code == 400  # fmt: skip
    collector = laptop.token(
        grant_type=GRANT, device_code=code, client_id=laptop.client_id, scope="pdpp:read"
    ).json()
    assert collector["access_token"].startswith("pdpp_col_")
    assert "refresh_token" not in collector
    assert AccessToken.unscoped.count() == tokens_before
    client = laptop.token(
        grant_type=GRANT, device_code=reads["device_code"], client_id=laptop.client_id,
        scope=COLLECT,
    ).json()  # fmt: skip
    assert client["access_token"].startswith("pdpp_at_")
    assert client["scope"] == "pdpp:read"
    assert Collector.unscoped.count() == 1


@pytest.mark.parametrize(
    ("asked", "error"),
    [
        ({"scope": f"pdpp:read {COLLECT}"}, "invalid_scope"),
        ({"scope": COLLECT, "resource": f"{ORIGIN}/mcp"}, "invalid_request"),
        ({"scope": COLLECT, "resource": ORIGIN, "authorization_details": DETAIL},
         "invalid_request"),
    ],
)  # fmt: skip
def test_request_that_is_not_a_collectors_alone_is_refused(
    laptop: Asking, asked: dict[str, Any], error: str
) -> None:
    answer = laptop.program.post(
        "/oauth/device_authorization", {"client_id": laptop.client_id, **asked}
    )

    assert (answer.status_code, answer.json()["error"]) == (400, error)
