"""The owner, passkeys, setup links, sign-in attempts and clients."""

import datetime as dt

from django.conf import settings
from django.db import models
from django_otp.models import Device, DeviceManager
from typing_extensions import override

OWNER_ID = "owner"
"""Id of the single owner of an installation."""


class Owner(models.Model):
    """The owner of the records; every key contains the id, so that several are possible later."""

    owner_id = models.TextField(primary_key=True, db_collation="C")
    user = models.OneToOneField(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )
    display_name = models.TextField(default="Owner")
    time_zone = models.TextField(default="UTC", db_default="UTC")
    # The language of the owner's browser, such as de-AT; empty if unknown.
    language = models.TextField(default="", db_default="")
    # For phone numbers written without a country, such as AT; empty if unknown.
    country = models.TextField(default="", db_default="")
    created_at = models.DateTimeField()

    unscoped = models.Manager["Owner"]()

    class Meta:
        default_manager_name = "unscoped"

    @override
    def __str__(self) -> str:
        return self.display_name


class SetupLink(models.Model):
    """A one-time link for setting the owner's name and password; only its hash is stored."""

    digest = models.BinaryField(primary_key=True)
    owner = models.ForeignKey(Owner, on_delete=models.CASCADE, related_name="+")
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    used_at = models.DateTimeField(null=True, blank=True)

    unscoped = models.Manager["SetupLink"]()

    class Meta:
        default_manager_name = "unscoped"
        constraints = [
            models.CheckConstraint(
                name="setup_link_ends_after_start",
                condition=models.Q(expires_at__gt=models.F("created_at")),
            )
        ]

    @override
    def __str__(self) -> str:
        return f"set-up link until {self.expires_at:%Y-%m-%d %H:%M}"


def get_or_create_owner(now: dt.datetime) -> Owner:
    """Return the installation's owner, created on first use."""
    owner, _ = Owner.unscoped.get_or_create(owner_id=OWNER_ID, defaults={"created_at": now})
    return owner


class Client(models.Model):
    client_id = models.TextField(primary_key=True, db_collation="C", editable=False)
    owner = models.ForeignKey(Owner, on_delete=models.PROTECT, related_name="+")
    display_name = models.TextField("name")
    created_at = models.DateTimeField(editable=False)

    unscoped = models.Manager["Client"]()

    class Meta:
        default_manager_name = "unscoped"
        constraints = [
            models.CheckConstraint(
                name="client_name_not_empty", condition=~models.Q(display_name="")
            )
        ]

    @override
    def __str__(self) -> str:
        return self.display_name


class Attempts(models.Model):
    """Recent failures of one account, browser or address, which is stored as a keyed hash only."""

    digest = models.BinaryField(primary_key=True)
    failures = models.PositiveIntegerField(default=0)
    last_at = models.DateTimeField()
    blocked_until = models.DateTimeField(null=True, blank=True)

    unscoped = models.Manager["Attempts"]()

    class Meta:
        default_manager_name = "unscoped"

    @override
    def __str__(self) -> str:
        return f"{self.failures} failures until {self.last_at:%Y-%m-%d %H:%M}"


class Passkey(Device):
    """A WebAuthn credential, as a device of django-otp, which remembers it in the session.

    ``credential`` is the attested credential data: id and public key. ``sign_count`` is the latest
    counter of the authenticator, 0 if it has none. ``last_challenge`` was answered last, so that an
    answer counts once.
    """

    credential_id = models.BinaryField(unique=True)
    credential = models.BinaryField()
    sign_count = models.BigIntegerField(default=0)
    last_challenge = models.BinaryField(default=b"")
    created_at = models.DateTimeField()
    last_used_at = models.DateTimeField(null=True)

    unscoped = DeviceManager()

    class Meta:
        default_manager_name = "unscoped"

    @override
    def __str__(self) -> str:
        return str(self.name)
