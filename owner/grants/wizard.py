"""Grant wizard: show an access request, check the owner's choices, and issue the grants.

Used by ``/oauth/authorize``, ``/device`` and the approval of ``/agent-connect``. The reviewed draft is
signed, so that only what the owner saw can be approved.
"""

import hashlib
import hmac
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import orjson
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.utils import timezone

from evidence.access.crypto import key_for
from evidence.access.grant_terms import serialize_terms
from evidence.access.grants import find_approved_package, get_or_create_client, issue, lock_sources
from evidence.access.quotas import set_quotas
from evidence.errors import ApiException
from evidence.models.accounts import OWNER_ID
from owner.grants.access_request import AccessRequest
from owner.grants.draft import DraftForms, SourceDraft, is_form_field
from owner.grants.grantable_sources import (
    GrantableSource,
    all_grantable,
    readable_connections,
    requested_grantable,
)
from owner.grants.review_page import Review, review_page
from owner.permissions import is_owner

WIZARD_FIELDS = frozenset(
    {"csrfmiddlewaretoken", "decision", "pick", "form_token", "review_signature"}
)
NOTHING_SELECTED = "Select at least one connection, or choose Don\u2019t allow."
HAS_ERRORS = "Correct the fields marked below."
REVIEW_CHANGED = "Your changes updated the summary. Check it, then choose Allow."


def review_signature(
    sources: Sequence[SourceDraft],
    *,
    subject: object,
    expires: str,
    limits: str,
    form_token: str,
    user_pk: object,
) -> str:
    """Sign what one rendering of the form would grant, for one user.

    `subject` is any JSON value that identifies what is decided on.
    """
    reviewed = {
        "subject": subject,
        "expires": expires,
        "limits": limits,
        "form_token": form_token,
        "user": user_pk,
        "sources": [_granted_rights(source) for source in sources],
    }
    content = orjson.dumps(reviewed, option=orjson.OPT_SORT_KEYS)
    return hmac.digest(key_for("consent revision"), content, hashlib.sha256).hex()


def _granted_rights(source: SourceDraft) -> dict[str, object]:
    return {
        "source": source.source.source.pk,
        "declaration": source.source.declaration_pk,
        "labels": [[connection.pk, connection.display_name] for connection in source.connections],
        "streams": serialize_terms(source.terms, time_fields={}),
    }


def verify_review(signature: str, expected: str) -> bool:
    """Compare two signatures in constant time."""
    return hmac.compare_digest(signature.encode(), expected.encode())


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

    def page(self, *, action_url: str, hidden: Mapping[str, str], error: str) -> HttpResponse:
        form_token = secrets.token_urlsafe(16)
        is_complete = self._forms.check()
        if not is_complete and not error and not self._forms.is_empty and self._forms.has_errors:
            error = HAS_ERRORS
        return review_page(
            self._request,
            Review(
                access_request=self._access_request,
                forms=self._forms,
                unknown_sources=self._unknown_sources,
                action_url=action_url,
                hidden=hidden,
                error=error,
                form_token=form_token,
                signature=self._signature(form_token) if is_complete else "",
            ),
        )

    def find_error(self) -> str:
        """Return an empty string if the owner has seen exactly what an approval would grant."""
        if self._forms.is_empty:
            return NOTHING_SELECTED
        if not self._forms.check():
            return HAS_ERRORS
        form_token = self._request.POST.get("form_token", "")
        signature = self._request.POST.get("review_signature", "")
        if not form_token or not verify_review(signature, self._signature(form_token)):
            return REVIEW_CHANGED
        return ""

    def approve(self) -> Approved:
        """Issue the grants. Raises ApiException if something cannot be granted any more."""
        now = timezone.now()
        form_token = self._request.POST["form_token"]
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
            if name not in WIZARD_FIELDS and not is_form_field(self._sources, name)
        }

    def _signature(self, form_token: str) -> str:
        access_request = self._access_request
        parts = (
            access_request.client,
            access_request.resource,
            access_request.redirect_host,
            access_request.details,
        )
        return review_signature(
            self._forms.draft.sources,
            subject=[*map(repr, parts), sorted(access_request.claims.items())],
            expires=self._forms.expiry_value,
            limits=self._forms.limits.limits_text,
            form_token=form_token,
            user_pk=self._request.user.pk,
        )


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
