"""Load, create and rotate the installation's secret keys in ``var/keys.json``.

There is no built-in secret. With DATABASE_URL the operator also sets PDPP_SECRET_KEY, because
several machines may have to use the same one.
"""

import json
import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from django.core.exceptions import ImproperlyConfigured

KEYS_FILE = "keys.json"


def installation_key(var: Path, *, embedded: bool) -> str:
    """Return the secret key in ``var/keys.json``; create the file on first use, with mode 0600."""
    if not embedded:
        raise ImproperlyConfigured(
            "DATABASE_URL is set, so PDPP_SECRET_KEY must be set too; create one with: "
            "python3 -c 'import secrets; print(secrets.token_urlsafe(50))'"
        )
    path = var / KEYS_FILE
    try:
        if not path.exists():
            _create_keys(path)
    except OSError as error:
        raise ImproperlyConfigured(
            f"Cannot write to {var}: {error.strerror}. Set PDPP_VAR to a writable folder."
        ) from None
    keys = read_keys(var)
    if "secret_key" not in keys:
        raise ImproperlyConfigured(
            f"{path} has no secret, because PDPP_SECRET_KEY was set. Set PDPP_SECRET_KEY again."
        )
    return str(keys["secret_key"])


def read_keys(var: Path) -> dict[str, Any]:
    """Return the stored keys; empty if there is no file."""
    path = var / KEYS_FILE
    try:
        keys: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    except OSError as error:
        raise ImproperlyConfigured(
            f"Cannot read {path}: {error.strerror}. Run this with the server's account."
        ) from None
    except ValueError:
        raise ImproperlyConfigured(f"{path} is damaged. Restore it from a copy.") from None
    return keys


def _create_keys(path: Path) -> None:
    """Write a draft and link it into place, so that processes starting together use one key."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".keys-{os.getpid()}-{secrets.token_hex(4)}")
    _write_new_file(draft, {"secret_key": secrets.token_urlsafe(50)})
    try:
        os.link(draft, path)
    except FileExistsError:
        pass
    finally:
        draft.unlink()


def write_keys(var: Path, keys: Mapping[str, object]) -> Path:
    """Replace the key file atomically, and return its path."""
    var.mkdir(parents=True, exist_ok=True)
    path = var / KEYS_FILE
    draft = path.with_name(f".keys-{os.getpid()}-{secrets.token_hex(4)}")
    _write_new_file(draft, keys)
    draft.replace(path)
    return path


def _write_new_file(path: Path, keys: Mapping[str, object]) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        json.dump(keys, file)
        file.flush()
        os.fsync(file.fileno())


ROTATED_KEYS_FILE = KEYS_FILE
KEY_PURPOSES = {
    "tokens": "hashes access tokens, refresh tokens and client secrets, which are never stored",
    "cursors": "encrypts page cursors and feed bookmarks",
    "signing": "signs the chain heads of the ledger",
}
INSTALLATION_KEY = ""
SECRET = "secret"  # noqa: S105 - the key's name
VERIFYING = "verifying"
MARKS = "marks"


class NoPreviousKeyError(Exception):
    """No previous key is in use."""


def rotated_keys(var: Path) -> dict[str, list[str]]:
    """Return all rotated keys by name, newest first."""
    keys: dict[str, list[str]] = read_keys(var).get("rotated", {})
    return keys


def previous_secrets(var: Path, *, given: list[str]) -> list[str]:
    """Return the installation's previous secrets, newest first; ``given`` ones come first.

    Raises ``ImproperlyConfigured`` if the key for marks of erased records is not stored, because
    retiring the first secret would silently invalidate these marks.
    """
    rotated = rotated_keys(var)
    if given and MARKS not in rotated:
        raise ImproperlyConfigured(
            f"PDPP_SECRET_KEY_FALLBACKS is set, but {var / ROTATED_KEYS_FILE} does not contain the"
            " first secret, which marks erased records. Set PDPP_SECRET_KEY to its old value,"
            " without fallbacks, and run: manage.py keys rotate secret"
        )
    return [*given, *rotated.get(SECRET, [])]


def rotate_secret(
    var: Path, *, current_secret: str, public_key: bytes, creates_secret: bool
) -> None:
    """Store what must outlive the secret, and create a new one unless the environment sets it.

    ``public_key`` belongs to the current signing key.
    """
    rotated = rotated_keys(var)
    rotated = rotated | {MARKS: rotated.get(MARKS) or [current_secret]}
    if "signing" not in rotated:
        rotated[VERIFYING] = [*dict.fromkeys([public_key.hex(), *rotated.get(VERIFYING, [])])]
    if not creates_secret:
        _save_rotated(var, rotated)
        return
    rotated[SECRET] = [current_secret, *rotated.get(SECRET, [])]
    write_keys(var, read_keys(var) | {"secret_key": secrets.token_urlsafe(50), "rotated": rotated})


def rotate_key(var: Path, name: str) -> None:
    """Create a new key for a name; previous keys remain valid."""
    rotated = rotated_keys(var)
    previous = rotated.get(name) or [INSTALLATION_KEY]
    _save_rotated(var, rotated | {name: [secrets.token_urlsafe(50), *previous]})


def rotate_signing_key(var: Path, *, public_key: bytes) -> None:
    """Create a new signing key; only the public half of the previous one is kept."""
    rotated = rotated_keys(var)
    verifying = [public_key.hex(), *rotated.get(VERIFYING, [])]
    _save_rotated(var, rotated | {"signing": [secrets.token_urlsafe(50)], VERIFYING: verifying})


def retire_keys(var: Path, name: str) -> None:
    """Delete previous keys of a name. Raises ``NoPreviousKeyError`` if there are none."""
    rotated = rotated_keys(var)
    newest, *previous = rotated.get(name) or [INSTALLATION_KEY]
    if not previous:
        raise NoPreviousKeyError
    _save_rotated(var, rotated | {name: [newest]})


def retire_secrets(var: Path) -> None:
    """Delete the previous secrets of the key file."""
    _save_rotated(
        var, {name: values for name, values in rotated_keys(var).items() if name != SECRET}
    )


def _save_rotated(var: Path, rotated: dict[str, list[str]]) -> None:
    write_keys(var, read_keys(var) | {"rotated": rotated})
