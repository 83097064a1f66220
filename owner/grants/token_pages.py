"""Tokens: a list, and a page of each on which it is revoked."""

from django.contrib import messages
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.utils import timezone

from evidence.access.grant_states import (
    GrantState,
    state_of,
    with_grant_state,
    with_token_state,
)
from evidence.access.tokens import revoke_token_id
from evidence.models.grants import AccessToken
from evidence.models.owners import current_owner
from owner.grants.grant_pages import TokenRow, grant_rows, token_row, token_rows, token_url
from owner.permissions import owner_required
from owner.site import Question, confirmation, is_confirmed, page
from owner.text import format_time, pluralize

PER_PAGE = 50
EXPLANATION = (
    "The token stops working now; this cannot be undone. Its grant keeps its other tokens."
    " To revoke everything that an app may read, revoke its grants."
)


@owner_required
def tokens_page(request: HttpRequest) -> HttpResponse:
    """List all tokens with their state, newest first, without the bearers."""
    rows = with_token_state(timezone.now()).filter(owner_id=current_owner())
    found = Paginator(rows.select_related("package__client"), PER_PAGE)
    shown = found.get_page(request.GET.get("page"))
    context = {"tokens": token_rows(shown), "found": shown, "here": "tokens"}
    return page(request, "expert/tokens", title="Tokens", context=context)


@owner_required
def token_page(request: HttpRequest, token_id: str) -> HttpResponse:
    """Show one token and what it reads."""
    token = _token_or_404(token_id)
    grants = with_grant_state(timezone.now()).filter(package_id=token.package_id)
    row = token_row(token)
    context = {
        "token": token,
        "facts": _facts(token),
        "state": row.state,
        "is_active": state_of(token) in (GrantState.ACTIVE, GrantState.PAUSED),
        "grant_rows": grant_rows(grants) if token.package_id is not None else [],
        "revoke_url": token_url(token.pk, "token-revoke"),
    }
    return page(request, "expert/token", title=f"Token of {row.client}", context=context)


@owner_required
def revoke(request: HttpRequest, token_id: str) -> HttpResponse:
    """Revoke a token, after a confirmation."""
    token = _token_or_404(token_id)
    if not is_confirmed(request):
        return confirmation(request, _question(token))
    ended = revoke_token_id(token.pk, now=timezone.now())
    messages.success(request, f"{pluralize(int(ended), 'token')} revoked.")
    return redirect(token_url(token.pk))


def _token_or_404(token_id: str) -> AccessToken:
    rows = with_token_state(timezone.now()).filter(owner_id=current_owner())
    return get_object_or_404(rows, pk=token_id.replace("\0", ""))


def _facts(token: AccessToken) -> list[tuple[str, str]]:
    line = token_row(token)
    return [
        ("Valid for", line.resource),
        ("Scope", line.scope),
        ("Created", line.created),
        ("Expires", line.expires),
        ("Revoked by you", format_time(token.revoked_at, never="no")),
        ("Id", token.pk),
    ]


def _question(token: AccessToken) -> Question:
    return Question(
        title="Revoke this token?",
        explanation=EXPLANATION,
        items={token.pk: _item(token_row(token))},
        button="Revoke",
        back=token_url(token.pk),
    )


def _item(line: TokenRow) -> str:
    return f"{line.client}: {line.resource}, created {line.created}"
