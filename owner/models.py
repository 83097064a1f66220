"""Tables of the owner's sign-in: setup links, failed attempts and passkeys."""

from django.db import models
from django_otp.models import Device, DeviceManager
from typing_extensions import override

from evidence.models.owners import Owner


class SetupLink(models.Model):
    """A one-time link for setting an owner's user name and password; only its hash is stored.

    An invitation has no owner: its use creates one. ``name`` is the user name that it proposes.
    ``replaces_account`` if the owner had an account when it was made, which the home page then says.
    """

    digest = models.BinaryField(primary_key=True)
    owner = models.ForeignKey(Owner, null=True, on_delete=models.CASCADE, related_name="+")
    name = models.TextField(default="")
    replaces_account = models.BooleanField(default=False)
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
