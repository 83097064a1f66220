"""The credential cache (contract 1.8): one file for each provider, for its owner's eyes alone.

`<root, default .pdpp>/clients/<host>.json`, mode 0600 in a directory of mode 0700, with a
`.gitignore` in the root so that no token is ever committed.
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

from cli import errors
from cli.errors import Failure

Entry: TypeAlias = dict[str, Any]
DEFAULT_ROOT = Path(".pdpp")
_KINDS = ("pdpp_token_kind", "token_kind", "kind", "role")


class Cache:
    """The entries under one root."""

    def __init__(self, root: Path | None = None) -> None:
        self.root = root or DEFAULT_ROOT
        self._clients = self.root / "clients"

    def path(self, provider_url: str) -> Path:
        """Where the provider's entry is, or would be."""
        host = urlsplit(provider_url).netloc.rpartition("@")[2]
        return self._clients / f"{re.sub(r'[^a-zA-Z0-9.-]', '_', host)}.json"

    def read(self, provider_url: str) -> Entry | None:
        """The entry, if there is one that can be read and is of this very provider."""
        entry = _loaded(self.path(provider_url))
        if entry is None or entry.get("provider_url", provider_url) != provider_url:
            return None
        return entry

    def providers(self) -> list[str]:
        """The URLs of all entries."""
        files = sorted(self._clients.glob("*.json")) if self._clients.is_dir() else []
        entries = [_loaded(path) for path in files]
        return [entry["provider_url"] for entry in entries if entry and entry.get("provider_url")]

    def write(self, provider_url: str, entry: Entry) -> None:
        """Replace the entry at once: whoever reads meanwhile sees the old one or the new one."""
        path = self.path(provider_url)
        new = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
        self.prepare()
        try:
            with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
                json.dump(entry, file, indent=2)
            new.replace(path)
        except OSError as error:
            raise _unwritable(path, error) from error

    def forget(self, provider_url: str) -> None:
        """Remove the entry."""
        self.path(provider_url).unlink(missing_ok=True)

    @contextlib.contextmanager
    def locked(self, provider_url: str) -> Iterator[None]:
        """Hold the entry: a refresh token that two processes used would end the grant."""
        path = self.path(provider_url).with_suffix(".lock")
        self.prepare()
        try:
            file = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
        except OSError as error:
            raise _unwritable(path, error) from error
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield
        finally:
            os.close(file)

    def prepare(self) -> None:
        """Make the directories; a `Failure` where nothing can be kept."""
        try:
            for directory in (self.root, self._clients):
                directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._clients.chmod(0o700)
            ignored = self.root / ".gitignore"
            if not ignored.exists():
                ignored.write_text("*\n")
        except OSError as error:
            raise _unwritable(self.root, error) from error


def is_owners(entry: Entry) -> bool:
    """Whether an entry holds what only the owner's own programs may have."""
    parts = [entry, *(entry[name] for name in ("credential", "client") if name in entry)]
    return any(
        part.get(kind) == "owner" for part in parts if isinstance(part, dict) for kind in _KINDS
    )


def _loaded(path: Path) -> Entry | None:
    try:
        entry = json.loads(path.read_text())
    except (OSError, ValueError):
        return None
    return entry if isinstance(entry, dict) else None


def _unwritable(path: Path, error: OSError) -> Failure:
    return Failure(
        "cache_not_writable",
        f"{path} cannot be written: {error.strerror or error}.",
        exit_code=errors.NOT_WRITTEN,
        next_step="Name another directory with --cache-root or PDPP_CACHE_ROOT.",
    )
