"""Django's session backend on the database, with a keyed digest in place of each session key.

The key in the browser's cookie signs the owner in. If the database held the key itself, anyone who
reads the database or a copy of it could sign in as the owner.
"""

import base64
from typing import Any

from django.contrib.sessions.backends import db
from django.contrib.sessions.backends.base import SessionBase
from django.contrib.sessions.base_session import AbstractBaseSession
from django.utils import timezone
from typing_extensions import override

from evidence.access.crypto import digests_for

PURPOSE = "session key"
DIGEST_BYTES = 30
"""As many as the library's column of 40 characters takes."""


class SessionStore(db.SessionStore):
    """``session_key`` is the key of the cookie; rows are found and stored by its digest."""

    # Django's own asynchronous methods for the database bypass the ones below; the base class's do not.
    aexists = SessionBase.aexists
    acreate = SessionBase.acreate
    asave = SessionBase.asave
    adelete = SessionBase.adelete
    aload = SessionBase.aload

    @override
    def load(self) -> dict[str, Any]:
        key = None if self.session_key is None else self._row_key(self.session_key)
        rows = self.model.objects.filter(session_key=key, expire_date__gt=timezone.now())
        row = rows.first()
        if row is None:
            self._session_key = None
            return {}
        return self.decode(row.session_data)

    @override
    def exists(self, session_key: str) -> bool:
        return bool(super().exists(self._row_key(session_key)))

    @override
    def create_model_instance(self, data: dict[str, Any]) -> AbstractBaseSession:
        row: AbstractBaseSession = super().create_model_instance(data)
        row.session_key = self._row_key(row.session_key)
        return row

    @override
    def delete(self, session_key: str | None = None) -> None:
        known = session_key or self.session_key
        if known is not None:
            super().delete(self._row_key(known))

    def _row_key(self, session_key: str) -> str:
        """Return the key of the session's row. While two secrets overlap, this asks which it has."""
        current, *earlier = (_text(each) for each in digests_for(PURPOSE, session_key))
        if earlier:
            rows = self.model.objects.filter(session_key__in=[current, *earlier])
            return rows.values_list("session_key", flat=True).first() or current
        return current


def _text(digest: bytes) -> str:
    return base64.urlsafe_b64encode(digest[:DIGEST_BYTES]).decode()
