"""Keys that can be changed one by one, in the same file as the installation's secret.

``keys.json`` has under ``rotated`` the secrets of each name, the newest first; an empty one stands
for the installation's own secret. Under ``verifying`` are public keys that signed before.
"""

import json
import secrets
from pathlib import Path
from typing import Any

from pdpp_site import keys

FILE = "keys.json"
NAMES = {
    "tokens": "hashes bearers, refresh tokens and secrets of clients, which are never stored",
    "cursors": "encrypts the cursors of pages and feeds",
    "signing": "signs the ends of the ledger",
}
INSTALLATIONS = ""
VERIFYING = "verifying"


class NothingToRetireError(Exception):
    """No earlier key is in use."""


def rotated(var: Path) -> dict[str, list[str]]:
    """What was ever rotated; empty for most."""
    kept: dict[str, list[str]] = _read(var).get("rotated", {})
    return kept


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


def _read(var: Path) -> dict[str, Any]:
    path = var / FILE
    kept: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    return kept


def _keep(var: Path, known: dict[str, list[str]]) -> None:
    keys.replace(var, _read(var) | {"rotated": known})
