"""The owner's second factor: codes of a phone, and recovery codes for when it is lost.

The library keeps the devices; a phone's secret is sealed there (``phones``), and a recovery code
stands there as a keyed hash.
Who has both lost makes a set-up link on the server, which ends the second factor.
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
    kept = crypto.sealed(secret, purpose=PURPOSE, bound_to=str(user_pk))
    return base64.b64encode(kept).decode()


def _secret(device: TOTPDevice) -> bytes | None:
    with contextlib.suppress(InvalidTag, binascii.Error, ValueError):
        kept = base64.b64decode(device.key, validate=True)
        return crypto.opened(kept, purpose=PURPOSE, bound_to=str(device.user_id))
    return None


RECOVERY_CODES = 10
LETTERS = "".join(each for each in ascii_lowercase + digits if each not in "il1o0")
PHONE_CODE = re.compile(r"\d{6}")
_ENROLLED = "_pdpp_enrolled"


def is_enrolled(user: AbstractBaseUser) -> bool:
    """Whether a password alone does not open this account. Asks once for each ``user``."""
    if not hasattr(user, _ENROLLED):
        found = TOTPDevice.objects.filter(user_id=user.pk, confirmed=True).exists()
        setattr(user, _ENROLLED, found)
    return bool(getattr(user, _ENROLLED))


def has_passed(user: AbstractBaseUser | AnonymousUser) -> bool:
    """Whether the session of this request has shown the second factor."""
    device = getattr(user, "otp_device", None)
    return isinstance(device, Device) and device.confirmed


def begun(user: "User") -> TOTPDevice | None:
    """The device that is being set up, which opens nothing yet."""
    found: TOTPDevice | None = TOTPDevice.objects.filter(user=user, confirmed=False).first()
    return found if found is not None and is_readable(found) else None


@transaction.atomic
def begin(user: "User") -> None:
    """A new secret; one that was not finished ends."""
    TOTPDevice.objects.filter(user=user, confirmed=False).delete()
    new(user)


@transaction.atomic
def finish(user: "User", code: str) -> TOTPDevice | None:
    """The device, from now on needed to sign in, if ``code`` is its own."""
    device = TOTPDevice.objects.select_for_update().filter(user=user, confirmed=False).first()
    if device is None or not _is_phone_code(code) or not verify(device, _plain(code)):
        return None
    TOTPDevice.objects.filter(user=user, confirmed=True).delete()
    device.confirmed = True
    device.save()
    setattr(user, _ENROLLED, True)
    found: TOTPDevice = device
    return found


@transaction.atomic
def shown_by(user: "User", code: str) -> Device | None:
    """The device that ``code`` is of; a phone's code and a recovery code work once."""
    kind = TOTPDevice if _is_phone_code(code) else StaticDevice
    device = kind.objects.select_for_update().filter(user=user, confirmed=True).first()
    return device if device is not None and _is_of(device, code) else None


def _is_of(device: TOTPDevice | StaticDevice, code: str) -> bool:
    if isinstance(device, TOTPDevice):
        return verify(device, _plain(code))
    return any(device.verify_token(each) for each in _hashes(code))


@transaction.atomic
def renew_recovery(user: "User") -> list[str]:
    """New recovery codes, to be shown once; those before them end."""
    StaticDevice.objects.filter(user=user).delete()
    device = StaticDevice.objects.create(user=user, name="recovery codes")
    codes = [_new_code() for _ in range(RECOVERY_CODES)]
    for code in codes:
        device.token_set.create(token=_hashes(code)[0])
    return codes


def recovery_left(user: "User") -> int:
    device = StaticDevice.objects.filter(user=user).first()
    return 0 if device is None else int(device.token_set.count())


@transaction.atomic
def forget(user: "User") -> None:
    """The password alone opens the account again."""
    TOTPDevice.objects.filter(user=user).delete()
    StaticDevice.objects.filter(user=user).delete()
    setattr(user, _ENROLLED, False)


def _is_phone_code(code: str) -> bool:
    return PHONE_CODE.fullmatch(_plain(code)) is not None


def _plain(code: str) -> str:
    """Without what people type between groups."""
    return re.sub(r"[\s-]", "", code).lower()


def _new_code() -> str:
    """74 random bits in three groups, without letters that look like digits."""
    return "-".join("".join(secrets.choice(LETTERS) for _ in range(5)) for _ in range(3))


def _hashes(code: str) -> list[str]:
    """What may stand for it, the first from now on; 80 bits, as many as the library has room for."""
    digests = digests_for("recovery code", _plain(code))
    return [base64.b32encode(digest[:10]).decode().lower() for digest in digests]
