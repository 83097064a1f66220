"""Passkeys of the owner's account."""

from django.db import models
from django_otp.models import Device, DeviceManager
from typing_extensions import override


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
