"""Keys that can be changed one by one, in the same file as the installation's secret.

``keys.json`` has under ``rotated`` the secrets of each name, the newest first; an empty one stands
for the installation's own secret, and under ``secret`` are those that it had before. Under
``verifying`` are public keys that signed before. Under ``marks`` is, once the secret has a
successor, the first one, for what can never be made anew: the marks of erased records.
"""

import secrets
from pathlib import Path

from django.core.exceptions import ImproperlyConfigured

from pdpp_site import keys

FILE = keys.FILE
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
    kept: dict[str, list[str]] = keys.read(var).get("rotated", {})
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
            f"PDPP_SECRET_KEY_FALLBACKS is set, but {var / FILE} does not keep what is made with the"
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
    keys.replace(var, keys.read(var) | {"secret_key": secrets.token_urlsafe(50), "rotated": known})


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
    keys.replace(var, keys.read(var) | {"rotated": known})
