"""Authenticate the client of a request, describe it for the consent page, and validate its metadata.

Metadata comes from registration (RFC 7591) or from a client ID metadata document. Documents are
fetched from public addresses only and for a signed-in owner only, and then cached.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

from django.conf import settings
from django.http import HttpRequest
from oauth2_provider.cimd import CIMDError
from oauth2_provider.settings import oauth2_settings

import evidence.ssrf_guard  # noqa: F401 - judges the addresses that the library connects to
from evidence import limits
from owner.grants.grantable_sources import RegisteredBy, RequestingClient
from owner.oauth import requests
from owner.oauth.requests import ClientMetadata
from owner.oauth.responses import InvalidClientError, RefusalError, is_registrable
from owner.oauth.server import DEVICE_GRANT, oauth_backend

if TYPE_CHECKING:
    from owner.oauth.models import Registration


UNNAMED = "Unnamed app"
MAX_NAME_LENGTH = 100


def requesting_client(registration: "Registration") -> RequestingClient:
    """Describe a client; only the host of a metadata document is verified."""
    by_document = registration.source == "metadata_document"
    uri = registration.metadata.get("client_uri")
    return RequestingClient(
        client_id=registration.client_id,
        name=display_name(registration.name),
        uri=uri if isinstance(uri, str) and uri.startswith("https://") else None,
        host=urlsplit(registration.client_id).hostname if by_document else None,
        verified=by_document,
        registered_by=cast("RegisteredBy", registration.source),
    )


def display_name(name: str) -> str:
    """Return the printable characters of a client name, at most MAX_NAME_LENGTH."""
    printable = "".join(char for char in name if char.isprintable()).strip()
    return printable[:MAX_NAME_LENGTH] or UNNAMED


def authenticate_client(request: HttpRequest, parameters: Mapping[str, str]) -> "Registration":
    """Return the client that sent `parameters`. Raises InvalidClientError if it is not known."""
    backend = oauth_backend()
    oauth_request = backend.request_from(request, parameters)
    validator = backend.server.request_validator
    if validator.client_authentication_required(oauth_request):
        is_valid: Any = validator.authenticate_client(oauth_request)
    else:
        is_valid = validator.authenticate_client_id(oauth_request.client_id, oauth_request)
    if not is_valid:
        raise InvalidClientError(used_header="Authorization" in request.headers)
    registration: Registration = oauth_request.client
    return registration


AUTH_METHODS = ("none", "client_secret_basic", "client_secret_post")
SUPPORTED_GRANTS = ("authorization_code", "refresh_token", DEVICE_GRANT)
MAX_ITEMS = 20
MAX_TEXT_LENGTH = 2_000
MAX_CLIENT_ID_LENGTH = 500
STORED_MEMBERS = (
    "application_type", "client_name", "client_uri", "contacts", "logo_uri", "policy_uri", "scope",
    "software_id", "software_version", "tos_uri",
)  # fmt: skip
"""Further members that are stored and returned. All others are ignored (RFC 7591, 2)."""


class InvalidClientMetadataError(RefusalError):
    """`error` is ``invalid_redirect_uri`` or ``invalid_client_metadata``."""

    def __init__(self, message: str, *, error: str = "invalid_client_metadata") -> None:
        super().__init__(message, error=error)


def validate_client_metadata(metadata: Any) -> ClientMetadata:
    """Return the validated metadata. Raises InvalidClientMetadataError."""
    if not isinstance(metadata, dict):
        raise InvalidClientMetadataError("Client metadata must be a JSON object.")
    uris, name = _redirect_uris(metadata), metadata.get("client_name", "")
    if not isinstance(name, str) or "\x00" in name:
        raise InvalidClientMetadataError("client_name must be a string.")
    method = metadata.get("token_endpoint_auth_method", "none")
    if method not in AUTH_METHODS:
        text = f"token_endpoint_auth_method must be one of: {', '.join(AUTH_METHODS)}."
        raise InvalidClientMetadataError(text)
    return ClientMetadata(
        name=name[: limits.LABEL_MAX_CHARS],
        redirect_uris=uris,
        grant_types=_grant_types(metadata, has_redirects=bool(uris)),
        auth_method=method,
        metadata={name: metadata[name] for name in STORED_MEMBERS if _is_short(metadata.get(name))},
    )


def _redirect_uris(metadata: Mapping[str, Any]) -> list[str]:
    uris = metadata.get("redirect_uris") or []
    if not isinstance(uris, list) or len(uris) > MAX_ITEMS:
        raise InvalidClientMetadataError(
            f"redirect_uris must be a list of at most {MAX_ITEMS} items.",
            error="invalid_redirect_uri",
        )
    for uri in uris:
        if not isinstance(uri, str) or len(uri) > MAX_TEXT_LENGTH or not is_registrable(uri):
            raise InvalidClientMetadataError(
                "A redirect URI must be https, http on the loopback interface, or use the client's"
                " own scheme, and have no fragment and no wildcard in its host.",
                error="invalid_redirect_uri",
            )
    return uris


def _grant_types(metadata: Mapping[str, Any], *, has_redirects: bool) -> list[str]:
    """Return the requested grant types that this server supports.

    By default refresh tokens are included, unlike in RFC 7591: clients that name no grant types use
    them.
    """
    requested = metadata.get("grant_types")
    if requested is None:
        first = "authorization_code" if has_redirects else DEVICE_GRANT
        return [first, "refresh_token"]
    if not isinstance(requested, list):
        raise InvalidClientMetadataError("grant_types must be a list.")
    supported = [grant_type for grant_type in SUPPORTED_GRANTS if grant_type in requested]
    if "authorization_code" in supported and not has_redirects:
        raise InvalidClientMetadataError(
            "authorization_code requires redirect_uris.", error="invalid_redirect_uri"
        )
    if not set(supported) - {"refresh_token"}:
        raise InvalidClientMetadataError(
            f"Supported grant types are: {', '.join(SUPPORTED_GRANTS)}."
        )
    response_types = metadata.get("response_types")
    if response_types and "code" not in response_types:
        raise InvalidClientMetadataError("The only supported response type is code.")
    return supported


def _is_short(value: Any) -> bool:
    match value:
        case str():
            return len(value) <= MAX_TEXT_LENGTH and "\x00" not in value
        case list():
            return len(value) <= MAX_ITEMS and all(_is_short(item) for item in value)
        case _:
            return False


class MetadataDocumentError(Exception):
    """The document cannot be fetched or is invalid. The message is shown to the owner."""


def is_document_url(client_id: str | None) -> bool:
    """Return whether a client id is the URL of a metadata document."""
    return bool(client_id) and str(client_id).startswith("https://")


def is_stale(client_id: str, *, now: datetime) -> bool:
    """Return whether the document must be fetched, for the first time or again."""
    registration = requests.find_registration(client_id)
    return registration is None or (
        registration.fresh_until is not None and registration.fresh_until <= now
    )


def fetch_document(client_id: str, *, now: datetime) -> None:
    """Fetch and store the document for as long as its cache headers allow, at most a day.

    Raises MetadataDocumentError; a previously stored document then stays in use.
    """
    if not settings.PDPP_CLIENT_DOCUMENTS:
        raise MetadataDocumentError(
            "This server does not fetch client metadata documents. Connect the app again."
        )
    if len(client_id) > MAX_CLIENT_ID_LENGTH:
        raise MetadataDocumentError("The app's metadata URL is too long.")
    try:
        document, seconds = oauth2_settings.CIMD_METADATA_FETCHER().fetch(client_id)
        if document.get("client_id") != client_id:
            raise MetadataDocumentError("The metadata document is about another app.")
        if "client_secret" in document:
            raise MetadataDocumentError("The metadata document must not contain a client secret.")
        metadata = validate_client_metadata({**document, "token_endpoint_auth_method": "none"})
    except CIMDError as error:
        raise MetadataDocumentError(
            f"Cannot read the app's metadata document: {error}. If this server has no internet"
            " access, set PDPP_CLIENT_DOCUMENTS=false and connect the app again. It then registers"
            " without a document."
        ) from None
    except InvalidClientMetadataError as error:
        raise MetadataDocumentError(f"The app's metadata document is invalid: {error}") from None
    if "authorization_code" not in metadata.grant_types:
        raise MetadataDocumentError("The app's metadata document names no redirect URI.")
    requests.store_client_document(
        client_id, metadata, fresh_until=now + timedelta(seconds=seconds), now=now
    )
