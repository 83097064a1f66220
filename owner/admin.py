"""What the operator sees of grants, apps, sources and connections in the Django admin.

Rows are those of the signed-in owner. Grants are issued, narrowed, paused and revoked; a client can be
renamed; all else is read-only.
"""

from collections.abc import Iterable
from typing import Any

from django import forms
from django.contrib import messages
from django.contrib.admin import ModelAdmin, SimpleListFilter, action, display, register
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString
from typing_extensions import override

from evidence import limits
from evidence.access.grant_states import GrantState, filter_state, state_of, with_grant_state
from evidence.access.grants import pause_client
from evidence.models.clients import Client
from evidence.models.connections import Connection
from evidence.models.grants import Grant, Package
from evidence.models.owners import current_owner
from evidence.models.sources import Source
from owner.form_fields import PlainForm, validate_printable
from owner.grants import grant_pages
from owner.site import OwnerAdmin, confirmation, grant_url, is_confirmed, owner_site
from owner.text import pluralize


class StateFilter(SimpleListFilter):
    title = parameter_name = "state"

    @override
    def lookups(
        self, request: HttpRequest, model_admin: ModelAdmin[Any]
    ) -> Iterable[tuple[str, str]]:
        return GrantState.choices

    @override
    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        chosen = self.value()
        return (
            filter_state(queryset, GrantState(chosen)) if chosen in GrantState.values else queryset
        )


@register(Grant, site=owner_site)
class GrantAdmin(OwnerAdmin[Grant]):
    list_display = ("client", "state", "source", "grant_id", "issued_at", "expires_at", "own_page")
    list_filter = (StateFilter,)
    search_fields = (
        "grant_id",
        "package__package_id",
        "package__client__display_name",
        "source__display_name",
        "purpose_description",
    )
    actions = ("narrow", "pause", "revoke")

    @override
    def get_queryset(self, request: HttpRequest) -> QuerySet[Grant]:
        return with_grant_state(timezone.now()).filter(owner_id=current_owner())

    @override
    def has_add_permission(self, request: HttpRequest) -> bool:
        return self.has_view_permission(request)

    @override
    def add_view(
        self, request: HttpRequest, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        return redirect("give-access")

    @display(ordering="package__client__display_name")
    def client(self, grant: Grant) -> str:
        return str(grant.package.client.display_name)

    @display(description="state")
    def state(self, grant: Grant) -> str:
        return str(state_of(grant).label)

    @display(description="in words")
    def own_page(self, grant: Grant) -> SafeString:
        return format_html('<a href="{}">Limits and tokens</a>', grant_url(grant.pk))

    @action(description="Narrow the selected grant", permissions=["view"])
    def narrow(self, request: HttpRequest, queryset: QuerySet[Grant]) -> HttpResponse | None:
        grants = list(queryset)
        if len(grants) == 1:
            return redirect(reverse("grant-narrow", query={"grant": grants[0].pk}))
        messages.error(request, "Select one grant to narrow.")
        return None

    @action(description="Pause the apps of the selected grants", permissions=["view"])
    def pause(self, request: HttpRequest, queryset: QuerySet[Grant]) -> None:
        now = timezone.now()
        clients = {grant.package.client_id for grant in queryset}
        paused = sum(pause_client(client_id, now=now) for client_id in sorted(clients))
        messages.success(request, f"{pluralize(paused, 'grant')} paused.")

    @action(description="Revoke the selected grants", permissions=["view"])
    def revoke(self, request: HttpRequest, queryset: QuerySet[Grant]) -> HttpResponse | None:
        grants = list(queryset)
        if is_confirmed(request):
            grant_pages.revoke_grants(request, grants)
            return None
        question = grant_pages.revoke_confirmation(
            grants, back=reverse("admin:evidence_grant_changelist")
        )
        return confirmation(request, question, action="revoke")


@register(Package, site=owner_site)
class PackageAdmin(OwnerAdmin[Package]):
    list_display = ("package_id", "client", "revoked_at")
    list_select_related = ("client",)
    search_fields = ("package_id", "client__display_name")


class ClientForm(PlainForm[Client]):
    display_name = forms.CharField(label="Name", max_length=limits.LABEL_MAX_CHARS)

    class Meta:
        model = Client
        fields = ("display_name",)

    def clean_display_name(self) -> str:
        return validate_printable(self.cleaned_data["display_name"])


@register(Client, site=owner_site)
class ClientAdmin(OwnerAdmin[Client]):
    list_display = ("client_id", "display_name", "created_at")
    search_fields = ("client_id", "display_name")
    ordering = ("display_name", "pk")
    form = ClientForm

    @override
    def has_change_permission(self, request: HttpRequest, obj: Client | None = None) -> bool:
        return self.has_view_permission(request, obj)

    @override
    def save_model(self, request: HttpRequest, obj: Client, form: Any, change: bool) -> None:
        obj.save(update_fields=["display_name"])


@register(Source, site=owner_site)
class SourceAdmin(OwnerAdmin[Source]):
    list_display = ("connector_key", "display_name", "source_id")
    search_fields = ("display_name", "connector_key")
    ordering = ("display_name", "pk")


@register(Connection, site=owner_site)
class ConnectionAdmin(OwnerAdmin[Connection]):
    list_display = ("connection_id", "display_name", "source", "status", "created_at")
    list_select_related = ("source",)
    search_fields = ("display_name", "source__display_name", "connection_id")
    ordering = ("display_name", "pk")
