"""The installation's secret: from the environment, or made once and kept under ``var/``.

There is no built-in secret. Where the operator brings a database the operator brings the key,
because several processes must agree on it.
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
    """The key kept in ``var/keys.json``, made on first use with mode 0600."""
    if not embedded:
        raise ImproperlyConfigured(
            "DATABASE_URL is set, so PDPP_SECRET_KEY must be set too; make one with: "
            "python3 -c 'import secrets; print(secrets.token_urlsafe(50))'"
        )
    path = var / KEYS_FILE
    try:
        if not path.exists():
            _write_once(path)
    except OSError as error:
        raise ImproperlyConfigured(
            f"Nothing can be kept in {var}: {error.strerror}. Set PDPP_VAR to a folder of yours."
        ) from None
    kept = read(var)
    if "secret_key" not in kept:
        raise ImproperlyConfigured(
            f"{path} has no secret: it was made beside a PDPP_SECRET_KEY. Set that."
        )
    return str(kept["secret_key"])


def read(var: Path) -> dict[str, Any]:
    """What is kept; empty where nothing is."""
    path = var / KEYS_FILE
    try:
        kept: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    except OSError as error:
        raise ImproperlyConfigured(
            f"{path} cannot be read: {error.strerror}. Run this as the account that the server has."
        ) from None
    except ValueError:
        raise ImproperlyConfigured(f"{path} is damaged. Put a copy of it back.") from None
    return kept


def _write_once(path: Path) -> None:
    """Write to the side and link into place: two processes that start together agree."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".keys-{os.getpid()}-{secrets.token_hex(4)}")
    _write(draft, {"secret_key": secrets.token_urlsafe(50)})
    try:
        os.link(draft, path)
    except FileExistsError:
        pass
    finally:
        draft.unlink()


def replace(var: Path, kept: Mapping[str, object]) -> Path:
    """Puts other keys in place of those that are there, at once; where they are."""
    var.mkdir(parents=True, exist_ok=True)
    path = var / KEYS_FILE
    draft = path.with_name(f".keys-{os.getpid()}-{secrets.token_hex(4)}")
    _write(draft, kept)
    draft.replace(path)
    return path


def _write(path: Path, kept: Mapping[str, object]) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        json.dump(kept, file)
        file.flush()
        os.fsync(file.fileno())


ROTATED_KEYS_FILE = KEYS_FILE
NAMES = {
    "tokens": "hashes bearers, refresh tokens and secrets of clients, which are never stored",
    "cursors": "encrypts the cursors of pages and feeds",
    "signing": "signs the ends of the ledger",
}
INSTALLATIONS = ""
SECRET = "secret"  # noqa: S105 - its name
VERIFYING = "verifying"
MARKS = "marks"


class NothingToRetireError(Exception):
    """No earlier key is in use."""


def rotated(var: Path) -> dict[str, list[str]]:
    """What was ever rotated; empty for most."""
    kept: dict[str, list[str]] = read(var).get("rotated", {})
    return kept


def earlier_secrets(var: Path, *, given: list[str]) -> list[str]:
    """The secrets of the installation before today's, the newest first; ``given`` by the
    environment.

    Raises ``ImproperlyConfigured`` where the marks of erased records are not kept apart from them:
    they would go with the last one, and nobody would notice.
    """
    known = rotated(var)
    if given and MARKS not in known:
        raise ImproperlyConfigured(
            f"PDPP_SECRET_KEY_FALLBACKS is set, but {var / ROTATED_KEYS_FILE} does not keep what is made with the"
            " first secret for good. Set PDPP_SECRET_KEY as it was, without fallbacks, and say:"
            " manage.py keys rotate secret"
        )
    return [*given, *known.get(SECRET, [])]


def rotate_secret(var: Path, *, so_far: str, public_key: bytes, is_ours: bool) -> None:
    """Keeps what must outlive the installation's secret and, where that is ``is_ours`` to choose,
    makes another. ``public_key`` belongs to what signs now."""
    known = rotated(var)
    known = known | {MARKS: known.get(MARKS) or [so_far]}
    if "signing" not in known:
        known[VERIFYING] = [*dict.fromkeys([public_key.hex(), *known.get(VERIFYING, [])])]
    if not is_ours:
        _keep(var, known)
        return
    known[SECRET] = [so_far, *known.get(SECRET, [])]
    replace(var, read(var) | {"secret_key": secrets.token_urlsafe(50), "rotated": known})


def rotate(var: Path, name: str) -> None:
    """A new key for a name. What was made with the earlier ones is still known."""
    known = rotated(var)
    earlier = known.get(name) or [INSTALLATIONS]
    _keep(var, known | {name: [secrets.token_urlsafe(50), *earlier]})


def rotate_signing(var: Path, *, public_key: bytes) -> None:
    """A new key to sign with. Of the one so far, whose public half is given, nothing else is kept."""
    known = rotated(var)
    verifying = [public_key.hex(), *known.get(VERIFYING, [])]
    _keep(var, known | {"signing": [secrets.token_urlsafe(50)], VERIFYING: verifying})


def retire(var: Path, name: str) -> None:
    """What was made with any but the newest key is known no more."""
    known = rotated(var)
    newest, *earlier = known.get(name) or [INSTALLATIONS]
    if not earlier:
        raise NothingToRetireError
    _keep(var, known | {name: [newest]})


def retire_secret(var: Path) -> None:
    """Forgets the secrets before today's, those of the environment apart."""
    _keep(var, {name: each for name, each in rotated(var).items() if name != SECRET})


def _keep(var: Path, known: dict[str, list[str]]) -> None:
    replace(var, read(var) | {"rotated": known})
