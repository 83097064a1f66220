"""One-time links with which the owner chooses a user name and password.

A link is 256 random bits and stands in the table as a keyed hash. Making one ends those before it,
using one ends it, and 24 hours end it, so at most one works at any moment.
"""

import secrets
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from django.contrib.auth import get_user_model
from django.db import transaction

from evidence.access import sign_in_throttle
from evidence.access.crypto import digest_for, digests_for
from evidence.models.accounts import SetupLink, the_owner
from owner import second_factor

if TYPE_CHECKING:
    from django.contrib.auth.models import User

LIFETIME = timedelta(hours=24)
PURPOSE = "setup link"


class LinkEndedError(Exception):
    """The link was used, has expired, or never was."""


def make(now: datetime) -> str:
    """A new token; whoever holds it can take over the owner's account until it ends.

    Whoever can make one needs no protection from guessing: all waiting ends.
    """
    token = secrets.token_urlsafe(32)
    owner = the_owner(now)
    with transaction.atomic():
        sign_in_throttle.release()
        SetupLink.unscoped.filter(owner=owner).delete()
        SetupLink.unscoped.create(
            digest=digest_for(PURPOSE, token),
            owner=owner,
            created_at=now,
            expires_at=now + LIFETIME,
        )
    return token


def is_open(token: str, *, now: datetime) -> bool:
    known = digests_for(PURPOSE, token)
    return SetupLink.unscoped.filter(digest__in=known, used_at=None, expires_at__gt=now).exists()


def owner_account(now: datetime) -> "User | None":
    """The owner's account, or None before the first link was used."""
    return the_owner(now).user


@transaction.atomic
def use(token: str, *, username: str, password: str, now: datetime) -> "User":
    """Set the owner's user name and password, which signs out every session and ends the second
    factor: who has the link has the server. Works once.

    Raises ``LinkEndedError``.
    """
    open_links = SetupLink.unscoped.select_for_update().filter(used_at=None, expires_at__gt=now)
    link = open_links.filter(digest__in=digests_for(PURPOSE, token)).first()
    if link is None:
        raise LinkEndedError
    owner = link.owner
    user = owner.user or get_user_model()()
    user.username = username
    user.is_active = user.is_staff = user.is_superuser = True
    user.set_password(password)
    user.save()
    second_factor.forget(user)
    owner.user = user
    owner.save(update_fields=["user"])
    link.used_at = now
    link.save(update_fields=["used_at"])
    return user
