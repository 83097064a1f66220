"""Tell the owner what happened, by mail, ntfy or webhook.

``notify`` queues a notification; ``delivery`` sends it on the channels that the owner chose.
"""

from datetime import datetime

from evidence.models.accounts import OWNER_ID
from evidence.models.notifications import NotificationKind as NotificationKind
from evidence.write.notifications import add_notification


def notify(kind: NotificationKind, *, key: str, text: str, path: str, now: datetime) -> bool:
    """Queue a notification, and return False if its occasion was announced before.

    ``key`` names the occasion among those of its kind, such as the time of a failed backup.
    ``text`` is a sentence that anybody may read: no name that the owner gave, nothing from a record
    and no text of another server; names of apps go through ``notices.quote_name``. ``path`` is a page
    of the owner, such as ``/notifications``. Survives a restart; sent within half a minute.
    """
    return add_notification(kind, key=key, text=text, path=path, owner_id=OWNER_ID, now=now)
