"""How the MCP endpoint is wired to this installation."""

import secrets

from django.conf import settings
from django.db import DatabaseError
from django.utils import timezone

from evidence.access import tokens
from evidence.access.scope import Scope
from evidence.api import errors
from evidence.api.noting import note_unlet
from evidence.refusals import AuthenticationRequired, Refusal
from mcp_adapter.inprocess import InProcessRest, releasing
from mcp_adapter.rest import Refused
from mcp_adapter.server import Identity
from mcp_adapter.transport import McpEndpoint, TransportSettings, build

RESOURCE = "/mcp"


def endpoint() -> McpEndpoint:
    """The endpoint over this process's own REST API; good for one run of its lifespan."""
    return build(
        InProcessRest(),
        authenticate,
        settings=TransportSettings(
            identity=identity(),
            resource_metadata_url=f"{settings.PDPP_PUBLIC_URL}/.well-known/oauth-protected-resource/mcp",
            allowed_hosts=tuple(settings.ALLOWED_HOSTS),
            allowed_origins=tuple(settings.CSRF_TRUSTED_ORIGINS),
        ),
    )


def identity() -> Identity:
    return Identity(public_url=settings.PDPP_PUBLIC_URL)


def authenticate(bearer: str | None) -> Scope:
    """The authority behind a bearer at ``/mcp``; raises ``Refused``. One query, its connection
    returned."""
    try:
        if bearer is None:
            raise AuthenticationRequired
        return releasing(lambda: tokens.authenticate(bearer, resource=RESOURCE, now=timezone.now()))
    except (Refusal, DatabaseError) as error:
        refusal = errors.as_refusal(error)
        request_id = f"req_{secrets.token_hex(10)}"
        releasing(lambda: note_unlet(refusal, route="mcp", request_id=request_id))
        body = errors.body(refusal, request_id=request_id)
        raise Refused(errors.STATUS[refusal.code], body["error"]) from error
