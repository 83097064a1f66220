"""Store credentials, one file with mode 0600 for each server; select and refresh (RFC 6749) access tokens.

The files are `<root>/clients/<host>.json` in a directory with mode 0700 (contract 1.8). Tokens of
collectors are in `<root>/collectors/`, where no command that reads records looks. A
`.gitignore` in the root keeps tokens out of commits.

Owner credentials are never used, wherever they are found: this process may belong to an agent.
"""

import contextlib
import fcntl
import json
import os
import re
import secrets
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import urlsplit

import platformdirs

from cli import errors
from cli.errors import CliError, error_from_response
from cli.http_client import ApiClient, Json

CacheEntry: TypeAlias = dict[str, Any]
WORKING_ROOT = Path(".pdpp")
"""Where other PDPP programs keep credentials, relative to the working directory."""
_KIND_MEMBERS = ("pdpp_token_kind", "token_kind", "kind", "role")


CLIENTS, COLLECTORS = "clients", "collectors"
"""Folders of credentials that read, and of tokens that store."""


class CredentialCache:
    """The cached credentials in a folder under one root directory."""

    def __init__(self, root: Path | None = None, folder: str = CLIENTS) -> None:
        self.root = root or default_root()
        self.folder = folder
        self._folder = self.root / folder

    @property
    def sign_in(self) -> str:
        """The command that stores an entry."""
        return "pdpp connect" if self.folder == CLIENTS else "pdpp collect login"

    def path(self, provider_url: str) -> Path:
        """Return the path of a server's entry, whether or not it exists."""
        host = urlsplit(provider_url).netloc.rpartition("@")[2]
        return self._folder / f"{re.sub(r'[^a-zA-Z0-9.-]', '_', host)}.json"

    def read(self, provider_url: str) -> CacheEntry | None:
        """Return the entry of a server, or None if it is missing or unreadable."""
        entry = _load(self.path(provider_url))
        if entry is None or entry.get("provider_url", provider_url) != provider_url:
            return None
        return entry

    def provider_urls(self) -> list[str]:
        """Return the server URLs of all entries."""
        files = sorted(self._folder.glob("*.json")) if self._folder.is_dir() else []
        entries = [_load(path) for path in files]
        return [entry["provider_url"] for entry in entries if entry and entry.get("provider_url")]

    def write(self, provider_url: str, entry: CacheEntry) -> None:
        """Replace the entry of a server atomically."""
        path = self.path(provider_url)
        temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
        self.create_directories()
        try:
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "w") as file:
                json.dump(entry, file, indent=2)
            temporary.replace(path)
        except OSError as error:
            raise _write_error(path, error) from error

    def delete(self, provider_url: str) -> None:
        """Delete the entry of a server, if there is one."""
        self.path(provider_url).unlink(missing_ok=True)

    @contextlib.contextmanager
    def lock(self, provider_url: str) -> Iterator[None]:
        """Lock an entry: two processes that use the same refresh token would end the grant."""
        path = self.path(provider_url).with_suffix(".lock")
        self.create_directories()
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
        except OSError as error:
            raise _write_error(path, error) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def create_directories(self) -> None:
        """Create the directories of the cache. Raises CliError when they cannot be written."""
        try:
            for directory in (self.root, self._folder):
                directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._folder.chmod(0o700)
            gitignore = self.root / ".gitignore"
            if not gitignore.exists():
                gitignore.write_text("*\n")
        except OSError as error:
            raise _write_error(self.root, error) from error


def default_root() -> Path:
    """Return the folder of this program in the user's configuration directory.

    A folder in the working directory is not read unless asked for: it may come with a stranger's
    repository, and name the stranger's server.
    """
    return platformdirs.user_config_path("pdpp", appauthor=False)


def is_owner_credential(entry: CacheEntry) -> bool:
    """Return whether an entry holds a credential of the owner, which agents must not have."""
    parts = [entry, *(entry[name] for name in ("credential", "client") if name in entry)]
    return any(
        part.get(member) == "owner"
        for part in parts
        if isinstance(part, dict)
        for member in _KIND_MEMBERS
    )


def _load(path: Path) -> CacheEntry | None:
    try:
        entry = json.loads(path.read_text())
    except (OSError, ValueError):
        return None
    return entry if isinstance(entry, dict) else None


def _write_error(path: Path, error: OSError) -> CliError:
    return CliError(
        "cache_not_writable",
        f"{path} cannot be written: {error.strerror or error}.",
        exit_code=errors.NOT_WRITTEN,
        next_step="Choose another directory with --cache-root or PDPP_CACHE_ROOT.",
    )


ACCESS_TOKEN = "PDPP_ACCESS_TOKEN"  # noqa: S105 - the name of a variable
MCP_TOKEN = "PDPP_MCP_TOKEN"  # noqa: S105 - the name of a variable
OWNER_VARIABLES = ("PDPP_OWNER_TOKEN", "PDPP_OWNER_SESSION")
OWNER_TOKEN_PREFIX = "pdpp_own_"  # noqa: S105 - a prefix, not a token
_EXPIRY_MARGIN = timedelta(seconds=20)
"""Refresh a token this long before it expires, so that it is valid when it arrives."""

RefreshToken = Callable[[CacheEntry], Mapping[str, Any]]
"""Exchanges the refresh token of an entry for the new members of its `credential`."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """The access token for one server: from the environment, otherwise from the cache."""

    provider_url: str
    environment: Mapping[str, str]
    cache: CredentialCache
    refresh_token: RefreshToken

    def bearer(self, now: datetime) -> str:
        """Return the token to send, refreshed if needed. Raises CliError if there is none."""
        return self.unexpired(now) or self._refresh(now)

    def unexpired(self, now: datetime) -> str | None:
        """Return the token without a request, or None if it must be refreshed first.

        Raises CliError if there is no token that can be used or refreshed.
        """
        token = self.environment.get(ACCESS_TOKEN, "").strip().removeprefix("Bearer ")
        if token:
            return reject_owner_token(token, location=ACCESS_TOKEN)
        entry = self._entry()
        if not _expires_before(entry, now + _EXPIRY_MARGIN):
            return stored_token(entry)
        if not (entry["credential"].get("refresh_token") and entry.get("token_endpoint")):
            raise not_connected_error(
                f"The credential for {self.provider_url} has expired.", self.provider_url
            )
        return None

    def _refresh(self, now: datetime) -> str:
        with self.cache.lock(self.provider_url):
            entry = self._entry()
            # Another process may have refreshed it while this one waited for the lock.
            if _expires_before(entry, now + _EXPIRY_MARGIN):
                old = {k: v for k, v in entry["credential"].items() if k != "expires_at"}
                entry["credential"] = {**old, **self.refresh_token(entry)}
                self.cache.write(self.provider_url, entry)
            return stored_token(entry)

    def _entry(self) -> CacheEntry:
        entry = self.cache.read(self.provider_url)
        if entry is None or not stored_token(entry):
            raise not_connected_error(
                f"There is no credential for {self.provider_url}.", self.provider_url
            )
        location = str(self.cache.path(self.provider_url))
        if is_owner_credential(entry):
            raise owner_credential_error(location)
        reject_owner_token(stored_token(entry), location=location)
        return entry


def find_owner_credential(environment: Mapping[str, str]) -> str | None:
    """Return the name of a variable that holds an owner credential, or None."""
    for name in OWNER_VARIABLES:
        if environment.get(name):
            return name
    for name, value in environment.items():
        if value.strip().removeprefix("Bearer ").startswith(OWNER_TOKEN_PREFIX):
            return name
    return None


def reject_owner_environment(environment: Mapping[str, str]) -> None:
    """Raise CliError if a variable holds an owner credential: agents inherit the environment."""
    if (name := find_owner_credential(environment)) is not None:
        raise owner_credential_error(name)


def reject_owner_token(token: str, *, location: str) -> str:
    """Return the token. Raises CliError if its prefix marks an owner token."""
    if token.startswith(OWNER_TOKEN_PREFIX):
        raise owner_credential_error(location)
    return token


def not_connected_error(message: str, provider_url: str) -> CliError:
    """Return the error for a server without a usable credential."""
    return CliError(
        "not_connected",
        message,
        exit_code=errors.NOT_CONNECTED,
        next_step=f"pdpp connect {provider_url}",
    )


def owner_credential_error(location: str) -> CliError:
    """Return the error for an owner credential that was found at `location`."""
    return CliError(
        "owner_credential",
        f"{location} holds an owner credential. Agents and this command must not use one.",
        exit_code=errors.NO_PERMISSION,
        next_step="Remove it and use a grant's token: pdpp connect URL.",
    )


def stored_token(entry: CacheEntry) -> str:
    """Return the access token of an entry, or an empty string."""
    credential = entry.get("credential")
    token = credential.get("access_token") if isinstance(credential, dict) else None
    return token if isinstance(token, str) else ""


def _expires_before(entry: CacheEntry, time: datetime) -> bool:
    expires_at = entry["credential"].get("expires_at")
    if not isinstance(expires_at, str):
        return False
    try:
        expiry = datetime.fromisoformat(expires_at)
    except ValueError:
        return True
    return (expiry if expiry.tzinfo else expiry.replace(tzinfo=UTC)) < time


def token_refresher(api: ApiClient) -> RefreshToken:
    """Return a function that refreshes an entry at its token endpoint."""

    def refresh(entry: CacheEntry) -> Mapping[str, Any]:
        form = {
            "grant_type": "refresh_token",
            "refresh_token": entry["credential"]["refresh_token"],
            "client_id": entry["client"]["client_id"],
        }
        status, body = api.post(entry["token_endpoint"], form=form)
        if status != 200:
            error = error_from_response(status, body)
            raise CliError(
                error.code,
                f"The credential cannot be refreshed: {error.message}",
                exit_code=errors.UNAVAILABLE if status >= 500 else errors.NOT_CONNECTED,
                next_step=f"pdpp connect {api.url}",
            )
        return credential_from_response(body)

    return refresh


def credential_from_response(body: Json) -> dict[str, Any]:
    """Return a token response in the format of the cache. Raises CliError if it has no token."""
    token = body.get("access_token")
    if not isinstance(token, str) or not token:
        raise CliError(
            "no_token", "The server approved but sent no token.", exit_code=errors.PROTOCOL
        )
    credential = {
        "access_token": token,
        "token_type": body.get("token_type") or "Bearer",
        "expires_at": _expires_at(body),
        "scope": body.get("scope"),
    }
    for name in ("grant_id", "grant_package_id", "refresh_token"):
        if isinstance(body.get(name), str):
            credential[name] = body[name]
    return {name: value for name, value in credential.items() if value is not None}


def _expires_at(body: Json) -> str | None:
    if isinstance(body.get("expires_at"), str):
        return str(body["expires_at"])
    seconds = body.get("expires_in")
    if not isinstance(seconds, int) or isinstance(seconds, bool):
        return None
    now = datetime.now(UTC)  # noqa: TID251 - expires_in counts from the arrival of the response
    return (now + timedelta(seconds=seconds)).isoformat()
