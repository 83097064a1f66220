"""Sign in at the provider of an account with OAuth, and renew the access token.

The client secret and the refresh token stay in this process: a source gets the access token only.
"""

import re
import socket
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from http.client import HTTPException
from typing import Any
from urllib.parse import urlsplit

from django.utils import timezone
from oauthlib.oauth2 import OAuth2Error, WebApplicationClient

from evidence.advisory_locks import exclusive
from importers.core.source import ProblemCode, SourceError
from importers.core.source_http import HttpClient, HttpResponse, TooLargeError, tls_context
from importers.core.source_process import connect_filtered
from importers.models import SourceAccount
from importers.sources import account_store

SETTING = "oauth"
"""The setting with the addresses, the client and the scope of an account that signs in this way."""

MAX_BYTES = 100_000
ANSWER_SECONDS = 20.0
MARGIN = timedelta(minutes=1)
USUAL_LIFETIME = timedelta(hours=1)
MAX_LIFETIME = timedelta(days=1)

_TOKEN = re.compile(r"[\x21-\x7e]+")
_CODE = re.compile(r"[a-z_]{1,40}")
_ENDED = frozenset(("invalid_grant", "interaction_required", "consent_required", "login_required"))
_TEMPORARY = frozenset(("temporarily_unavailable", "server_error", "slow_down", "missing_token"))


@dataclass(frozen=True, slots=True)
class SignInProvider:
    """Where an account signs in. The owner enters what is empty."""

    title: str
    host: str = ""
    authorization_url: str = ""
    token_url: str = ""
    scope: str = ""
    parameters: Mapping[str, str] = field(default_factory=dict)


PROVIDERS = {
    "google": SignInProvider(
        "Google",
        host="imap.gmail.com",
        authorization_url="https://accounts.google.com/o/oauth2/v2/auth",
        token_url="https://oauth2.googleapis.com/token",  # noqa: S106 - an address
        scope="https://mail.google.com/",
        parameters={"access_type": "offline", "prompt": "consent"},
    ),
    "microsoft": SignInProvider(
        "Microsoft",
        host="outlook.office365.com",
        authorization_url="https://login.microsoftonline.com/common/oauth2/v2.0/authorize",
        token_url="https://login.microsoftonline.com/common/oauth2/v2.0/token",  # noqa: S106
        scope="https://outlook.office.com/IMAP.AccessAsUser.All offline_access",
    ),
    "other": SignInProvider("another provider"),
}


def authorization_url(
    settings: Mapping[str, Any], *, redirect_uri: str, state: str, verifier: str
) -> str:
    """Return the address at which the owner signs in."""
    oauth = settings[SETTING]
    client = WebApplicationClient(oauth["client_id"])
    address: str = client.prepare_request_uri(
        oauth["authorization_url"],
        redirect_uri=redirect_uri,
        scope=oauth["scope"],
        state=state,
        code_challenge=client.create_code_challenge(verifier, "S256"),
        code_challenge_method="S256",
        login_hint=settings["user"],
        **oauth["parameters"],
    )
    return address


def exchange_code(
    settings: Mapping[str, Any], secret: str, *, code: str, verifier: str, redirect_uri: str
) -> dict[str, str]:
    """Return the credential for a code of the provider. Raises ``SourceError``."""
    client = WebApplicationClient(settings[SETTING]["client_id"])
    body = client.prepare_request_body(
        code=code, redirect_uri=redirect_uri, code_verifier=verifier, **_secret(secret)
    )
    credential = _request_token(settings, client, body, _secret(secret))
    if "refresh_token" not in credential:
        raise SourceError(ProblemCode.SIGN_IN_ENDED, "it gave no refresh token")
    return credential


def current_credential(account: SourceAccount) -> dict[str, str]:
    """Return the credential of an account, after renewing an access token that expired.

    Raises ``SourceError``, and ``SealedError``.
    """
    credential = account_store.open_credential(account)
    if SETTING not in account.settings or _is_fresh(credential):
        return credential
    with exclusive(f"sign in {account.connection_id}"):  # a refresh token may be good only once
        account.refresh_from_db(fields=["credential"])
        credential = account_store.open_credential(account)
        if not _is_fresh(credential):
            credential = _refresh(account.settings, credential)
            account_store.update_credential(account, credential)
    return credential


def discard_access_token(account: SourceAccount) -> None:
    """Have the access token renewed before the next run: the account's server refused it."""
    credential = {**account_store.open_credential(account), "expires_at": ""}
    account_store.update_credential(account, credential)


def sandbox_credential(
    settings: Mapping[str, Any], credential: Mapping[str, str]
) -> Mapping[str, str]:
    """Return what the source gets of a credential."""
    return {"access_token": credential["access_token"]} if SETTING in settings else credential


def _refresh(settings: Mapping[str, Any], credential: Mapping[str, str]) -> dict[str, str]:
    client_id = settings[SETTING]["client_id"]
    client = WebApplicationClient(client_id)
    body = client.prepare_refresh_body(
        refresh_token=credential["refresh_token"],
        client_id=client_id,
        **_secret(credential.get("client_secret", "")),
    )
    return _request_token(settings, client, body, credential)


def _secret(value: str) -> dict[str, str]:
    return {"client_secret": value} if value else {}


def _is_fresh(credential: Mapping[str, str]) -> bool:
    expires_at = credential.get("expires_at", "")
    return expires_at != "" and datetime.fromisoformat(expires_at) > timezone.now() + MARGIN


def _request_token(
    settings: Mapping[str, Any],
    client: WebApplicationClient,
    body: str,
    credential: Mapping[str, str],
) -> dict[str, str]:
    """Return the credential with the tokens of the answer. Raises ``SourceError``."""
    response = _post(settings, body)
    unusable = SourceError(ProblemCode.SIGN_IN_UNAVAILABLE, f"HTTP {response.status}")
    try:
        token = client.parse_request_body_response(response.body.decode("utf-8", "replace"))
        lifetime = timedelta(seconds=int(token.get("expires_in") or 0)) or USUAL_LIFETIME
        granted = {name: token[name] for name in ("access_token", "refresh_token") if name in token}
    except OAuth2Error as error:
        raise _problem(error, response.status) from None
    except (ValueError, TypeError, AttributeError, OverflowError):
        raise unusable from None
    if not all(isinstance(each, str) and _TOKEN.fullmatch(each) for each in granted.values()):
        raise unusable
    expires_at = timezone.now() + min(lifetime, MAX_LIFETIME)
    return {**credential, **granted, "expires_at": expires_at.isoformat()}


@dataclass(frozen=True)
class _Network:
    """Connects this process to the token address, through the filter."""

    is_private: bool
    tls: ssl.SSLContext = field(default_factory=tls_context)

    def connect(self, host: str, port: int, *, is_encrypted: bool = True) -> socket.socket:
        if not is_encrypted:
            raise SourceError(ProblemCode.NO_TLS)
        connected = connect_filtered(host, port, private=self.is_private)
        connected.settimeout(ANSWER_SECONDS)
        return self.tls.wrap_socket(connected, server_hostname=host)


def _post(settings: Mapping[str, Any], body: str) -> HttpResponse:
    """Send a request to the token address, and to no other host. Raises ``SourceError``."""
    url = settings[SETTING]["token_url"]
    network = _Network(is_private=bool(settings.get("allows_private")))
    headers = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"}
    host = str(urlsplit(url).hostname)
    try:
        with HttpClient(network, url) as http:
            return http.request(
                "POST", url, headers=headers, body=body.encode(), max_bytes=MAX_BYTES
            )
    except SourceError as error:
        if error.code is not ProblemCode.MOVED:
            raise
        detail = f"{host} leads to {error.detail}, which got nothing"
        raise SourceError(ProblemCode.SIGN_IN_UNAVAILABLE, detail) from None
    except ssl.SSLCertVerificationError:
        raise SourceError(ProblemCode.BAD_CERTIFICATE, host) from None
    except (OSError, HTTPException, TooLargeError):
        raise SourceError(ProblemCode.SIGN_IN_UNAVAILABLE, host) from None


def _problem(error: OAuth2Error, status: int) -> SourceError:
    detail = error.error if _CODE.fullmatch(str(error.error)) else ""
    if status >= 500 or status == 429 or error.error in _TEMPORARY:
        return SourceError(ProblemCode.SIGN_IN_UNAVAILABLE, detail)
    is_ended = error.error in _ENDED
    return SourceError(
        ProblemCode.SIGN_IN_ENDED if is_ended else ProblemCode.CLIENT_REFUSED, detail
    )
