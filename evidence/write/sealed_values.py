"""Encrypt values of rows with the server's key.

A value is bound to its row: a copy of the database cannot use it, and one that was moved to another row
cannot be decrypted.
"""

import contextlib
from collections.abc import Mapping
from typing import Any

import orjson
from cryptography.exceptions import InvalidTag
from django.db import transaction
from django.db.models import QuerySet

from evidence.access import crypto


class SealedError(Exception):
    """The value is missing, or was encrypted with another key."""


def seal(content: bytes, *, purpose: str, row_id: str) -> bytes:
    return crypto.encrypt(content, purpose=purpose, bound_to=row_id)


def unseal(sealed: bytes | memoryview | None, *, purpose: str, row_id: str) -> bytes:
    """Decrypt a value. Raises ``SealedError``."""
    if sealed is None:
        raise SealedError("there is no value")
    try:
        return crypto.decrypt(bytes(sealed), purpose=purpose, bound_to=row_id)
    except (InvalidTag, ValueError):
        raise SealedError("the value was encrypted with another key") from None


def seal_texts(texts: Mapping[str, str], *, purpose: str, row_id: str) -> bytes:
    return seal(orjson.dumps(dict(texts)), purpose=purpose, row_id=row_id)


def unseal_texts(sealed: bytes | memoryview | None, *, purpose: str, row_id: str) -> dict[str, str]:
    """Decrypt what ``seal_texts`` encrypted. Raises ``SealedError``."""
    texts = orjson.loads(unseal(sealed, purpose=purpose, row_id=row_id))
    return {str(name): str(value) for name, value in texts.items()}


@transaction.atomic
def reencrypt_rows(rows: QuerySet[Any], *fields: str, purpose: str) -> int:
    """Encrypt fields with the current key, and return the number of rows changed.

    A field may be empty. A row that cannot be decrypted stays unchanged.
    """
    count = 0
    for row in rows.select_for_update().order_by("pk"):
        values = {name: value for name in fields if (value := getattr(row, name)) is not None}
        with contextlib.suppress(SealedError):
            for name, value in values.items():
                content = unseal(value, purpose=purpose, row_id=row.pk)
                setattr(row, name, seal(content, purpose=purpose, row_id=row.pk))
            row.save(update_fields=list(fields))
            count += 1
    return count
