"""The page on which the owner decides what an app may read, and the signed form that it shares.

`ReviewedForms` is the form of consent, giving access and narrowing. What one rendering of it would
grant is signed, so that only what the owner saw can be allowed. Expiry and limits are not signed: they
apply as the owner typed them. `GrantWizard` is the page of `/oauth/authorize`, `/device` and
`/agent-connect`: the identity of the client, streams with counts, and what stays hidden.
"""

import hashlib
import hmac
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar
from urllib.parse import urlsplit

import orjson
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone

from evidence.access.crypto import key_for
from evidence.access.grant_terms import serialize_terms
from evidence.access.grant_text import join_words, merge_descriptions, quote_labels
from evidence.access.grants import find_approved_package, get_or_create_client, issue, lock_sources
from evidence.access.quotas import set_quotas
from evidence.errors import ApiException
from evidence.models.clients import Client
from evidence.models.grants import Package
from evidence.models.owners import current_owner
from owner.grants.grant_forms import DraftForms, SourceForms, is_form_field
from owner.grants.grantable_sources import (
    LOOPBACK_HOSTS,
    AccessRequest,
    GrantableSource,
    RequestedAccess,
    all_grantable,
    readable_connections,
    requested_grantable,
)
from owner.grants.preview import PreviewsByForm, preview_sources
from owner.permissions import is_owner, with_security_headers
from owner.setup_snippets import EVENTS, MCP, REST
from owner.text import one_line, pluralize

FORM_FIELDS = frozenset(
    {"csrfmiddlewaretoken", "decision", "pick", "form_token", "review_signature"}
)
MAX_BRIEF_LABELS = 3
MAX_BRIEF_LABEL = 24
"""Characters of a name: two lines of a phone contain the counts and three names."""
HAS_ERRORS = "Correct the fields marked below."
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class ReviewedForms:
    """The forms as posted. `subject` is any JSON value that identifies what is decided on."""

    request: HttpRequest
    forms: DraftForms
    subject: object

    @property
    def form_token(self) -> str:
        """Return the token of the posted rendering."""
        return str(self.request.POST.get("form_token", ""))

    @property
    def is_allowed(self) -> bool:
        """Return whether the owner pressed the button that gives access."""
        return self.request.POST.get("decision") == "allow"

    def decide(
        self, act: Callable[[], Result], *, nothing_selected: str, changed: str
    ) -> tuple[Result | None, str]:
        """Return the outcome of `act` if the owner allowed what they have seen, else why it is refused."""
        if not self.is_allowed:
            return None, ""
        if self.forms.is_empty:
            return None, nothing_selected
        if not self.forms.check():
            return None, HAS_ERRORS
        signature = self.request.POST.get("review_signature", "")
        is_same = hmac.compare_digest(signature.encode(), self._signature(self.form_token).encode())
        if not self.form_token or not is_same:
            return None, changed
        try:
            return act(), ""
        except ApiException as refusal:
            return None, refusal.message

    def issue(self, client: Client, now: datetime) -> Package:
        """Issue the grants with their limits. Raises ApiException, and then stores nothing."""
        requests, limits = self.forms.requests(now), self.forms.limits.limits
        package, grants = issue(requests, client=client, now=now, approval=self.form_token)
        for grant in grants if limits else ():
            set_quotas(grant.pk, limits, now=now)
        return package

    def context(self, *, error: str = "") -> dict[str, Any]:
        """Return the context of ``owner/grants/edit.html``."""
        forms, form_token = self.forms, secrets.token_urlsafe(16)
        is_complete = forms.check()
        if not is_complete and not forms.is_empty and forms.has_errors:
            error = error or HAS_ERRORS
        previews = preview_sources(forms.selected)
        rows = [_source_row(source, previews) for source in forms.sources]
        return {
            "error": error,
            "rows": rows,
            "is_all_demo": forms.is_all_demo,
            "terms": forms.terms,
            "limits": forms.limits,
            "max_usage": forms.limits.limits_text if forms.limits.has_valid_limits else "",
            "sentences": merge_descriptions(preview.words for preview in previews.values()),
            "hidden_parts": [*describe_hidden(forms, previews)],
            "expires": forms.terms.expiry_text if forms.terms.is_valid() else "",
            "brief": _brief(rows),
            "form_token": form_token,
            "review_signature": self._signature(form_token) if is_complete else "",
        }

    def _signature(self, form_token: str) -> str:
        return review_signature(
            self.forms.selected,
            subject=self.subject,
            form_token=form_token,
            user_pk=self.request.user.pk,
        )


def review_signature(
    sources: Sequence[SourceForms], *, subject: object, form_token: str, user_pk: object
) -> str:
    """Sign what one rendering of a form would grant, for one user."""
    reviewed = {
        "subject": subject,
        "form_token": form_token,
        "user": user_pk,
        "sources": [
            {
                "source": each.source.source.pk,
                "declaration": each.source.declaration_pk,
                "labels": [[row.pk, row.display_name] for row in each.connections],
                "streams": serialize_terms(each.terms, time_fields={}),
            }
            for each in sources
        ],
    }
    content = orjson.dumps(reviewed, option=orjson.OPT_SORT_KEYS)
    return hmac.digest(key_for("consent revision"), content, hashlib.sha256).hex()


def _brief(rows: Sequence[dict[str, Any]]) -> tuple[str, str] | None:
    """Return ``("1,204 records", "Mail and Chat")``: counts and sources; None if nothing is selected."""
    read = [row for row in rows if row["previews"]]
    if not read:
        return None
    labels = [one_line(row["forms"].label, max_length=MAX_BRIEF_LABEL) for row in read]
    if len(labels) > MAX_BRIEF_LABELS:
        labels = [
            *labels[: MAX_BRIEF_LABELS - 1],
            f"{len(labels) - MAX_BRIEF_LABELS + 1} more sources",
        ]
    count = sum(preview.count for row in read for preview in row["previews"])
    return pluralize(count, "record"), join_words(labels)


def _source_row(draft: SourceForms, previews: PreviewsByForm) -> dict[str, Any]:
    """Combine the forms of a source with the previews of its streams.

    Its streams are shown if they have an error, a restriction, or one is left out.
    """
    found = [(form, previews.get(str(form.prefix))) for form in draft.streams]
    is_partial = len(draft.included) < len(draft.streams)
    return {
        "forms": draft,
        "streams": found,
        "previews": [preview for _, preview in found if preview is not None],
        "is_expanded": bool(draft.connections)
        and (is_partial or any(form.is_expanded for form in draft.streams)),
    }


def describe_hidden(forms: DraftForms, previews: PreviewsByForm) -> Iterator[str]:
    """Yield what stays hidden: records and fields, streams, and connections."""
    for preview in previews.values():
        if preview.hidden_text:
            yield f"{preview.words.label}: {preview.hidden_text}"
    selected: set[str] = set()
    for source in forms.selected:
        selected.update(source.connection_ids)
        excluded = [form.label for form in source.streams if form.terms is None and not form.errors]
        if excluded:
            yield f"{source.label}: all of {quote_labels(excluded)}"
    others = [row.label for row in readable_connections(current_owner()) if row.pk not in selected]
    if others:
        yield f"Everything in {quote_labels(others)}"


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


def describe_client(access_request: AccessRequest) -> dict[str, Any]:
    """Return the template variables that say who asks, and where the decision is sent."""
    client = access_request.client
    return {
        "client": client,
        "name": one_line(client.name) or client.client_id,
        "identity": identity(access_request),
        "is_known": is_verified(access_request) or client.registered_by == "owner",
        "redirect_target": describe_redirect(access_request),
        "resource": RESOURCE_LABELS[access_request.resource],
        "claims": [*_claims(access_request)],
        "once": any(detail.access_mode == "single_use" for detail in access_request.details),
    }


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
        package_id, error = wizard.reviewed.decide(
            wizard.approve, nothing_selected=NOTHING_SELECTED, changed=REVIEW_CHANGED
        )
        if package_id is not None:
            return Approved(package_id)
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
        self.reviewed = ReviewedForms(request, self._forms, subject)

    @with_security_headers
    def page(self, *, action_url: str, hidden: Mapping[str, str], error: str) -> HttpResponse:
        """Render the page, with status 422 if an error must be corrected first."""
        edit = self.reviewed.context(error=error)
        context = {
            **edit,
            **describe_client(self._access_request),
            "unknown_sources": self._unknown_sources,
            "action_url": action_url,
            "hidden": hidden,
        }
        status = 422 if edit["error"] else 200
        response = render(self._request, "owner/grants/review.html", context, status=status)
        response["X-Frame-Options"] = "DENY"
        return response

    def approve(self) -> str:
        """Issue the grants and return their package; the same one if the form was sent before."""
        if (package_id := find_approved_package(self.reviewed.form_token)) is not None:
            return package_id
        asks, now = self._access_request.client, timezone.now()
        client = get_or_create_client(
            asks.client_id, display_name=asks.name, owner_id=current_owner(), now=now
        )
        return self.reviewed.issue(client, now).pk

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
