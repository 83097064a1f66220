"""Who a registration is, as far as that is known."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from django.http import HttpRequest

from owner.grants.access_request import AskingClient, RegisteredBy
from owner.oauth.server import core

if TYPE_CHECKING:
    from evidence.models.oauth import Registration


UNNAMED = "An unnamed program"
LONGEST_NAME = 100


def asking(registration: "Registration") -> AskingClient:
    """A client with its own document is known by the host that the document came from."""
    by_document = registration.source == "metadata_document"
    uri = registration.metadata.get("client_uri")
    return AskingClient(
        client_id=registration.client_id,
        name=readable(registration.name),
        uri=uri if isinstance(uri, str) and uri.startswith("https://") else None,
        host=urlsplit(registration.client_id).hostname if by_document else None,
        verified=by_document,
        registered_by=_kind(registration.source),
    )


def readable(name: str) -> str:
    """The name without what does not show, at most a hundred characters of it."""
    shown = "".join(each for each in name if each.isprintable()).strip()
    return shown[:LONGEST_NAME] or UNNAMED


def _kind(source: str) -> RegisteredBy:
    match source:
        case "metadata_document":
            return "metadata_document"
        case "owner":
            return "owner"
        case _:
            return "dynamic"


class NotRecognisedError(Exception):
    """The client is not known, or has not proved to be itself; ``tried`` where it did try."""

    def __init__(self, *, tried: bool) -> None:
        super().__init__("The client is not known, or its credentials are wrong.")
        self.tried = tried


def recognised(request: HttpRequest, sent: Mapping[str, str]) -> "Registration":
    """The client that sends these parameters. Raises ``NotRecognisedError``."""
    library = core()
    asking = library.request_of(request, sent)
    validator = library.server.request_validator
    if validator.client_authentication_required(asking):
        known: Any = validator.authenticate_client(asking)
    else:
        known = validator.authenticate_client_id(asking.client_id, asking)
    if not known:
        raise NotRecognisedError(tried="Authorization" in request.headers)
    registration: Registration = asking.client
    return registration
