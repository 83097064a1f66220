"""Pages of one grant: its terms, limits and tokens, and revoking it; and the list of all tokens."""

from collections.abc import Iterable, Sequence
from typing import Any

from django.conf import settings
from django.contrib import messages
from django.core.paginator import Paginator
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.urls import reverse
from django.utils import timezone

from evidence.access.grant_states import (
    CURRENT_STATES,
    GrantState,
    connection_ids,
    connection_labels,
    state_of,
    stream_labels,
    terms_of,
    usable_until,
    with_grant_state,
    with_token_state,
)
from evidence.access.grant_text import merge_descriptions
from evidence.access.grants import revoke_grant, revoke_package
from evidence.access.quotas import get_tripwire_share, list_quotas, set_quotas, set_tripwire_share
from evidence.access.tokens import create_token, revoke_token_id, token_exists
from evidence.models.grants import AccessToken, Grant, Package
from evidence.models.owners import current_owner
from owner.form_fields import new_approval, read_approval
from owner.grants.grant_forms import GrantLimitsForm, TokensForm, current_limits, usage_texts
from owner.permissions import owner_required
from owner.setup_snippets import RESOURCE_USES, token_snippets
from owner.site import Question, confirmation, grant_url, is_confirmed, page
from owner.text import describe_terms, format_time, pluralize, state_badge


def grant_rows(grants: Iterable[Grant]) -> list[dict[str, Any]]:
    """Return the rows of grants from ``with_grant_state``, in their order. Runs two queries."""
    labels = connection_labels(current_owner())
    return [
        {
            "url": grant_url(grant.grant_id),
            "client": grant.package.client.display_name,
            "source": grant.source.display_name,
            "connections": ", ".join(labels.get(pk, pk) for pk in connection_ids(grant)),
            "streams": ", ".join(stream_labels(grant)),
            "expires": format_time(grant.expires_at),
            "state": state_badge(state_of(grant)),
        }
        for grant in grants
    ]


ALREADY_CREATED = (
    "A token was already created with this form. If you did not copy it, revoke it and choose"
    " “Create another token”."
)
IssuedTokens = Sequence[tuple[str, str]]
"""Pairs of resource and bearer."""


@owner_required
def add_token(request: HttpRequest, grant_id: str) -> HttpResponse:
    """Create another token for all grants of the package, unless none is valid any more."""
    grant = _grant_or_404(grant_id)
    back = grant_url(grant.pk)
    usable, _ = usable_until(grant.package_id, now=timezone.now())
    if not usable:
        messages.error(request, "This grant is no longer valid, so no token was created.")
        return redirect(back)
    form, approval = TokensForm(request.POST or None), read_approval(request)
    if not form.is_valid() or approval is None:
        package_rows = grant_rows(with_grant_state(timezone.now()).filter(package=grant.package))
        context = {
            "here": "connected-apps",
            "form": form,
            "grant": grant,
            "grant_rows": package_rows,
            "back": back,
            "approval": new_approval(),
        }
        return page(request, "expert/add_token", title="Create another token", context=context)
    with transaction.atomic():
        if token_exists(approval, package_id=grant.package_id):
            messages.error(request, ALREADY_CREATED)
            return redirect(back)
        tokens = issue_tokens(grant.package, form.cleaned_data["tokens"], approval=approval)
    return tokens_page(request, grant.package, tokens)


def issue_tokens(
    package: Package, resources: Sequence[str], *, approval: str | None = None
) -> IssuedTokens:
    """Create a bearer for each resource. Bearers expire with the package's grants."""
    now = timezone.now()
    return [
        (resource, create_token(package, resource=resource, now=now, approval=approval))
        for resource in resources
    ]


def tokens_page(request: HttpRequest, package: Package, tokens: IssuedTokens) -> HttpResponse:
    """Show the bearers once; browsers do not cache the page."""
    _, until = usable_until(package.pk, now=timezone.now())
    context = {
        "here": "connected-apps",
        "until": format_time(until, never=""),
        "tokens": [
            (
                RESOURCE_USES[resource],
                bearer,
                token_snippets(bearer, resource=resource, url=settings.PDPP_PUBLIC_URL),
            )
            for resource, bearer in tokens
        ],
        "grants_url": reverse("connected-apps"),
    }
    title = "Your new token" if len(tokens) == 1 else "Your new tokens"
    return page(request, "expert/tokens_created", title=title, context=context)


TOKEN_SCOPES = {
    AccessToken.Kind.OWNER: "All records, to read and write",
    AccessToken.Kind.CLIENT: "One grant",
    AccessToken.Kind.PACKAGE: "Several grants",
}


def token_rows(tokens: Iterable[AccessToken]) -> list[dict[str, Any]]:
    """Return the rows of tokens from ``with_token_state``, without their bearers. One query.

    A row has a URL unless the token is the owner's, and one to revoke it unless it has ended.
    """
    shown = list(tokens)
    grants = Grant.unscoped.filter(package__in=[each.package_id for each in shown])
    of_package: dict[str | None, str] = dict(
        grants.order_by("issued_at").values_list("package_id", "pk")
    )
    rows = []
    for token in shown:
        grant_id, is_owners = of_package.get(token.package_id), token.package is None
        is_current = state_of(token) in CURRENT_STATES
        rows.append({
            "token_id": token.pk,
            "url": grant_url(grant_id) if grant_id else "",
            "client": "You" if token.package is None else token.package.client.display_name,
            "resource": RESOURCE_USES.get(token.resource, f"at {token.resource}"),
            "scope": TOKEN_SCOPES[AccessToken.Kind(token.kind)],
            "created": format_time(token.created_at),
            "expires": format_time(
                token.expires_at, never="never" if is_owners else "with its grants"
            ),
            "state": state_badge(state_of(token)),
            "revoke_url": reverse("token-revoke", args=[token.pk]) if is_current else "",
        })  # fmt: skip
    return rows


PER_PAGE = 50
END_EXPLANATION = (
    "The token stops working now; this cannot be undone. Its grant keeps its other tokens."
    " To revoke everything that an app may read, revoke its grants."
)


@owner_required
def list_tokens(request: HttpRequest) -> HttpResponse:
    """List all tokens with their state, newest first."""
    rows = with_token_state(timezone.now()).filter(owner_id=current_owner())
    found = Paginator(rows.select_related("package__client"), PER_PAGE)
    shown = found.get_page(request.GET.get("page"))
    context = {"tokens": token_rows(shown), "found": shown, "here": "tokens"}
    return page(request, "expert/tokens", title="Tokens", context=context)


@owner_required
def revoke_token(request: HttpRequest, token_id: str) -> HttpResponse:
    """Revoke a token, after a confirmation."""
    rows = with_token_state(timezone.now()).filter(owner_id=current_owner())
    token = get_object_or_404(rows, pk=token_id.replace("\0", ""))
    if is_confirmed(request):
        ended = revoke_token_id(token.pk, now=timezone.now())
        messages.success(request, f"{pluralize(int(ended), 'token')} revoked.")
        return redirect("tokens")
    [row] = token_rows([token])
    question = Question(
        title="Revoke this token?",
        explanation=END_EXPLANATION,
        items={token.pk: "{client}: {resource}, created {created}".format(**row)},
        button="Revoke",
        back=reverse("tokens"),
    )
    return confirmation(request, question, here="tokens")


REVOKE_EXPLANATION = (
    "The app loses this access now. This cannot be undone; to give access again, create a new"
    " grant."
)


@owner_required
def grant_page(request: HttpRequest, grant_id: str) -> HttpResponse:
    """Show a grant with its limits, its tokens and the other grants of its package."""
    return _grant_page(request, _grant_or_404(grant_id))


def _grant_or_404(grant_id: str) -> Grant:
    rows = with_grant_state(timezone.now()).filter(owner_id=current_owner())
    return get_object_or_404(rows, pk=grant_id.replace("\0", ""))


def _grant_page(
    request: HttpRequest, grant: Grant, *, limits_form: GrantLimitsForm | None = None
) -> HttpResponse:
    now = timezone.now()
    limits = list_quotas(grant.pk, now=now)
    package = with_grant_state(now).filter(package=grant.package)
    labels = connection_labels(current_owner())
    context = {
        "here": "connected-apps",
        "grant": grant,
        "facts": _facts(grant),
        "state": state_badge(state_of(grant)),
        "is_active": state_of(grant) in (GrantState.ACTIVE, GrantState.PAUSED),
        # The labels are those of the declaration that the grant was issued under.
        "sentences": merge_descriptions(
            describe_terms(terms, stream=stream, labels=labels) for terms, stream in terms_of(grant)
        ),
        "others": grant_rows(package.exclude(pk=grant.pk)),
        "tokens": token_rows(with_token_state(now).filter(package=grant.package)),
        "limits_form": limits_form
        or GrantLimitsForm(initial=current_limits(limits, share=get_tripwire_share(grant.pk))),
        "used": usage_texts(limits),
        "limits_url": grant_url(grant.pk, "grant-limits"),
        "revoke_url": grant_url(grant.pk, "grant-revoke"),
        "token_url": grant_url(grant.pk, "grant-token"),
    }
    title = f"Access of {grant.package.client.display_name} to {grant.source.display_name}"
    status = 422 if limits_form is not None else 200
    return page(request, "expert/grant", title=title, context=context, status=status)


@owner_required
def change_limits(request: HttpRequest, grant_id: str) -> HttpResponse:
    """Set the limits of a grant, or show the page again with errors. Only a form changes them."""
    grant = _grant_or_404(grant_id)
    if request.method != "POST":
        return redirect(grant_url(grant.pk))
    form = GrantLimitsForm(request.POST)
    if not form.is_valid():
        return _grant_page(request, grant, limits_form=form)
    with transaction.atomic():
        set_quotas(grant.pk, form.limits, now=timezone.now())
        set_tripwire_share(grant.pk, form.cleaned_data["share"])
    messages.success(request, f"Limits saved: {form.limits_text}.")
    return redirect(grant_url(grant.pk))


@owner_required
def revoke(request: HttpRequest, grant_id: str) -> HttpResponse:
    """Revoke a grant or its whole package, after a confirmation."""
    grant = _grant_or_404(grant_id)
    back = grant_url(grant.pk)
    package_grants = list(with_grant_state(timezone.now()).filter(package=grant.package))
    is_whole_package = request.GET.get("with") == "all"
    if not is_confirmed(request):
        grants = package_grants if is_whole_package else [grant]
        question = revoke_confirmation(grants, back=back)
        return confirmation(request, question, here="connected-apps")
    if is_whole_package:
        revoke_package(grant.package_id, now=timezone.now())
        messages.success(request, "All grants of this sign-in are revoked.")
    else:
        revoke_grants(request, [grant])
    return redirect(back)


def revoke_grants(request: HttpRequest, grants: Sequence[Grant]) -> None:
    """Revoke grants and report how many were still valid."""
    now = timezone.now()
    revoked = sum(revoke_grant(grant.pk, now=now) for grant in grants)
    messages.success(request, f"{pluralize(revoked, 'grant')} revoked.")


def revoke_confirmation(grants: Sequence[Grant], *, back: str) -> Question:
    rows = grant_rows(grants)
    return Question(
        title="Revoke this grant?" if len(grants) == 1 else f"Revoke {len(grants)} grants?",
        explanation=REVOKE_EXPLANATION,
        items={
            grant.pk: "{client}: {streams}, from {connections}".format(**row)
            for grant, row in zip(grants, rows, strict=True)
        },
        button="Revoke",
        back=back,
    )


def _facts(grant: Grant) -> list[tuple[str, str]]:
    revoked_at = grant.revoked_at or grant.package.revoked_at
    use = "once: for ten minutes from its first answer"
    if grant.readable_until is not None:
        use += f", until {format_time(grant.readable_until)}"
    return [
        ("App", grant.package.client.display_name),
        ("Source", grant.source.display_name),
        ("Purpose", grant.purpose_description or "not stated"),
        ("Allowed", format_time(grant.issued_at)),
        ("Expires", format_time(grant.expires_at)),
        *([("Use", use)] if grant.access_mode == Grant.AccessMode.SINGLE_USE else []),
        *([("Extends for a short time", grant.extends_id)] if grant.extends_id else []),
        *([("Replaced by", grant.superseded_by_id)] if grant.superseded_by_id is not None else []),
        *([("Revoked by you", format_time(revoked_at))] if revoked_at is not None else []),
        ("Id", grant.pk),
        ("Package", grant.package_id),
    ]
