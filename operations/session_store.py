"""Django's session backend on the database, with a keyed digest in place of each session key.

The key in the browser's cookie signs the owner in. If the database held the key itself, anyone who
reads the database or a copy of it could sign in as the owner.

A session ends SESSION_COOKIE_AGE after it began, or MAX_IDLE after its last use. A session that the
owner asked to keep has no limit on idle time, and ends KEPT_LIFETIME after signing in.
"""

import base64
from datetime import datetime, timedelta
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
MAX_IDLE = timedelta(hours=12)
RENEWAL_INTERVAL = timedelta(minutes=15)
"""Uses within this time do not write to the database."""
KEPT_LIFETIME = timedelta(days=30)
_KEPT, _END = "kept", "_session_expiry"


def keep(session: SessionBase) -> None:
    """Let the session last for KEPT_LIFETIME, however rarely it is used."""
    session.set_expiry(KEPT_LIFETIME)
    session[_KEPT] = True


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
        data: dict[str, Any] = self.decode(row.session_data)
        if _END in data and (end := _expire_date(data)) - row.expire_date > RENEWAL_INTERVAL:
            rows.update(expire_date=end)
        return data

    @override
    def exists(self, session_key: str) -> bool:
        return bool(super().exists(self._row_key(session_key)))

    @override
    def create_model_instance(self, data: dict[str, Any]) -> AbstractBaseSession:
        data.setdefault(_END, self.get_expiry_date().isoformat())
        row: AbstractBaseSession = super().create_model_instance(data)
        row.session_key = self._row_key(row.session_key)
        row.expire_date = _expire_date(data)
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


def _expire_date(data: dict[str, Any]) -> datetime:
    """Return when a session that is used now ends."""
    end = datetime.fromisoformat(data[_END])
    return end if data.get(_KEPT) else min(end, timezone.now() + MAX_IDLE)


def _text(digest: bytes) -> str:
    return base64.urlsafe_b64encode(digest[:DIGEST_BYTES]).decode()
