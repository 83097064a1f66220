"""Grant wizard: show an access request, check the owner's choices, and issue the grants.

Used by ``/oauth/authorize``, ``/device`` and the approval of ``/agent-connect``. The review step shows the
client's identity, streams with counts, and what stays hidden.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone

from evidence.access.grants import find_approved_package, get_or_create_client, issue, lock_sources
from evidence.access.quotas import set_quotas
from evidence.errors import ApiException
from evidence.models.owners import current_owner
from owner.grants.access_request import LOOPBACK_HOSTS, AccessRequest, RequestedAccess
from owner.grants.draft import DraftForms, is_form_field
from owner.grants.grantable_sources import (
    GrantableSource,
    all_grantable,
    readable_connections,
    requested_grantable,
)
from owner.grants.reviewed_forms import FORM_FIELDS, ReviewedForms
from owner.permissions import is_owner, with_security_headers
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


NOTHING_SELECTED = "Select at least one connection, or choose Don\u2019t allow."
REVIEW_CHANGED = "Your changes updated the summary. Check it, then choose Allow."


@dataclass(frozen=True, slots=True)
class Approved:
    """The owner allowed access; the package contains the grants."""

    package_id: str


@dataclass(frozen=True, slots=True)
class Denied:
    """The owner denied access."""


def show_review(
    request: HttpRequest,
    access_request: AccessRequest,
    *,
    action_url: str,
    hidden: Mapping[str, str],
    error: str = "",
) -> HttpResponse:
    """Render the page. Its form posts to `action_url`, with the `hidden` fields unchanged."""
    _require_owner(request)
    wizard = GrantWizard(request, access_request)
    return wizard.page(action_url=action_url, hidden=hidden, error=error)


def handle_decision(
    request: HttpRequest, access_request: AccessRequest
) -> Approved | Denied | HttpResponse:
    """Return the owner's decision, or the page again if nothing was decided or stored.

    The caller's hidden fields are kept in the page. Approving one form twice issues grants once and
    returns the same package.
    """
    _require_owner(request)
    decision = request.POST.get("decision")
    if decision == "deny":
        return Denied()
    with transaction.atomic():
        if decision == "allow":
            lock_sources(current_owner())
        wizard = GrantWizard(request, access_request)
        error = wizard.find_error() if decision == "allow" else ""
        if decision == "allow" and not error:
            try:
                return wizard.approve()
            except ApiException as refusal:
                error = refusal.message
    return wizard.page(action_url=request.path, hidden=wizard.hidden, error=error)


class GrantWizard:
    """One access request and the owner's choices so far."""

    def __init__(self, request: HttpRequest, access_request: AccessRequest) -> None:
        self._request = request
        self._access_request = access_request
        self._sources, self._unknown_sources = _grantable(access_request)
        details = access_request.details
        self._forms = DraftForms(
            self._sources,
            request.POST if _is_submitted(request, self._sources) else None,
            latest_expiry=min((d.expires_at for d in details if d.expires_at), default=None),
            selected=bool(details),
        )
        asked = (
            access_request.client,
            access_request.resource,
            access_request.redirect_host,
            details,
        )
        subject = [*map(repr, asked), sorted(access_request.claims.items())]
        self._reviewed = ReviewedForms(request, self._forms, subject)

    def page(self, *, action_url: str, hidden: Mapping[str, str], error: str) -> HttpResponse:
        return review_page(
            self._request,
            Review(
                access_request=self._access_request,
                unknown_sources=self._unknown_sources,
                action_url=action_url,
                hidden=hidden,
                edit=self._reviewed.context(error=error),
            ),
        )

    def find_error(self) -> str:
        """Return an empty string if the owner has seen exactly what an approval would grant."""
        return self._reviewed.find_error(nothing_selected=NOTHING_SELECTED, changed=REVIEW_CHANGED)

    def approve(self) -> Approved:
        """Issue the grants. Raises ApiException if something cannot be granted any more."""
        now = timezone.now()
        form_token = self._reviewed.form_token
        if (package_id := find_approved_package(form_token)) is not None:
            return Approved(package_id)
        requesting = self._access_request.client
        client = get_or_create_client(
            requesting.client_id, display_name=requesting.name, owner_id=current_owner(), now=now
        )
        requests, limits = self._forms.draft.requests(now), self._forms.limits.limits
        package, grants = issue(requests, client=client, now=now, approval=form_token)
        for grant in grants if limits else ():
            set_quotas(grant.pk, limits, now=now)
        return Approved(package.pk)

    @property
    def hidden(self) -> dict[str, str]:
        """Return the posted fields that belong to the caller."""
        return {
            name: str(value)
            for name, value in self._request.POST.items()
            if name not in FORM_FIELDS and not is_form_field(self._sources, name)
        }


def _grantable(access_request: AccessRequest) -> tuple[list[GrantableSource], list[str]]:
    if access_request.details:
        return requested_grantable(access_request.details, owner_id=current_owner())
    return all_grantable(readable_connections(current_owner())), []


def _is_submitted(request: HttpRequest, sources: list[GrantableSource]) -> bool:
    """Return whether the wizard's form was posted, and not only another form of the caller."""
    return "form_token" in request.POST and any(
        is_form_field(sources, name) for name in request.POST
    )


def _require_owner(request: HttpRequest) -> None:
    """Raise PermissionDenied for callers that forgot to require the owner."""
    if not is_owner(request.user):
        raise PermissionDenied
