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

FILE = "keys.json"


def installation_key(var: Path, *, embedded: bool) -> str:
    """The key kept in ``var/keys.json``, made on first use with mode 0600."""
    if not embedded:
        raise ImproperlyConfigured(
            "DATABASE_URL is set, so PDPP_SECRET_KEY must be set too; make one with: "
            "python3 -c 'import secrets; print(secrets.token_urlsafe(50))'"
        )
    path = var / FILE
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
    path = var / FILE
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
    path = var / FILE
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
