"""Requests that are pushed first, and ``authorization_details``."""

import json
from datetime import timedelta
from typing import Any

import pytest
import time_machine
from django.utils import timezone

from owner.oauth.authorization_endpoint import (
    InvalidAuthorizationDetailsError,
    parse_authorization_details,
)
from tests.owner.consent.client import ORIGIN, Asking, told

MAIL = "https://registry.example/connectors/mail"


def detail(**more: Any) -> dict[str, Any]:
    return {
        "type": "https://pdpp.dev/data-access",
        "source": {"kind": "connector", "id": MAIL},
        "streams": [{"name": "messages"}],
        **more,
    }


def push(asking: Asking, **changed: str | None) -> Any:
    return asking.program.post("/oauth/par", asking.parameters(**changed))


def test_pushed_request_is_authorized_by_its_uri(asking: Asking) -> None:
    streams = [
        {"name": "messages", "fields": ["subject"], "time_constraint": {"since": "2026-01-01"}}
    ]
    wanted = json.dumps([detail(streams=streams, purpose_description="To answer.")])
    pushed = push(asking, authorization_details=wanted)
    assert (pushed.status_code, pushed["Cache-Control"]) == (201, "no-store")
    body = pushed.json()
    assert body["request_uri"].startswith("urn:pdpp:pending-consent:")
    assert body["expires_in"] == 300
    assert body["authorization_url"].startswith(f"{ORIGIN}/oauth/authorize?client_id=cli_")
    named = {"client_id": asking.client_id, "request_uri": body["request_uri"]}

    answer = told(asking.answer(asking.owner.get("/oauth/authorize", named)))

    [held] = asking.exchange(answer["code"]).json()["authorization_details"]
    assert (held["purpose_description"], answer["state"]) == ("To answer.", "xyz")
    [stream] = held["streams"]
    assert sorted(stream["fields"]) == ["id", "subject"]
    assert stream["time_constraint"]["since"].startswith("2026-01-01T00:00:00")
    assert asking.owner.get("/oauth/authorize", named).status_code == 400


def test_a_pushed_request_ends_after_five_minutes(asking: Asking) -> None:
    named = {"client_id": asking.client_id, "request_uri": push(asking).json()["request_uri"]}

    with time_machine.travel(timezone.now() + timedelta(seconds=301)):
        assert asking.owner.get("/oauth/authorize", named).status_code == 400


def test_pushed_request_works_for_its_client_only(asking: Asking) -> None:
    other = asking.register().json()["client_id"]
    named = {"client_id": other, "request_uri": push(asking).json()["request_uri"]}

    assert asking.owner.get("/oauth/authorize", named).status_code == 400


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"client_id": "cli_unknown"}, "invalid_client"),
        ({"redirect_uri": "https://thief.example/"}, "invalid_request"),
        ({"code_challenge_method": "plain"}, "invalid_request"),
        ({"resource": "https://elsewhere.example"}, "invalid_target"),
        ({"authorization_details": "{"}, "invalid_authorization_details"),
        ({"request_uri": "urn:pdpp:pending-consent:x"}, "invalid_request"),
    ],
)
def test_a_wrong_request_is_refused_when_it_is_pushed(
    asking: Asking, wrong: dict[str, str | None], error: str
) -> None:
    answer = push(asking, **wrong)

    assert (answer.status_code, answer.json()["error"]) == (400, error)


def test_no_details_request_nothing_specific() -> None:
    assert parse_authorization_details(None) == parse_authorization_details("") == ()


def test_complete_detail_is_parsed() -> None:
    [found] = parse_authorization_details(
        json.dumps(
            [
                detail(
                    access_mode="single_use",
                    purpose_code="https://pdpp.dev/purpose/research",
                    retention={"max_duration": "P30D", "on_expiry": "delete"},
                    expires_at="2027-01-01T00:00:00Z",
                    streams=[{"name": "messages", "instance_ids": ["cin_a"], "resources": ["m1"],
                              "view": "envelope", "time_constraint": {"until": "2026-05-01"}}],
                )
            ]
        )
    )  # fmt: skip

    assert (found.access_mode, found.source_id) == ("single_use", MAIL)
    assert found.retention == {"max_duration": "P30D", "on_expiry": "delete"}
    assert found.expires_at is not None
    [stream] = found.streams
    assert (stream.fields, stream.view, stream.since) == (None, "envelope", None)
    assert (stream.instance_ids, stream.resources) == (("cin_a",), ("m1",))
    assert stream.until is not None
    assert stream.until.isoformat() == "2026-05-01T00:00:00+00:00"


@pytest.mark.parametrize(
    "wrong",
    [
        "{",
        "{}",
        "[]",
        "[7]",
        json.dumps([{"type": "payment"}]),
        json.dumps([detail(source=None)]),
        json.dumps([detail(source={"id": 7})]),
        json.dumps([detail(everything=True)]),
        json.dumps([detail(access_mode="forever")]),
        json.dumps([detail(retention="long")]),
        json.dumps([detail(expires_at="soon")]),
        json.dumps([detail(expires_at=7)]),
        json.dumps([detail(streams={})]),
        json.dumps([detail(streams=["messages"])]),
        json.dumps([detail(streams=[{"name": "messages", "all": True}])]),
        json.dumps([detail(streams=[{"name": "messages", "fields": "subject"}])]),
        json.dumps([detail(streams=[{"name": "messages", "fields": [7]}])]),
        json.dumps([detail(streams=[{"name": "messages", "time_constraint": "now"}])]),
        json.dumps([detail(streams=[{"name": "messages", "time_constraint": {"last": 7}}])]),
        json.dumps([detail(streams=[{}])]),
        json.dumps([detail(purpose_description="x" * 3000)]),
        json.dumps([detail()] * 21),
    ],
)
def test_invalid_details_are_refused(wrong: str) -> None:
    with pytest.raises(InvalidAuthorizationDetailsError):
        parse_authorization_details(wrong)
