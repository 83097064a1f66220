"""Passkeys (WebAuthn) as second factor, beside TOTP.

A passkey belongs to the host of the public address and answers a challenge of this session, once and
within five minutes.
"""

import ipaddress
import struct
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import orjson
from cryptography.exceptions import UnsupportedAlgorithm
from django.conf import settings
from django.contrib.sessions.backends.base import SessionBase
from django.db import IntegrityError, transaction
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

from evidence.access.crypto import digest_for
from owner.models import Passkey

if TYPE_CHECKING:
    from django.contrib.auth.models import User

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


def origin() -> str | None:
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


def begin(user: "User", session: SessionBase, purpose: str, *, now: datetime) -> dict[str, Any]:
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


def add(
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
def verify(user: "User", session: SessionBase, response: str, *, now: datetime) -> Passkey | None:
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
    return passkey if _accept(passkey, answer, now) else None


def _accept(passkey: Passkey, answer: AuthenticationResponse, now: datetime) -> bool:
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


def remove(user: "User", passkey_id: str) -> bool:
    """Remove a passkey, which ends the sessions that it verified."""
    rows = Passkey.unscoped.filter(user=user, pk=passkey_id if passkey_id.isdecimal() else None)
    return bool(rows.delete()[0])


def _server() -> Fido2Server:
    """Return the library's server for our origin. Raises ValueError if there is none."""
    allowed = origin()
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
