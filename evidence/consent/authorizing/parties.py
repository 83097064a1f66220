"""Which client sends a request, outside the grants that the library judges."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from django.http import HttpRequest

from evidence.consent.authorizing.server import core

if TYPE_CHECKING:
    from evidence.models.registrations import Registration


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
