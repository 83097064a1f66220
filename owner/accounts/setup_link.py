"""One-time links that set the owner's user name and password.

A link contains 256 random bits and is stored as a keyed hash. It ends when it is used, after 24 hours,
or when another is created, so at most one is valid at a time.
"""

import secrets
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from django.contrib.auth import get_user_model
from django.db import transaction

from evidence.access import sign_in_throttle
from evidence.access.crypto import digest_for, digests_for
from evidence.models.accounts import SetupLink, get_or_create_owner
from owner import second_factor

if TYPE_CHECKING:
    from django.contrib.auth.models import User

LIFETIME = timedelta(hours=24)
PURPOSE = "setup link"


class InvalidLinkError(Exception):
    """The link was used, has expired, or never existed."""


def create_link(now: datetime) -> str:
    """Return a new token, which gives control of the owner's account until it ends.

    Ends all sign-in delays: this runs on the server, where guessing is no threat.
    """
    token = secrets.token_urlsafe(32)
    owner = get_or_create_owner(now)
    with transaction.atomic():
        sign_in_throttle.reset_throttle()
        SetupLink.unscoped.filter(owner=owner).delete()
        SetupLink.unscoped.create(
            digest=digest_for(PURPOSE, token),
            owner=owner,
            created_at=now,
            expires_at=now + LIFETIME,
        )
    return token


def is_valid(token: str, *, now: datetime) -> bool:
    """Return whether the token can be redeemed."""
    digests = digests_for(PURPOSE, token)
    return SetupLink.unscoped.filter(digest__in=digests, used_at=None, expires_at__gt=now).exists()


def owner_account(now: datetime) -> "User | None":
    """Return the owner's account, or None before the first link was used."""
    return get_or_create_owner(now).user


@transaction.atomic
def redeem(token: str, *, username: str, password: str, now: datetime) -> "User":
    """Set the owner's user name and password, end all sessions and disable the second factor.

    Works once. Raises InvalidLinkError.
    """
    valid_links = SetupLink.unscoped.select_for_update().filter(used_at=None, expires_at__gt=now)
    link = valid_links.filter(digest__in=digests_for(PURPOSE, token)).first()
    if link is None:
        raise InvalidLinkError
    owner = link.owner
    user = owner.user or get_user_model()()
    user.username = username
    user.is_active = user.is_staff = user.is_superuser = True
    user.set_password(password)
    user.save()
    second_factor.disable(user)
    owner.user = user
    owner.save(update_fields=["user"])
    link.used_at = now
    link.save(update_fields=["used_at"])
    return user
