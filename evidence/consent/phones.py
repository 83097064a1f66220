"""What a phone shares with this server: its secret, sealed in its row, so that a copy of the database
shows no codes. The library's own fields say how its codes are made; it is never handed the secret
of a row that is saved."""

import base64
import binascii
import contextlib
import time
from typing import TYPE_CHECKING

from cryptography.exceptions import InvalidTag
from django.db import transaction
from django_otp.oath import TOTP
from django_otp.plugins.otp_totp.models import TOTPDevice, default_key

from evidence.access import sealing

if TYPE_CHECKING:
    from django.contrib.auth.models import User

PURPOSE = "second factor"


def new(user: "User") -> TOTPDevice:
    """A device that opens nothing yet."""
    key = _sealed(bytes.fromhex(default_key()), user.pk)
    device: TOTPDevice = TOTPDevice.objects.create(
        user=user, name="phone", confirmed=False, key=key
    )
    return device


def is_readable(device: TOTPDevice) -> bool:
    """Whether its secret was sealed with a key that is still known."""
    return _secret(device) is not None


def shown(device: TOTPDevice) -> TOTPDevice:
    """The same with the secret in clear, to be drawn and never to be saved. Raises ``TypeError``
    for one that is not readable."""
    secret = _secret(device)
    if secret is None:
        raise TypeError("the secret was sealed with another key")
    return TOTPDevice(user=device.user, key=secret.hex())


def verify(device: TOTPDevice, code: str) -> bool:
    """Whether ``code``, six digits, is of this phone now; each works once. With the row held."""
    secret = _secret(device)
    if secret is None:
        return False
    codes = TOTP(secret, device.step, device.t0, device.digits, device.drift)
    codes.time = time.time()
    if not codes.verify(int(code), device.tolerance, device.last_t + 1):
        return False
    device.last_t, device.drift = codes.t(), codes.drift
    device.set_last_used_timestamp(commit=False)
    device.save()
    return True


@transaction.atomic
def seal_anew() -> int:
    """Seals them with today's key; how many. One that cannot be opened stays as it is."""
    count = 0
    for device in TOTPDevice.objects.select_for_update().order_by("pk"):
        secret = _secret(device)
        if secret is not None:
            device.key = _sealed(secret, device.user_id)
            device.save(update_fields=["key"])
            count += 1
    return count


def _sealed(secret: bytes, user_pk: int) -> str:
    """64 characters, of 80 that the column holds."""
    kept = sealing.sealed(secret, purpose=PURPOSE, bound_to=str(user_pk))
    return base64.b64encode(kept).decode()


def _secret(device: TOTPDevice) -> bytes | None:
    with contextlib.suppress(InvalidTag, binascii.Error, ValueError):
        kept = base64.b64decode(device.key, validate=True)
        return sealing.opened(kept, purpose=PURPOSE, bound_to=str(device.user_id))
    return None
