"""Bearer tokens, without the secret itself."""

from collections.abc import Iterable
from typing import Any

from django.contrib import messages
from django.contrib.admin import action, display, register
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils import timezone
from django.utils.safestring import SafeString
from typing_extensions import override

from evidence.access.grant_states import GrantState, state_of, with_grant_state, with_token_state
from evidence.access.tokens import revoke_token_id
from evidence.models.grants import AccessToken
from owner.admin.filters import ClientFilter, TokenStateFilter
from owner.grants.grant_pages import TokenRow, grant_rows, token_row, token_url
from owner.site import OwnerAdmin, OwnPage, Question, confirmation, is_confirmed, owner_site, page
from owner.text import format_time, pluralize

EXPLANATION = (
    "The token stops working now; this cannot be undone. Its grant keeps its other tokens."
    " To revoke everything that an app may read, revoke its grants."
)


@register(AccessToken, site=owner_site)
class TokenAdmin(OwnerAdmin[AccessToken]):
    list_title = "Tokens"
    about = (
        "An app proves with a token that it may read. Each token was shown"
        " once, when it was created. If one is lost, revoke it and create another"
        " from its grant."
    )
    list_display = ("holder", "state", "works", "reach", "created", "ends")
    list_filter = (TokenStateFilter, ClientFilter)
    search_fields = ("package__client__display_name", "token_id", "package_id")
    search_help_text = "Search by app or id"
    actions = ("revoke_selected",)

    @override
    def get_queryset(self, request: HttpRequest) -> QuerySet[AccessToken]:
        return with_token_state(timezone.now())

    @override
    def own_pages(self) -> Iterable[OwnPage]:
        yield "<path:object_id>/revoke/", self.revoke_view, "evidence_accesstoken_revoke"

    @display(description="app", ordering="package__client__display_name")
    def holder(self, token: AccessToken) -> str:
        return token_row(token).client

    @display(description="works", ordering="resource")
    def works(self, token: AccessToken) -> str:
        return token_row(token).resource

    @display(description="reaches", ordering="kind")
    def reach(self, token: AccessToken) -> str:
        return token_row(token).scope

    @display(description="created", ordering="created_at")
    def created(self, token: AccessToken) -> str:
        return token_row(token).created

    @display(description="ends", ordering="expires_at")
    def ends(self, token: AccessToken) -> str:
        return token_row(token).expires

    @display(description="state")
    def state(self, token: AccessToken) -> SafeString:
        return token_row(token).state

    @override
    def change_view(
        self,
        request: HttpRequest,
        object_id: str,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        token = self.get_or_404(request, object_id)
        grants = with_grant_state(timezone.now()).filter(package_id=token.package_id)
        context = {
            "token": token,
            "facts": _facts(token),
            "state": token_row(token).state,
            "is_active": state_of(token) in (GrantState.ACTIVE, GrantState.PAUSED),
            "grant_rows": grant_rows(grants) if token.package_id is not None else [],
            "revoke_url": token_url("revoke", token.pk),
        }
        return page(
            request, "expert/token", title=f"Token of {token_row(token).client}", context=context
        )

    def revoke_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        token = self.get_or_404(request, object_id)
        url = token_url("change", token.pk)
        if not is_confirmed(request):
            return confirmation(request, _question([token], back=url))
        self._revoke(request, [token])
        return redirect(url)

    @action(description="Revoke the selected tokens", permissions=["view"])
    def revoke_selected(
        self, request: HttpRequest, queryset: QuerySet[AccessToken]
    ) -> HttpResponse | None:
        tokens = list(queryset)
        if not is_confirmed(request):
            back = reverse("admin:evidence_accesstoken_changelist")
            question = _question(tokens, back=back)
            return confirmation(request, question, action="revoke_selected")
        self._revoke(request, tokens)
        return None

    def _revoke(self, request: HttpRequest, tokens: list[AccessToken]) -> None:
        now = timezone.now()
        ended = sum(revoke_token_id(token.pk, now=now) for token in tokens)
        messages.success(request, f"{pluralize(ended, 'token')} revoked.")


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


def _question(tokens: list[AccessToken], *, back: str) -> Question:
    return Question(
        title="Revoke this token?" if len(tokens) == 1 else f"Revoke {len(tokens)} tokens?",
        explanation=EXPLANATION,
        items={token.pk: _item(token_row(token)) for token in tokens},
        button="Revoke",
        back=back,
    )


def _item(line: TokenRow) -> str:
    return f"{line.client}: {line.resource}, created {line.created}"
