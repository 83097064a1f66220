"""Clients and their bearer tokens, without the secret itself.

Clients can be created and renamed, never deleted, because grants refer to them.
"""

from collections.abc import Iterable
from typing import Any

from django import forms
from django.contrib import messages
from django.contrib.admin import action, display, register
from django.contrib.admin.utils import unquote
from django.db.models import Count, OuterRef, QuerySet, Subquery
from django.db.models.functions import Coalesce
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils import timezone
from django.utils.safestring import SafeString
from typing_extensions import override

from evidence import limits
from evidence.access.grant_states import (
    GrantState,
    filter_state,
    state_of,
    with_grant_state,
    with_token_state,
)
from evidence.access.grants import register_client
from evidence.access.tokens import revoke_token_id
from evidence.models.clients import Client
from evidence.models.grants import AccessToken
from evidence.models.owners import current_owner
from owner.admin.grants import ClientFilter, TokenStateFilter
from owner.form_fields import PlainForm, validate_printable
from owner.grants.grant_pages import TokenRow, grant_rows, token_row, token_url
from owner.site import (
    OwnerAdmin,
    OwnPage,
    Question,
    confirmation,
    is_confirmed,
    named,
    owner_site,
    page,
)
from owner.text import format_time, pluralize


class ClientForm(PlainForm[Client]):
    display_name = forms.CharField(
        label="Name",
        max_length=limits.LABEL_MAX_CHARS,
        help_text="A name that you recognize, such as “Claude on my laptop”.",
        widget=forms.TextInput(attrs={"size": 40}),
    )

    class Meta:
        model = Client
        fields = ("display_name",)

    def clean_display_name(self) -> str:
        return validate_printable(self.cleaned_data["display_name"])


@register(Client, site=owner_site)
class ClientAdmin(OwnerAdmin[Client]):
    list_title = "Apps"
    about = "The apps that you gave access, with the names that you chose."
    form = ClientForm
    list_display = ("display_name", "may_read", "created")
    search_fields = ("display_name",)
    search_help_text = "Search by name"
    ordering = ("display_name", "pk")
    change_form_template = "admin/evidence/client.html"

    @override
    def add_view(
        self,
        request: HttpRequest,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        return super().add_view(request, form_url, {**named(None), "title": "Add an app"})

    @override
    def has_add_permission(self, request: HttpRequest) -> bool:
        return self.has_view_permission(request)

    @override
    def has_change_permission(self, request: HttpRequest, obj: Client | None = None) -> bool:
        return self.has_view_permission(request, obj)

    @override
    def get_queryset(self, request: HttpRequest) -> QuerySet[Client]:
        active = filter_state(with_grant_state(timezone.now()), GrantState.ACTIVE)
        its = active.filter(package__client=OuterRef("pk")).order_by().values("package__client")
        count = Subquery(its.annotate(count=Count("pk")).values("count"))
        return super().get_queryset(request).annotate(active=Coalesce(count, 0))

    @display(description="holds now", ordering="active")
    def may_read(self, client: Client) -> str:
        count: int = vars(client)["active"]
        return pluralize(count, "active grant") if count else "nothing"

    @display(description="created", ordering="created_at")
    def created(self, client: Client) -> str:
        return format_time(client.created_at)

    @override
    def row_page(self, request: HttpRequest, object_id: str) -> HttpResponse:
        client = self.get_object(request, unquote(object_id))
        grants = with_grant_state(timezone.now()).filter(package__client=client)
        lines = grant_rows(grants) if client is not None else []
        return self.form_page(request, object_id, {"grant_rows": lines, **named(client)})

    @override
    def save_model(self, request: HttpRequest, obj: Client, form: Any, change: bool) -> None:
        if change:
            obj.save(update_fields=["display_name"])
            return
        made = register_client(obj.display_name, owner_id=current_owner(), now=timezone.now())
        vars(obj).update(vars(made))


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
    def row_page(self, request: HttpRequest, object_id: str) -> HttpResponse:
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
