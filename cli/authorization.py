"""An attempt to be let in: started, shown to the owner, and asked about until it is decided.

Two protocols lead there: the agent-connect endpoint of PDPP, and the device flow of RFC 8628.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from cli import errors
from cli.credentials import credential
from cli.discovery import Discovered
from cli.errors import Failure, from_answer
from cli.http_client import Json, Provider

SCOPE = "pdpp:read"
DEVICE_CODE = "urn:ietf:params:oauth:grant-type:device_code"
_APPROVAL = ("approval_url", "verification_uri_complete", "verification_uri")
_POLL = ("poll_url", "token_url", "device_poll_endpoint", "completion_endpoint")
_PENDING = frozenset({"pending", "authorization_pending"})
_SECONDS = 2.0
_LASTS = 300.0
_SLOWER = 5.0

Ask = Callable[[], tuple[int, Json]]


@dataclass(frozen=True, slots=True)
class Attempt:
    """Where the owner approves, and how to ask whether that has happened."""

    approval_url: str
    user_code: str | None
    interval: float
    lasts: float
    ask: Ask


def begun(
    provider: Provider, found: Discovered, client: Mapping[str, Any], *, device: bool
) -> Attempt:
    """Start the attempt that the server offers; `device` prefers the standard device flow."""
    standard = found.endpoint("device_authorization_endpoint")
    if found.agent_connect is not None and not (device and standard):
        return _agent(provider, found, client)
    if standard is not None and found.endpoint("token_endpoint") is not None:
        return _device(provider, found, client)
    raise Failure(
        "no_way_in",
        "The server offers neither agent-connect nor the device flow.",
        exit_code=errors.PROTOCOL,
        next_step="Ask its owner for a token and set PDPP_ACCESS_TOKEN.",
    )


def awaited(attempt: Attempt) -> dict[str, Any]:
    """The credential once the owner has approved; a `Failure` for every other end."""
    ends, interval = time.monotonic() + attempt.lasts, attempt.interval
    while True:
        status, body = attempt.ask()
        given = body.get("credential") if isinstance(body.get("credential"), dict) else body
        if given is not None and given.get("access_token"):
            return credential(given, scope=SCOPE)
        if body.get("error") == "slow_down":
            interval += _SLOWER
        elif not _is_pending(status, body):
            raise _ended(status, body)
        if time.monotonic() + interval > ends:
            raise _nobody()
        time.sleep(interval)


def _agent(provider: Provider, found: Discovered, client: Mapping[str, Any]) -> Attempt:
    sent = {"resource": found.resource, "scope": SCOPE, "client_name": client["client_name"]}
    if "client_id" in client:
        sent["client_id"] = client["client_id"]
    status, body = provider.post(str(found.agent_connect), sent=sent)
    if not 200 <= status < 300:
        raise from_answer(status, body)
    polled = _first(body, _POLL)
    asked = {"polling_code": body["polling_code"]} if "polling_code" in body else {}
    return _attempt(body, lambda: provider.post(polled, sent=asked))


def _device(provider: Provider, found: Discovered, client: Mapping[str, Any]) -> Attempt:
    form = {"client_id": str(client.get("client_id", ""))}
    started = {**form, "scope": SCOPE, "resource": found.resource}
    status, body = provider.post(str(found.endpoint("device_authorization_endpoint")), form=started)
    if status != 200:
        raise from_answer(status, body)
    form |= {"grant_type": DEVICE_CODE, "device_code": str(body.get("device_code", ""))}
    token = str(found.endpoint("token_endpoint"))
    return _attempt(body, lambda: provider.post(token, form={**form, "resource": found.resource}))


def _attempt(body: Json, ask: Ask) -> Attempt:
    code = body.get("user_code")
    return Attempt(
        approval_url=_first(body, _APPROVAL),
        user_code=code if isinstance(code, str) else None,
        interval=_interval(body),
        lasts=_number(body.get("expires_in")) or _LASTS,
        ask=ask,
    )


def _interval(body: Json) -> float:
    """Seconds. Some servers say milliseconds under either name; nobody waits 100 s in earnest."""
    if (milliseconds := _number(body.get("interval_ms"))) is not None:
        return milliseconds / 1000
    told = _number(body.get("interval"))
    if told is None:
        return _SECONDS
    return told / 1000 if told >= 100 else told


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
        return None
    return float(value)


def _first(body: Json, names: tuple[str, ...]) -> str:
    for name in names:
        if isinstance(body.get(name), str):
            return str(body[name])
    raise Failure(
        "connect_request_failed",
        f"The server began the attempt, but named none of {', '.join(names)}.",
        exit_code=errors.PROTOCOL,
    )


def _is_pending(status: int, body: Json) -> bool:
    told = body.get("status")
    if 200 <= status < 300:
        return told in _PENDING
    return body.get("error") == "authorization_pending"


_ENDS: Mapping[str, tuple[str, int]] = {
    "access_denied": ("The owner has refused.", errors.NO_PERMISSION),
    "expired_token": ("The attempt has expired before it was approved.", errors.TRY_LATER),
    "insufficient_scope": ("The server grants less than this command needs.", errors.NO_PERMISSION),
    "invalid_grant": ("The server does not know the attempt any more.", errors.NOT_CONNECTED),
}


def _ended(status: int, body: Json) -> Failure:
    refused = from_answer(status, body)
    message, exit_code = _ENDS.get(refused.code, (refused.message, errors.PROTOCOL))
    known = refused.code in _ENDS
    return Failure(
        refused.code if known else "connect_request_failed",
        message,
        exit_code=errors.UNAVAILABLE if status >= 500 else exit_code,
        next_step="Run pdpp connect again." if known else None,
        detail=refused.detail,
    )


def _nobody() -> Failure:
    return Failure(
        "expired_token",
        "Nobody has approved in time.",
        exit_code=errors.TRY_LATER,
        next_step="Run pdpp connect again and open the address it prints.",
    )
