"""What a client asks for, as frozen values: the authorization server makes them, the consent page
shows them. Nothing here is trusted but the kind of registration and what was checked of it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

RegisteredBy = Literal["dynamic", "metadata_document", "owner"]
Resource = Literal["/mcp", "/mcp/events", "/v1"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AskingClient:
    """``verified`` only where ``host`` is known to speak for the client: its own https document was
    read from there. Name and address are the client's own words."""

    client_id: str
    name: str
    uri: str | None
    host: str | None
    verified: bool
    registered_by: RegisteredBy


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestedStream:
    """None means all there is, as in ``StreamRequest``; None connections are for the owner to pick."""

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

    ``source_id`` is the source's absolute URI. No streams named means that the owner picks them.
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
class Asked:
    """One question to the owner.

    Without ``details`` the owner picks the sources. ``redirect_host`` is where the answer goes: a host with
    its port, or an app's own scheme (``cursor:``); None where it goes to a device. ``claims`` are further words of the client by their metadata name, to be
    shown as its own and never as ours. The question cannot be answered after ``expires_at``.
    """

    client: AskingClient
    resource: Resource
    redirect_host: str | None
    details: tuple[RequestedAccess, ...]
    claims: Mapping[str, str]
    expires_at: datetime
