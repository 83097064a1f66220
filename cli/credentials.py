"""Which token a command uses: the one in the environment, else the provider's cached one.

An owner's credential is never used, wherever it was found: what runs here may be an agent's.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from cli import errors
from cli.credential_cache import Cache, Entry, is_owners
from cli.errors import Failure, from_answer
from cli.http_client import Json, Provider

ACCESS_TOKEN = "PDPP_ACCESS_TOKEN"  # noqa: S105 - the name of a variable
OWNER_VARIABLES = ("PDPP_OWNER_TOKEN", "PDPP_OWNER_SESSION")
OWNER_TOKEN_PREFIX = "pdpp_own_"  # noqa: S105 - the mark of an owner token, not a token
_SKEW = timedelta(seconds=20)
"""A token is renewed this long before it ends, so that it does not end under way."""

Renew = Callable[[Entry], Mapping[str, Any]]
"""Exchanges the entry's refresh token: the new members of its `credential`."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """Gives the bearer for one provider, anew for every request."""

    provider_url: str
    environment: Mapping[str, str]
    cache: Cache
    renew: Renew

    def bearer(self, now: datetime) -> str:
        """The token to send; a `Failure` where there is none that may be used."""
        return self.check(now) or self.renewed(now)

    def check(self, now: datetime) -> str | None:
        """The same without asking anybody: None where the token has to be renewed first."""
        given = self.environment.get(ACCESS_TOKEN, "").strip().removeprefix("Bearer ")
        if given:
            return not_owners(given, where=ACCESS_TOKEN)
        entry = self._entry()
        if not _ends_before(entry, now + _SKEW):
            return _token(entry)
        if not _renewable(entry):
            raise self._expired()
        return None

    def renewed(self, now: datetime) -> str:
        """Renew the cached token, unless another process has just done it."""
        with self.cache.locked(self.provider_url):
            entry = self._entry()
            if _ends_before(entry, now + _SKEW):
                old = {k: v for k, v in entry["credential"].items() if k != "expires_at"}
                entry["credential"] = {**old, **self.renew(entry)}
                self.cache.write(self.provider_url, entry)
            return _token(entry)

    def _entry(self) -> Entry:
        entry = self.cache.read(self.provider_url)
        if entry is None or not _token(entry):
            raise not_connected(
                f"There is no credential for {self.provider_url}.", self.provider_url
            )
        if is_owners(entry):
            raise owners(str(self.cache.path(self.provider_url)))
        not_owners(_token(entry), where=str(self.cache.path(self.provider_url)))
        return entry

    def _expired(self) -> Failure:
        return not_connected(
            f"The credential for {self.provider_url} has expired.", self.provider_url
        )


def owner_credential(environment: Mapping[str, str]) -> str | None:
    """The name of a variable that holds an owner's credential, whatever it is called."""
    for name in OWNER_VARIABLES:
        if environment.get(name):
            return name
    for name, value in environment.items():
        if value.strip().removeprefix("Bearer ").startswith(OWNER_TOKEN_PREFIX):
            return name
    return None


def refuse_owners(environment: Mapping[str, str]) -> None:
    """An agent's process inherits its environment, so the owner's own keys may not be in it."""
    if (name := owner_credential(environment)) is not None:
        raise owners(name)


def not_owners(token: str, *, where: str) -> str:
    """The token, if it does not show that it is an owner's."""
    if token.startswith(OWNER_TOKEN_PREFIX):
        raise owners(where)
    return token


def not_connected(message: str, provider_url: str) -> Failure:
    """There is nothing to read with."""
    return Failure(
        "not_connected",
        message,
        exit_code=errors.NOT_CONNECTED,
        next_step=f"pdpp connect {provider_url}",
    )


def owners(where: str) -> Failure:
    """What was found there belongs to the owner."""
    return Failure(
        "owner_credential",
        f"{where} holds a credential of the owner, which agents and this command never use.",
        exit_code=errors.NO_PERMISSION,
        next_step="Remove it and use a token of a grant: pdpp connect URL.",
    )


def _token(entry: Entry) -> str:
    credential = entry.get("credential")
    token = credential.get("access_token") if isinstance(credential, dict) else None
    return token if isinstance(token, str) else ""


def _renewable(entry: Entry) -> bool:
    return bool(entry["credential"].get("refresh_token") and entry.get("token_endpoint"))


def _ends_before(entry: Entry, moment: datetime) -> bool:
    ends = entry["credential"].get("expires_at")
    if not isinstance(ends, str):
        return False
    try:
        instant = datetime.fromisoformat(ends)
    except ValueError:
        return True
    return (instant if instant.tzinfo else instant.replace(tzinfo=UTC)) < moment


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
                exit_code=errors.UNAVAILABLE if status >= 500 else errors.NOT_CONNECTED,
                next_step=f"pdpp connect {provider.url}",
            )
        return credential(body)

    return renew


def credential(body: Json, *, scope: str | None = None) -> dict[str, Any]:
    """A token answer as the cache keeps it; a `Failure` where it holds no bearer token."""
    token = body.get("access_token")
    if not isinstance(token, str) or not token:
        raise Failure(
            "no_token", "The server approved, but sent no token.", exit_code=errors.PROTOCOL
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
