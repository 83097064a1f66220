"""Renewing an access token with its refresh token (RFC 6749, section 6)."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from evidence.cli import exits
from evidence.cli.cache import Entry
from evidence.cli.credentials import Renew
from evidence.cli.failures import Failure, from_answer
from evidence.cli.provider import Json, Provider


def over(provider: Provider) -> Renew:
    """How to renew an entry by asking the token endpoint that issued it."""

    def renew(entry: Entry) -> Mapping[str, Any]:
        form = {
            "grant_type": "refresh_token",
            "refresh_token": entry["credential"]["refresh_token"],
            "client_id": entry["client"]["client_id"],
        }
        status, body = provider.post(entry["token_endpoint"], form=form)
        if status != 200:
            refused = from_answer(status, body)
            raise Failure(
                refused.code,
                f"The credential cannot be renewed: {refused.message}",
                exit_code=exits.UNAVAILABLE if status >= 500 else exits.NOT_CONNECTED,
                next_step=f"pdpp connect {provider.url}",
            )
        return credential(body)

    return renew


def credential(body: Json, *, scope: str | None = None) -> dict[str, Any]:
    """A token answer as the cache keeps it; a `Failure` where it holds no bearer token."""
    token = body.get("access_token")
    if not isinstance(token, str) or not token:
        raise Failure(
            "no_token", "The server approved, but sent no token.", exit_code=exits.PROTOCOL
        )
    kept = {
        "access_token": token,
        "token_type": body.get("token_type") or "Bearer",
        "expires_at": _ends(body),
        "scope": body.get("scope") or scope,
    }
    for name in ("grant_id", "grant_package_id", "refresh_token"):
        if isinstance(body.get(name), str):
            kept[name] = body[name]
    return {name: value for name, value in kept.items() if value is not None}


def _ends(body: Json) -> str | None:
    if isinstance(body.get("expires_at"), str):
        return str(body["expires_at"])
    seconds = body.get("expires_in")
    if not isinstance(seconds, int) or isinstance(seconds, bool):
        return None
    now = datetime.now(UTC)  # noqa: TID251 - when it came is when it starts to run
    return (now + timedelta(seconds=seconds)).isoformat()
