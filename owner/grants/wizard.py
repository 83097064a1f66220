"""Grant wizard: show an access request, check the owner's choices, and issue the grants.

Used by ``/oauth/authorize``, ``/device`` and the approval of ``/agent-connect``.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.utils import timezone

from evidence.access.grants import find_approved_package, get_or_create_client, issue, lock_sources
from evidence.access.quotas import set_quotas
from evidence.errors import ApiException
from evidence.models.accounts import OWNER_ID
from owner.grants.access_request import AccessRequest
from owner.grants.draft import DraftForms, is_form_field
from owner.grants.grantable_sources import (
    GrantableSource,
    all_grantable,
    readable_connections,
    requested_grantable,
)
from owner.grants.review_page import Review, review_page
from owner.grants.reviewed_forms import FORM_FIELDS, ReviewedForms
from owner.permissions import is_owner

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
            lock_sources(OWNER_ID)
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
            requesting.client_id, display_name=requesting.name, owner_id=OWNER_ID, now=now
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
        return requested_grantable(access_request.details, owner_id=OWNER_ID)
    return all_grantable(readable_connections(OWNER_ID)), []


def _is_submitted(request: HttpRequest, sources: list[GrantableSource]) -> bool:
    """Return whether the wizard's form was posted, and not only another form of the caller."""
    return "form_token" in request.POST and any(
        is_form_field(sources, name) for name in request.POST
    )


def _require_owner(request: HttpRequest) -> None:
    """Raise PermissionDenied for callers that forgot to require the owner."""
    if not is_owner(request.user):
        raise PermissionDenied
