"""Store credentials on disk, one file with mode 0600 for each server.

The files are `<root>/clients/<host>.json` in a directory with mode 0700 (contract 1.8). A
`.gitignore` in the root keeps tokens out of commits.
"""

import contextlib
import fcntl
import json
import os
import re
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import urlsplit

import platformdirs

from cli import errors
from cli.errors import CliError

CacheEntry: TypeAlias = dict[str, Any]
WORKING_ROOT = Path(".pdpp")
"""Where other PDPP programs keep credentials, relative to the working directory."""
_KIND_MEMBERS = ("pdpp_token_kind", "token_kind", "kind", "role")


class CredentialCache:
    """The cached credentials under one root directory."""

    def __init__(self, root: Path | None = None) -> None:
        self.root = root or default_root()
        self._clients = self.root / "clients"

    def path(self, provider_url: str) -> Path:
        """Return the path of a server's entry, whether or not it exists."""
        host = urlsplit(provider_url).netloc.rpartition("@")[2]
        return self._clients / f"{re.sub(r'[^a-zA-Z0-9.-]', '_', host)}.json"

    def read(self, provider_url: str) -> CacheEntry | None:
        """Return the entry of a server, or None if it is missing or unreadable."""
        entry = _load(self.path(provider_url))
        if entry is None or entry.get("provider_url", provider_url) != provider_url:
            return None
        return entry

    def provider_urls(self) -> list[str]:
        """Return the server URLs of all entries."""
        files = sorted(self._clients.glob("*.json")) if self._clients.is_dir() else []
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
            for directory in (self.root, self._clients):
                directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._clients.chmod(0o700)
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
