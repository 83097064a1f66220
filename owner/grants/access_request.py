"""What an OAuth client requests, as frozen values for the grant wizard.

Only verified facts may be trusted.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

RegisteredBy = Literal["dynamic", "metadata_document", "owner"]
Resource = Literal["/mcp", "/mcp/events", "/v1"]
LOOPBACK_HOSTS = frozenset({"localhost", "127.0.0.1", "::1"})


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestingClient:
    """The client of a request. `name` and `uri` are its own statements.

    It is `verified` if its metadata document was fetched over https from `host`.
    """

    client_id: str
    name: str
    uri: str | None
    host: str | None
    verified: bool
    registered_by: RegisteredBy


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestedStream:
    """One requested stream. None means no restriction; the owner chooses connections left None."""

    name: str
    fields: tuple[str, ...] | None = None
    view: str | None = None
    instance_ids: tuple[str, ...] | None = None
    resources: tuple[str, ...] | None = None
    since: datetime | None = None
    until: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestedAccess:
    """One ``https://pdpp.dev/data-access`` detail (RFC 9396): streams of one source.

    `source_id` is the source's absolute URI. Without streams, the owner chooses them.
    """

    source_kind: str
    source_id: str
    streams: tuple[RequestedStream, ...]
    purpose_code: str
    purpose_description: str
    access_mode: Literal["continuous", "single_use"]
    retention: Mapping[str, Any] | None = None
    expires_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessRequest:
    """One request for the owner to decide on before `expires_at`.

    Without `details` the owner chooses the sources. `redirect_host` is where the
    decision is sent: a host with its port, or an app's own scheme (`cursor:`); None for a device. `claims` are
    unverified statements of the client by metadata name; pages must show them as such.
    """

    client: RequestingClient
    resource: Resource
    redirect_host: str | None
    details: tuple[RequestedAccess, ...]
    claims: Mapping[str, str]
    expires_at: datetime
