"""Authenticate the client of a request and describe it for the consent page."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from django.http import HttpRequest

from owner.grants.access_request import RegisteredBy, RequestingClient
from owner.oauth.server import oauth_backend

if TYPE_CHECKING:
    from evidence.models.oauth import Registration


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
        registered_by=_registered_by(registration.source),
    )


def display_name(name: str) -> str:
    """Return the printable characters of a client name, at most MAX_NAME_LENGTH."""
    printable = "".join(char for char in name if char.isprintable()).strip()
    return printable[:MAX_NAME_LENGTH] or UNNAMED


def _registered_by(source: str) -> RegisteredBy:
    match source:
        case "metadata_document":
            return "metadata_document"
        case "owner":
            return "owner"
        case _:
            return "dynamic"


class InvalidClientError(Exception):
    """Client authentication failed; `used_header` if the Authorization header was tried."""

    def __init__(self, *, used_header: bool) -> None:
        super().__init__("Unknown client or wrong credentials.")
        self.used_header = used_header


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
