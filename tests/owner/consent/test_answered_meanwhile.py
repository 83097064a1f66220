"""The owner answers at the very moment in which the program asks again."""

from collections.abc import Callable
from typing import Any

import pytest
from django.http import HttpResponse
from django.test import Client as HttpClient
from django.utils import timezone

from evidence import limits
from owner.oauth import requests
from owner.oauth.models import PendingRequest
from tests.access.test_narrowed_meanwhile import overtake
from tests.owner.consent.client import Asking
from tests.owner.consent.test_device import poll, start
from tests.world import World


def device_asks() -> Callable[[], HttpResponse]:
    device = Asking.registered(redirect_uris=[], client_name="PDPP CLI")
    started = start(device)
    return lambda: poll(device, started, later=0)


def command_line_asks() -> Callable[[], Any]:
    program = HttpClient()
    opened = program.post("/agent-connect", {}, content_type="application/json").json()
    sent = {"polling_code": opened["polling_code"]}
    path = f"/agent-connect/{opened['id']}/token"
    return lambda: program.post(path, sent, content_type="application/json")


@pytest.mark.parametrize("begin", [device_asks, command_line_asks])
def test_polling_during_approval_is_not_denied(
    committed: World, begin: Callable[[], Callable[[], Any]]
) -> None:
    ask, said = begin(), []
    row, package = PendingRequest.unscoped.get(), committed.packages["bob"]
    overtake(
        lambda: requests.decide(row, package_id=package.pk, now=timezone.now()),
        lambda: said.append(ask()),
    )
    assert "access_token" in said[0].json(), said[0].json()


def test_open_requests_per_client_are_limited_under_concurrency(
    committed: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "OPEN_QUESTIONS", 1)
    device = Asking.registered(redirect_uris=[], client_name="PDPP CLI")
    sent, statuses = {"client_id": device.client_id}, list[int]()

    def ask() -> None:
        answer = device.program.post("/oauth/device_authorization", sent)
        statuses.append(answer.status_code)

    overtake(ask, ask)
    assert statuses == [200, 429]
