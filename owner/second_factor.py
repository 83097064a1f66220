"""Second factor: TOTP devices, passkeys (WebAuthn) and one-time recovery codes.

TOTP secrets are encrypted in the database and recovery codes are stored as keyed hashes. A passkey
belongs to the host of the public address and answers a challenge of this session, once and within five
minutes. An owner who lost all creates a set-up link on the server, which disables the second factor.
"""

import base64
import binascii
import contextlib
import ipaddress
import re
import secrets
import struct
import time
from datetime import datetime, timedelta
from string import ascii_lowercase, digits
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import orjson
from cryptography.exceptions import InvalidTag, UnsupportedAlgorithm
from django.conf import settings
from django.contrib.auth.base_user import AbstractBaseUser
from django.contrib.auth.models import AnonymousUser
from django.contrib.sessions.backends.base import SessionBase
from django.db import IntegrityError, transaction
from django_otp.models import Device
from django_otp.oath import TOTP
from django_otp.plugins.otp_static.models import StaticDevice
from django_otp.plugins.otp_totp.models import TOTPDevice, default_key
from fido2.cose import UnsupportedKey
from fido2.server import Fido2Server
from fido2.webauthn import (
    AttestedCredentialData,
    AuthenticationResponse,
    PublicKeyCredentialRpEntity,
    PublicKeyCredentialUserEntity,
    ResidentKeyRequirement,
    UserVerificationRequirement,
)

from evidence.access import crypto
from evidence.access.crypto import digest_for, digests_for
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
    codes = [
        "-".join("".join(secrets.choice(CODE_ALPHABET) for _ in range(5)) for _ in range(3))
        for _ in range(RECOVERY_CODES)
    ]
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


def _code_digests(code: str) -> list[str]:
    """Return the 80-bit digests under the current and previous keys; the column holds 16 characters."""
    digests = digests_for("recovery code", _normalize(code))
    return [base64.b32encode(digest[:10]).decode().lower() for digest in digests]


MAX_PASSKEYS = 10
MAX_RESPONSE_CHARS = 10_000
CHALLENGE_LIFETIME = timedelta(minutes=5)
ADD, VERIFY = "add", "verify"
_PENDING = "passkey_challenge"
_MALFORMED = (
    ValueError, KeyError, TypeError, AttributeError, IndexError, AssertionError, OverflowError,
    RecursionError, NotImplementedError, struct.error, UnsupportedAlgorithm,
)  # fmt: skip
"""What the library raises for a malformed or wrong response."""


def passkey_origin() -> str | None:
    """Return the only origin whose pages may use passkeys, or None if there can be none.

    Browsers accept host names only, and without TLS only localhost.
    """
    parts = urlsplit(settings.PDPP_PUBLIC_URL)
    host = parts.hostname or ""
    try:
        is_loopback = ipaddress.ip_address(host).is_loopback
    except ValueError:
        is_secure = parts.scheme == "https" or host == "localhost"
        return f"{parts.scheme}://{parts.netloc}" if is_secure else None
    if parts.scheme != "http" or not is_loopback:
        return None
    return f"http://localhost:{parts.port or 80}".removesuffix(":80")


def list_passkeys(user: "User") -> list[Passkey]:
    return list(Passkey.unscoped.filter(user=user).order_by("created_at", "pk"))


def begin_passkey(
    user: "User", session: SessionBase, purpose: str, *, now: datetime
) -> dict[str, Any]:
    """Return the options for the browser as JSON members, and remember their challenge.

    Raises ValueError if there can be no passkeys at this address.
    """
    server = _server()
    credentials = [AttestedCredentialData(bytes(each.credential)) for each in list_passkeys(user)]
    preferred = UserVerificationRequirement.PREFERRED
    options: Any
    if purpose == ADD:
        options, state = server.register_begin(
            PublicKeyCredentialUserEntity(
                id=digest_for("passkey user", str(user.pk)),
                name=user.get_username(),
                display_name=user.get_username(),
            ),
            credentials,
            resident_key_requirement=ResidentKeyRequirement.DISCOURAGED,
            user_verification=preferred,
        )
    else:
        options, state = server.authenticate_begin(credentials, user_verification=preferred)
    session[_PENDING] = {"purpose": purpose, "state": state, "at": now.timestamp()}
    return dict(options.public_key)


def add_passkey(
    user: "User", session: SessionBase, response: str, *, name: str, now: datetime
) -> Passkey | None:
    """Store a new passkey, or return None if the response does not answer the challenge."""
    state = _take_challenge(session, ADD, now)
    if state is None or len(list_passkeys(user)) >= MAX_PASSKEYS:
        return None
    try:
        registered = _server().register_complete(state, _parse(response))
        credential = registered.credential_data
        if credential is None or isinstance(credential.public_key, UnsupportedKey):
            return None
        with transaction.atomic():
            passkey: Passkey = Passkey.unscoped.create(
                user=user,
                name=name,
                credential_id=credential.credential_id,
                credential=bytes(credential),
                sign_count=registered.counter,
                created_at=now,
            )
    except (IntegrityError, *_MALFORMED):
        return None
    return passkey


@transaction.atomic
def verify_passkey(
    user: "User", session: SessionBase, response: str, *, now: datetime
) -> Passkey | None:
    """Return the passkey that answers the challenge, or None. Every answer counts once."""
    state = _take_challenge(session, VERIFY, now)
    if state is None:
        return None
    passkeys = list(Passkey.unscoped.select_for_update().filter(user=user).order_by("pk"))
    credentials = [AttestedCredentialData(bytes(each.credential)) for each in passkeys]
    try:
        answer = AuthenticationResponse.from_dict(_parse(response))
        used = _server().authenticate_complete(state, credentials, answer)
    except _MALFORMED:
        return None
    passkey = passkeys[credentials.index(used)]
    return passkey if _accept_answer(passkey, answer, now) else None


def _accept_answer(passkey: Passkey, answer: AuthenticationResponse, now: datetime) -> bool:
    """Return whether counter and challenge are new, and store them. The row must be locked.

    A counter that does not grow is the sign of a copied authenticator. Many passkeys have none: 0.
    """
    challenge = answer.response.client_data.challenge
    count = answer.response.authenticator_data.counter
    is_counting = bool(count or passkey.sign_count)
    if is_counting and count <= passkey.sign_count:
        return False
    if bytes(passkey.last_challenge) == challenge:
        return False
    passkey.sign_count, passkey.last_challenge, passkey.last_used_at = count, challenge, now
    passkey.save(update_fields=["sign_count", "last_challenge", "last_used_at"])
    return True


def remove_passkey(user: "User", passkey_id: str) -> bool:
    """Remove a passkey, which ends the sessions that it verified."""
    rows = Passkey.unscoped.filter(user=user, pk=passkey_id if passkey_id.isdecimal() else None)
    return bool(rows.delete()[0])


def _server() -> Fido2Server:
    """Return the library's server for our origin. Raises ValueError if there is none."""
    allowed = passkey_origin()
    if allowed is None:
        raise ValueError("passkeys need a host name and TLS")
    party = PublicKeyCredentialRpEntity(id=urlsplit(allowed).hostname or "", name="PDPP")
    return Fido2Server(party, verify_origin=lambda given: given == allowed)


def _take_challenge(session: SessionBase, purpose: str, now: datetime) -> Any:
    """Remove the pending challenge from the session, and return its state if it is still valid."""
    pending = session.pop(_PENDING, None)
    if pending is None or pending["purpose"] != purpose:
        return None
    is_late = now.timestamp() - pending["at"] > CHALLENGE_LIFETIME.total_seconds()
    return None if is_late else pending["state"]


def _parse(response: str) -> Any:
    """Parse the browser's JSON. Raises ValueError."""
    if len(response) > MAX_RESPONSE_CHARS:
        raise ValueError("too long")
    return orjson.loads(response)
