"""Clients can be created and renamed, never deleted, because grants refer to them."""

from typing import Any

from django import forms
from django.contrib.admin import display, register
from django.contrib.admin.utils import unquote
from django.db.models import Count, OuterRef, QuerySet, Subquery
from django.db.models.functions import Coalesce
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from typing_extensions import override

from evidence import limits
from evidence.access.grant_states import GrantState, filter_state, with_grant_state
from evidence.access.grants import register_client
from evidence.models.accounts import Client
from owner.form_fields import PlainForm, validate_printable
from owner.grants.grant_pages import grant_rows
from owner.site import OwnerAdmin, named, owner, owner_site
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
    def change_view(
        self,
        request: HttpRequest,
        object_id: str,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        client = self.get_object(request, unquote(object_id))
        grants = with_grant_state(timezone.now()).filter(package__client=client)
        lines = grant_rows(grants) if client is not None else []
        return super().change_view(
            request, object_id, form_url, {"grant_rows": lines, **named(client)}
        )

    @override
    def save_model(self, request: HttpRequest, obj: Client, form: Any, change: bool) -> None:
        if change:
            obj.save(update_fields=["display_name"])
            return
        made = register_client(obj.display_name, owner_id=owner().pk, now=timezone.now())
        vars(obj).update(vars(made))
