"""Second factor: TOTP devices, passkeys and one-time recovery codes.

TOTP secrets are encrypted in the database and recovery codes are stored as keyed hashes. An owner who
lost both creates a set-up link on the server, which disables the second factor.
"""

import base64
import binascii
import contextlib
import re
import secrets
import time
from string import ascii_lowercase, digits
from typing import TYPE_CHECKING

from cryptography.exceptions import InvalidTag
from django.contrib.auth.base_user import AbstractBaseUser
from django.contrib.auth.models import AnonymousUser
from django.db import transaction
from django_otp.models import Device
from django_otp.oath import TOTP
from django_otp.plugins.otp_static.models import StaticDevice
from django_otp.plugins.otp_totp.models import TOTPDevice, default_key

from evidence.access import crypto
from evidence.access.crypto import digests_for
from owner.models import Passkey

if TYPE_CHECKING:
    from django.contrib.auth.models import User


PURPOSE = "second factor"


def decrypted(device: TOTPDevice) -> TOTPDevice:
    """Return an unsaved copy with the plain secret, for the QR code.

    Raises TypeError if the secret was encrypted with an unknown key.
    """
    secret = _decrypt(device)
    if secret is None:
        raise TypeError("the secret was encrypted with an unknown key")
    return TOTPDevice(user=device.user, key=secret.hex())


def _verify_totp(device: TOTPDevice, code: str) -> bool:
    """Return whether `code` is valid now, and mark it used. The row must be locked."""
    secret = _decrypt(device)
    if secret is None:
        return False
    totp = TOTP(secret, device.step, device.t0, device.digits, device.drift)
    totp.time = time.time()
    if not totp.verify(int(code), device.tolerance, device.last_t + 1):
        return False
    device.last_t, device.drift = totp.t(), totp.drift
    device.set_last_used_timestamp(commit=False)
    device.save()
    return True


@transaction.atomic
def reencrypt() -> int:
    """Encrypt all readable secrets with the current key, and return how many."""
    count = 0
    for device in TOTPDevice.objects.select_for_update().order_by("pk"):
        secret = _decrypt(device)
        if secret is not None:
            device.key = _encrypt(secret, device.user_id)
            device.save(update_fields=["key"])
            count += 1
    return count


def _encrypt(secret: bytes, user_pk: int) -> str:
    ciphertext = crypto.encrypt(secret, purpose=PURPOSE, bound_to=str(user_pk))
    return base64.b64encode(ciphertext).decode()


def _decrypt(device: TOTPDevice) -> bytes | None:
    with contextlib.suppress(InvalidTag, binascii.Error, ValueError):
        ciphertext = base64.b64decode(device.key, validate=True)
        return crypto.decrypt(ciphertext, purpose=PURPOSE, bound_to=str(device.user_id))
    return None


RECOVERY_CODES = 10
CODE_ALPHABET = "".join(char for char in ascii_lowercase + digits if char not in "il1o0")
TOTP_CODE = re.compile(r"\d{6}")
_ENROLLED = "_pdpp_enrolled"


def is_enrolled(user: AbstractBaseUser) -> bool:
    """Return whether sign-in requires the second factor. Queries once per user object."""
    if not hasattr(user, _ENROLLED):
        phones = TOTPDevice.objects.filter(user_id=user.pk, confirmed=True).values("pk")
        passkeys = Passkey.unscoped.filter(user_id=user.pk).values("pk")
        setattr(user, _ENROLLED, phones.union(passkeys).exists())
    return bool(getattr(user, _ENROLLED))


def has_passed(user: AbstractBaseUser | AnonymousUser) -> bool:
    """Return whether the second factor was verified in the session of this request."""
    device = getattr(user, "otp_device", None)
    return isinstance(device, Device) and device.confirmed


def pending_device(user: "User") -> TOTPDevice | None:
    """Return the device that is being enrolled, if its secret can be decrypted."""
    device: TOTPDevice | None = TOTPDevice.objects.filter(user=user, confirmed=False).first()
    return device if device is not None and _decrypt(device) is not None else None


@transaction.atomic
def start_enrolment(user: "User") -> None:
    """Create an unconfirmed device, replacing an earlier unconfirmed one."""
    TOTPDevice.objects.filter(user=user, confirmed=False).delete()
    key = _encrypt(bytes.fromhex(default_key()), user.pk)
    TOTPDevice.objects.create(user=user, name="phone", confirmed=False, key=key)


@transaction.atomic
def confirm_enrolment(user: "User", code: str) -> TOTPDevice | None:
    """Confirm the pending device if `code` is valid, and require it from then on."""
    device = TOTPDevice.objects.select_for_update().filter(user=user, confirmed=False).first()
    if device is None or not _is_totp_code(code) or not _verify_totp(device, _normalize(code)):
        return None
    TOTPDevice.objects.filter(user=user, confirmed=True).delete()
    device.confirmed = True
    device.save()
    setattr(user, _ENROLLED, True)
    confirmed: TOTPDevice = device
    return confirmed


@transaction.atomic
def verify_code(user: "User", code: str) -> Device | None:
    """Return the device that accepts `code`, or None. Every code works once."""
    model = TOTPDevice if _is_totp_code(code) else StaticDevice
    device = model.objects.select_for_update().filter(user=user, confirmed=True).first()
    return device if device is not None and _accepts(device, code) else None


def _accepts(device: TOTPDevice | StaticDevice, code: str) -> bool:
    if isinstance(device, TOTPDevice):
        return _verify_totp(device, _normalize(code))
    return any(device.verify_token(digest) for digest in _code_digests(code))


@transaction.atomic
def renew_recovery_codes(user: "User") -> list[str]:
    """Replace all recovery codes and return the new ones, to be shown once."""
    StaticDevice.objects.filter(user=user).delete()
    device = StaticDevice.objects.create(user=user, name="recovery codes")
    codes = [_new_code() for _ in range(RECOVERY_CODES)]
    for code in codes:
        device.token_set.create(token=_code_digests(code)[0])
    return codes


def has_phone(user: "User") -> bool:
    """Return whether an authenticator app is confirmed."""
    return bool(TOTPDevice.objects.filter(user=user, confirmed=True).exists())


def forget_enrolment(user: "User") -> None:
    """Query again whether sign-in requires the second factor."""
    with contextlib.suppress(AttributeError):
        delattr(user, _ENROLLED)


def count_recovery_codes(user: "User") -> int:
    """Return the number of unused recovery codes."""
    device = StaticDevice.objects.filter(user=user).first()
    return 0 if device is None else int(device.token_set.count())


@transaction.atomic
def disable(user: "User") -> None:
    """Delete all devices and passkeys, so that the password is enough to sign in."""
    Passkey.unscoped.filter(user=user).delete()
    TOTPDevice.objects.filter(user=user).delete()
    StaticDevice.objects.filter(user=user).delete()
    setattr(user, _ENROLLED, False)


def _is_totp_code(code: str) -> bool:
    return TOTP_CODE.fullmatch(_normalize(code)) is not None


def _normalize(code: str) -> str:
    """Remove spaces and hyphens."""
    return re.sub(r"[\s-]", "", code).lower()


def _new_code() -> str:
    """Return 74 random bits in three groups, without letters that resemble digits."""
    return "-".join("".join(secrets.choice(CODE_ALPHABET) for _ in range(5)) for _ in range(3))


def _code_digests(code: str) -> list[str]:
    """Return the 80-bit digests under the current and previous keys; the column holds 16 characters."""
    digests = digests_for("recovery code", _normalize(code))
    return [base64.b32encode(digest[:10]).decode().lower() for digest in digests]
