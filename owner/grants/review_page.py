"""Render the review step of the grant wizard.

It shows the client's identity, streams with counts, and what stays hidden.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from owner.grants.access_request import LOOPBACK_HOSTS, AccessRequest, RequestedAccess
from owner.permissions import with_security_headers
from owner.setup_snippets import EVENTS, MCP, REST
from owner.text import one_line

RESOURCE_LABELS = {
    MCP: "As an AI agent, over MCP",
    REST: "As an app, over REST",
    EVENTS: "As an AI agent that receives change notifications without records, over MCP",
}
LOCAL_NOTE = "This server cannot tell apps on this computer apart."
CAUTION = "Continue only if you just started this connection yourself."
CLAIM_LABELS: Mapping[str, str] = {
    "client_uri": "Website",
    "policy_uri": "Privacy policy",
    "tos_uri": "Terms of service",
    "software_id": "Software",
    "software_version": "Version",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Review:
    """One rendering of the page; `edit` is the context of its form."""

    access_request: AccessRequest
    unknown_sources: Sequence[str]
    action_url: str
    hidden: Mapping[str, str]
    edit: Mapping[str, Any]


@with_security_headers
def review_page(request: HttpRequest, review: Review) -> HttpResponse:
    """Render the page, with status 422 if an error must be corrected first."""
    access_request = review.access_request
    client = access_request.client
    context = {
        **review.edit,
        "review": review,
        "client": client,
        "name": one_line(client.name) or client.client_id,
        "identity": identity(access_request),
        "is_known": is_verified(access_request) or client.registered_by == "owner",
        "redirect_target": describe_redirect(access_request),
        "resource": RESOURCE_LABELS[access_request.resource],
        "claims": [*_claims(access_request)],
        "once": any(detail.access_mode == "single_use" for detail in access_request.details),
    }
    status = 422 if review.edit["error"] else 200
    response = render(request, "owner/grants/review.html", context, status=status)
    response["Cache-Control"] = "private, no-store"
    response["X-Frame-Options"] = "DENY"
    return response


def is_verified(access_request: AccessRequest) -> bool:
    """Return whether the decision can only reach the client that its own https document describes.

    Any local program can listen on loopback, claim a scheme or ask as a device, so none is verified.
    """
    has_host = access_request.redirect_host is not None
    return access_request.client.verified and has_host and not _is_local(access_request)


def identity(access_request: AccessRequest) -> str:
    """Return what this server has verified about the client."""
    client = access_request.client
    if is_verified(access_request):
        return f"Verified: this app belongs to {client.host}."
    if client.registered_by == "owner":
        return "You registered this app yourself."
    if client.verified:
        who = "device" if access_request.redirect_host is None else "app on this computer"
        return (
            f"Not verified: {client.host} describes this app. Any {who} can use its name. {CAUTION}"
        )
    return f"Not verified: any app can use this name. {CAUTION}"


def _is_local(access_request: AccessRequest) -> bool:
    host = access_request.redirect_host or ""
    return host.endswith(":") or urlsplit(f"//{host}").hostname in LOOPBACK_HOSTS


def describe_redirect(access_request: AccessRequest) -> str:
    """Return where the owner's decision is sent."""
    host = access_request.redirect_host
    if host is None:
        return "the device or terminal that requested access"
    if host.endswith(":"):
        return f"an app on this device that opens “{host}” links. {LOCAL_NOTE}"
    return f"{host}, an app on this computer. {LOCAL_NOTE}" if _is_local(access_request) else host


def _claims(access_request: AccessRequest) -> Iterator[tuple[str, str]]:
    """Yield labels and texts of the client's unverified statements."""
    for detail in access_request.details:
        yield from _detail_claims(detail)
    uri = access_request.client.uri
    if uri and "client_uri" not in access_request.claims:
        yield CLAIM_LABELS["client_uri"], one_line(uri, max_length=200)
    for name, value in sorted(access_request.claims.items()):
        if name == "client_name":
            continue
        label = CLAIM_LABELS.get(name, name.replace("_", " ").capitalize())
        yield label, one_line(value, max_length=200)


def _detail_claims(detail: RequestedAccess) -> Iterator[tuple[str, str]]:
    yield "Purpose", one_line(detail.purpose_description or detail.purpose_code, max_length=400)
    if detail.access_mode == "single_use":
        yield "Use", "once: for ten minutes from its first answer"
    if detail.retention:
        duration = one_line(str(detail.retention.get("max_duration", "an unspecified time")))
        is_anonymized = str(detail.retention.get("on_expiry")) == "anonymize"
        yield "Copies", f"kept for {duration}, then {'anonymized' if is_anonymized else 'deleted'}"
