"""Client metadata (RFC 7591), from a registration or from the client's own document."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from oauth2_provider.cimd import CIMDError
from oauth2_provider.settings import oauth2_settings

import evidence.ssrf_guard  # noqa: F401 - judges the addresses that the library connects to
from evidence import limits
from evidence.access.oauth import requests
from evidence.access.oauth.requests import Introduction
from owner.oauth.server import DEVICE_GRANT
from owner.oauth.uris import may_be_registered

METHODS = ("none", "client_secret_basic", "client_secret_post")
GRANTS = ("authorization_code", "refresh_token", DEVICE_GRANT)
MOST_URIS = 20
LONGEST_URI = 2_000
KEPT = (
    "application_type",
    "client_name",
    "client_uri",
    "contacts",
    "logo_uri",
    "policy_uri",
    "scope",
    "software_id",
    "software_version",
    "tos_uri",
)
"""Further members that are kept and echoed. All others are ignored (RFC 7591, 2)."""


class NotAcceptedError(Exception):
    """``error`` is ``invalid_redirect_uri`` or ``invalid_client_metadata``."""

    def __init__(self, description: str, *, error: str = "invalid_client_metadata") -> None:
        super().__init__(description)
        self.error = error


def read(said: Any) -> Introduction:
    """What the metadata comes to. Raises ``NotAcceptedError``."""
    if not isinstance(said, dict):
        raise NotAcceptedError("The client metadata is a JSON object.")
    uris = _redirect_uris(said)
    return Introduction(
        name=_text(said, "client_name")[: limits.LABEL_MAX_CHARS],
        redirect_uris=uris,
        grant_types=_grants(said, redirects=bool(uris)),
        auth_method=_method(said),
        metadata={name: said[name] for name in KEPT if _is_short(said.get(name))},
    )


def _redirect_uris(said: Mapping[str, Any]) -> list[str]:
    uris = said.get("redirect_uris") or []
    if not isinstance(uris, list) or len(uris) > MOST_URIS:
        raise NotAcceptedError("redirect_uris is a list.", error="invalid_redirect_uri")
    for uri in uris:
        if not isinstance(uri, str) or len(uri) > LONGEST_URI or not may_be_registered(uri):
            raise NotAcceptedError(
                "A redirect URI is https, http on the loopback interface, or of a scheme of the"
                " client's own, without a fragment and without a wildcard in its host.",
                error="invalid_redirect_uri",
            )
    return uris


def _grants(said: Mapping[str, Any], *, redirects: bool) -> list[str]:
    """The grant types of ours among those asked for. RFC 7591 names one where none is asked for;
    clients that ask for none use refresh tokens all the same."""
    asked = said.get("grant_types")
    if asked is None:
        first = "authorization_code" if redirects else DEVICE_GRANT
        return [first, "refresh_token"]
    if not isinstance(asked, list):
        raise NotAcceptedError("grant_types is a list.")
    ours = [each for each in GRANTS if each in asked]
    if "authorization_code" in ours and not redirects:
        raise NotAcceptedError(
            "authorization_code needs redirect_uris.", error="invalid_redirect_uri"
        )
    if not set(ours) - {"refresh_token"}:
        raise NotAcceptedError(f"The grant types of this server are: {', '.join(GRANTS)}.")
    types = said.get("response_types")
    if types and "code" not in types:
        raise NotAcceptedError("The response type of this server is code.")
    return ours


def _method(said: Mapping[str, Any]) -> str:
    method = said.get("token_endpoint_auth_method", "none")
    if method not in METHODS:
        raise NotAcceptedError(f"token_endpoint_auth_method is one of: {', '.join(METHODS)}.")
    return str(method)


def _text(said: Mapping[str, Any], member: str) -> str:
    text = said.get(member, "")
    if not isinstance(text, str) or "\x00" in text:
        raise NotAcceptedError(f"{member} is a text.")
    return text


def _is_short(value: Any) -> bool:
    match value:
        case str():
            return len(value) <= LONGEST_URI and "\x00" not in value
        case list():
            return len(value) <= MOST_URIS and all(_is_short(each) for each in value)
        case _:
            return False


LONGEST_ID = 500


class NotFetchedError(Exception):
    """The document is not there, or is not what it must be. The message is for the owner."""


def is_address(client_id: str | None) -> bool:
    """Whether an id is one of this kind."""
    return bool(client_id) and str(client_id).startswith("https://")


def is_stale(client_id: str, *, now: datetime) -> bool:
    """Whether the document has to be read, for the first time or again."""
    known = requests.found(client_id)
    return known is None or (known.fresh_until is not None and known.fresh_until <= now)


def fetch(client_id: str, *, now: datetime) -> None:
    """Reads the document and keeps what it says for as long as it allows, a day at most.

    Raises ``NotFetchedError``. What had been read before is kept then, and goes on to be used.
    """
    if not settings.PDPP_CLIENT_DOCUMENTS:
        raise NotFetchedError("This server reads no documents of clients. Connect the client anew.")
    if len(client_id) > LONGEST_ID:
        raise NotFetchedError("The client's address is too long.")
    try:
        said, seconds = oauth2_settings.CIMD_METADATA_FETCHER().fetch(client_id)
        if said.get("client_id") != client_id:
            raise NotFetchedError("The document at the client's address is about another client.")
        if "client_secret" in said:
            raise NotFetchedError("The client's document holds a secret, so it is none.")
        introduction = read({**said, "token_endpoint_auth_method": "none"})
    except CIMDError as error:
        raise NotFetchedError(
            f"The client's document could not be read: {error}. Where this server has no way to the"
            " internet, set PDPP_CLIENT_DOCUMENTS=false and connect the client anew: then it makes"
            " itself known without a document."
        ) from None
    except NotAcceptedError as error:
        raise NotFetchedError(f"The client's document does not hold: {error}") from None
    if "authorization_code" not in introduction.grant_types:
        raise NotFetchedError("The client's document names no address for the answer.")
    requests.keep_document(
        client_id, introduction, fresh_until=now + timedelta(seconds=seconds), now=now
    )
