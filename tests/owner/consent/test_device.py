"""Programs without a browser: the device flow, and the same page behind ``pdpp connect``."""

import json
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

import pytest
import time_machine
from django.http import HttpResponse
from django.utils import timezone

from evidence import limits
from evidence.models.grants import AccessToken, Package
from owner.oauth.models import PendingRequest
from tests.mcp_adapter.real import post
from tests.owner.consent.client import MCP, ORIGIN, Asking, answered, pressed, the_form
from tests.owner.pages.browser import Page
from tests.world import World

GRANT = "urn:ietf:params:oauth:grant-type:device_code"
DETAIL = json.dumps(
    [
        {
            "type": "https://pdpp.dev/data-access",
            "source": {"kind": "connector", "id": "https://registry.example/connectors/mail"},
            "streams": [{"name": "messages", "fields": ["subject"]}],
        }
    ]
)


@pytest.fixture
def device(world: World) -> Asking:
    return Asking.registered(redirect_uris=[], client_name="PDPP CLI")


def start(device: Asking, **more: str) -> dict[str, Any]:
    sent = {"client_id": device.client_id, "resource": MCP, **more}
    answer = device.program.post("/oauth/device_authorization", sent)
    assert answer.status_code == 200, answer.content
    body: dict[str, Any] = answer.json()
    return body


def poll(device: Asking, started: dict[str, Any], *, later: float = 10) -> HttpResponse:
    with time_machine.travel(timezone.now() + timedelta(seconds=later)):
        return device.token(
            grant_type=GRANT, device_code=started["device_code"], client_id=device.client_id
        )


def the_page(asking: Asking, user_code: str) -> Any:
    """What the owner sees who has typed the code."""
    [form] = [
        each
        for each in Page("/device", asking.owner.get("/device")).forms
        if "logout" not in each.action
    ]
    form.fill("user_code", user_code)
    return asking.owner.post("/device", dict(form.answers))


def decide(asking: Asking, user_code: str, *, allow: bool = True) -> HttpResponse:
    """The owner types the code and answers."""
    return answered(asking.owner, the_page(asking, user_code), allow=allow)


def test_device_reads_after_approval(device: Asking) -> None:
    started = start(device)
    assert started["verification_uri"] == f"{ORIGIN}/device"
    assert started["verification_uri_complete"].endswith(f"?user_code={started['user_code']}")
    assert (started["expires_in"], started["interval"]) == (300, limits.POLL_SECONDS)
    assert poll(device, started, later=0).json()["error"] == "authorization_pending"

    decide(device, started["user_code"].lower().replace("-", " "))

    tokens = poll(device, started)
    assert tokens.status_code == 200, tokens.content
    assert post(tokens.json()["access_token"]).status_code == 200
    assert device.refresh(tokens.json()["refresh_token"]).status_code == 200
    assert poll(device, started, later=20).json()["error"] == "invalid_grant"


def test_denial_reaches_the_device(device: Asking) -> None:
    started = start(device)

    decide(device, started["user_code"], allow=False)

    assert poll(device, started).json()["error"] == "access_denied"


def test_polling_too_often_is_slowed_down(device: Asking) -> None:
    started = start(device)

    errors = [poll(device, started, later=later).json()["error"] for later in (0, 1, 4, 12)]

    assert errors == ["authorization_pending", "slow_down", "slow_down", "slow_down"] or errors[
        :2
    ] == ["authorization_pending", "slow_down"]


def test_a_code_ends_after_five_minutes(device: Asking) -> None:
    started = start(device)

    assert poll(device, started, later=301).json()["error"] == "expired_token"
    with time_machine.travel(timezone.now() + timedelta(seconds=301)):
        assert the_page(device, started["user_code"]).status_code == 422


def test_code_in_the_url_must_be_confirmed(device: Asking) -> None:
    started = start(device)

    page = Page("/device", device.owner.get("/device", {"user_code": started["user_code"]}))

    assert page.form.values("user_code") == [started["user_code"]]
    assert "Continue only if you started the app yourself" in page.text
    assert "PDPP CLI" not in page.text


def test_request_is_decided_once(device: Asking) -> None:
    started = start(device)
    page = the_page(device, started["user_code"])
    seen = device.owner.post("/device", pressed(the_form(page), "review"))
    last = pressed(the_form(seen), "allow")
    assert device.owner.post("/device", last).status_code == 200
    packages = Package.unscoped.count()

    late = device.owner.post("/device", last)

    assert late.status_code == 422
    assert Package.unscoped.count() == packages


def test_device_code_works_for_its_client_only(device: Asking) -> None:
    started = start(device)
    decide(device, started["user_code"])
    other = device.register(redirect_uris=[]).json()["client_id"]

    with time_machine.travel(timezone.now() + timedelta(seconds=10)):
        stolen = device.token(grant_type=GRANT, device_code=started["device_code"], client_id=other)

    assert stolen.json()["error"] == "invalid_grant"


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"client_id": "cli_unknown"}, "invalid_client"),
        ({"resource": "https://elsewhere.example"}, "invalid_target"),
        ({"authorization_details": "{}"}, "invalid_authorization_details"),
    ],
)
def test_invalid_device_request_gets_no_code(
    device: Asking, wrong: dict[str, str], error: str
) -> None:
    sent = {"client_id": device.client_id, **wrong}

    refused = device.program.post("/oauth/device_authorization", sent)

    assert (refused.status_code, refused.json()["error"]) == (400, error)


def test_client_without_device_grant_gets_no_code(asking: Asking) -> None:
    refused = asking.program.post("/oauth/device_authorization", {"client_id": asking.client_id})

    assert refused.json()["error"] == "unauthorized_client"


def test_device_may_request_fields(world: World, device: Asking) -> None:
    started = start(device, resource=ORIGIN, authorization_details=DETAIL)
    decide(device, started["user_code"])

    bearer = poll(device, started).json()["access_token"]

    listed = world.get("/v1/streams/messages/records", who=bearer, connection_id="cin_personal")
    assert {name for each in listed.body["data"] for name in each["data"]} == {"id", "subject"}


def test_open_requests_per_client_are_limited(
    device: Asking, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "OPEN_QUESTIONS", 1)
    start(device)

    answers = [
        device.program.post("/oauth/device_authorization", {"client_id": device.client_id}),
        device.program.post("/oauth/par", {"client_id": device.client_id}),
        connect(device),
    ]

    assert [(each.status_code, each.json()["error"]) for each in answers] == [
        (429, "slow_down")
    ] * 3


# pdpp connect (contract 1.8)


def connect(device: Asking, **sent: str) -> HttpResponse:
    usual = {"resource": ORIGIN, "scope": "pdpp:read", "client_name": "PDPP CLI"}
    body = {"client_id": device.client_id} | usual | sent
    return device.program.post("/agent-connect", json.dumps(body), "application/json")


def asked_again(device: Asking, attempt: dict[str, Any], code: str | None = None) -> HttpResponse:
    body = json.dumps({"polling_code": attempt["polling_code"] if code is None else code})
    path = urlsplit(attempt["poll_url"]).path
    return device.program.post(path, body, "application/json")


def test_a_command_line_is_connected(world: World, device: Asking) -> None:
    attempt = connect(device)
    assert attempt.status_code == 201
    body = attempt.json()
    assert (body["object"], body["status"]) == ("agent_connect_attempt", "pending")
    assert body["id"].startswith("agc_")
    assert body["poll_url"] == body["token_url"] == f"{ORIGIN}/agent-connect/{body['id']}/token"
    assert (body["interval"], body["interval_ms"], body["expires_in"]) == (2, 2000, 300)
    waiting = asked_again(device, body)
    assert (waiting.status_code, waiting.json()["status"]) == (202, "pending")
    assert waiting.json()["error"] == "authorization_pending"

    decide(device, body["user_code"])

    given = asked_again(device, body)
    assert given.status_code == 200
    assert given.json()["token_type"] == "Bearer"
    assert given.json()["grant"]["source"]["id"].endswith("/mail")
    assert world.get("/v1/schema", who=given.json()["access_token"]).status == 200
    again = asked_again(device, body).json()
    assert again["access_token"] == given.json()["access_token"]
    assert AccessToken.unscoped.filter(package__client_id=device.client_id).count() == 1


def test_a_command_line_need_not_be_registered(device: Asking) -> None:
    body = json.dumps({"resource": ORIGIN, "client_name": "PDPP CLI"})

    attempt = device.program.post("/agent-connect", body, "application/json")

    assert attempt.status_code == 201
    assert PendingRequest.unscoped.get().registration.name == "PDPP CLI"


def test_denial_reaches_the_command_line(device: Asking) -> None:
    attempt = connect(device).json()
    decide(device, attempt["user_code"], allow=False)

    refused = asked_again(device, attempt)

    assert (refused.status_code, refused.json()["error"]) == (403, "access_denied")


def test_only_the_polling_code_fetches_the_token(device: Asking) -> None:
    attempt, other = connect(device).json(), connect(device).json()
    decide(device, attempt["user_code"])

    for code in ("", "guessed", other["polling_code"]):
        refused = asked_again(device, attempt, code)
        assert (refused.status_code, refused.json()["error"]) == (401, "invalid_grant")


def test_an_attempt_ends_after_five_minutes(device: Asking) -> None:
    attempt = connect(device).json()

    with time_machine.travel(timezone.now() + timedelta(seconds=301)):
        refused = asked_again(device, attempt)

    assert (refused.status_code, refused.json()["error"]) == (400, "expired_token")


def test_an_attempt_of_an_unknown_client_is_refused(device: Asking) -> None:
    assert connect(device, client_id="cli_unknown").json()["error"] == "invalid_client"
    assert connect(device, resource="https://elsewhere.example").json()["error"] == (
        "invalid_target"
    )
    assert connect(device, request_uri="urn:pdpp:pending-consent:x").json()["error"] == (
        "expired_token"
    )


def test_a_client_with_a_secret_proves_itself_to_connect(device: Asking) -> None:
    device_grant = {"redirect_uris": [], "token_endpoint_auth_method": "client_secret_post"}
    registered = device.register(**device_grant).json()
    device.client_id, secret = registered["client_id"], registered["client_secret"]
    proof = {"client_id": device.client_id, "client_secret": secret}
    pushed = {**proof, "authorization_details": json.loads(DETAIL)}
    stored = device.program.post("/oauth/par", json.dumps(pushed), "application/json").json()

    for more in ({}, {"request_uri": stored["request_uri"]}):
        for wrong in ({}, {"client_secret": "guessed"}):
            refused = connect(device, **more, **wrong)
            assert (refused.status_code, refused.json()["error"]) == (400, "invalid_client")
        assert connect(device, client_secret=secret, **more).status_code == 201


def test_a_client_without_the_device_grant_cannot_connect(device: Asking) -> None:
    device.client_id = device.register().json()["client_id"]

    refused = connect(device)

    assert (refused.status_code, refused.json()["error"]) == (400, "unauthorized_client")
    assert not PendingRequest.unscoped.exists()


def test_an_attempt_may_name_a_pushed_request(world: World, device: Asking) -> None:
    pushed = device.program.post(
        "/oauth/par",
        json.dumps({"client_id": device.client_id, "authorization_details": json.loads(DETAIL)}),
        "application/json",
    ).json()
    other = device.register(redirect_uris=[]).json()["client_id"]
    stolen = connect(device, client_id=other, request_uri=pushed["request_uri"])
    assert (stolen.status_code, stolen.json()["error"]) == (403, "invalid_client")

    attempt = connect(device, request_uri=pushed["request_uri"]).json()
    decide(device, attempt["user_code"])

    [stream] = asked_again(device, attempt).json()["grant"]["streams"]
    assert sorted(stream["fields"]) == ["id", "subject"]
