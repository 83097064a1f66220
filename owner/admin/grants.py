"""Grants are listed, described and revoked; never edited or deleted. Their filters serve tokens too."""

from collections.abc import Iterable
from typing import Any

from django.contrib.admin import ModelAdmin, SimpleListFilter, action, display, register
from django.contrib.admin.views.main import ChangeList
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils import timezone
from django.utils.safestring import SafeString
from typing_extensions import override

from evidence.access.grant_states import GrantState, filter_state, with_grant_state
from evidence.models.clients import Client
from evidence.models.grants import Grant
from evidence.models.sources import Source
from owner.grants import grant_pages
from owner.grants.grant_pages import GrantRow, grant_rows
from owner.site import OwnerAdmin, OwnPage, confirmation, is_confirmed, owner_site
from owner.text import one_line


class StateFilter(SimpleListFilter):
    title = "state"
    parameter_name = "state"

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


class TokenStateFilter(StateFilter):
    """Only grants are superseded."""

    @override
    def lookups(
        self, request: HttpRequest, model_admin: ModelAdmin[Any]
    ) -> Iterable[tuple[str, str]]:
        return [choice for choice in GrantState.choices if choice[0] != GrantState.SUPERSEDED]


class RelatedFilter(SimpleListFilter):
    """A filter by a related row: the field that names one, and the lookup of that field."""

    key = ""
    lookup = ""

    @override
    def lookups(
        self, request: HttpRequest, model_admin: ModelAdmin[Any]
    ) -> Iterable[tuple[str, str]]:
        return list(self.rows().values_list(self.key, "display_name"))

    def rows(self) -> QuerySet[Any]:
        """Return the rows to choose from."""
        raise NotImplementedError

    @override
    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        chosen = self.value()
        return queryset if chosen is None else queryset.filter(**{self.lookup: chosen})


class ClientFilter(RelatedFilter):
    title, parameter_name = "app", "client"
    key, lookup = "client_id", "package__client_id"

    @override
    def rows(self) -> QuerySet[Any]:
        return Client.unscoped.order_by("display_name", "client_id")


class SourceFilter(RelatedFilter):
    title = parameter_name = "source"
    key, lookup = "connector_key", "source__connector_key"

    @override
    def rows(self) -> QuerySet[Any]:
        return Source.unscoped.order_by("display_name", "connector_key")


LINE = "line"


class GrantList(ChangeList):
    """Rows of one page with their labels, loaded in two queries."""

    @override
    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        rows = list(self.result_list)
        for grant, line in zip(rows, grant_rows(rows), strict=True):
            vars(grant)[LINE] = line
        self.result_list = rows


@register(Grant, site=owner_site)
class GrantAdmin(OwnerAdmin[Grant]):
    list_title = "Grants"
    about = (
        "A grant lets one app read a part of one source. It never changes. To allow something"
        " else, give a new grant and revoke this one."
    )
    list_display = (
        "client",
        "state",
        "source_name",
        "connections",
        "stream_labels",
        "issued",
        "ends",
    )
    list_filter = (StateFilter, ClientFilter, SourceFilter)
    search_fields = (
        "grant_id",
        "package__package_id",
        "package__client__display_name",
        "source__display_name",
        "purpose_description",
    )
    search_help_text = "Search by app, source, purpose or id"
    actions = ("revoke_selected",)

    @override
    def get_queryset(self, request: HttpRequest) -> QuerySet[Grant]:
        return with_grant_state(timezone.now())

    @override
    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        return GrantList

    @override
    def has_add_permission(self, request: HttpRequest) -> bool:
        return self.has_view_permission(request)

    @override
    def own_pages(self) -> Iterable[OwnPage]:
        yield "<path:object_id>/limits/", self.limits_view, "evidence_grant_limits"
        yield "<path:object_id>/revoke/", self.revoke_view, "evidence_grant_revoke"
        yield "<path:object_id>/token/", self.token_view, "evidence_grant_token"

    @display(description="app", ordering="package__client__display_name")
    def client(self, grant: Grant) -> str:
        return _line(grant).client

    @display(description="source", ordering="source__display_name")
    def source_name(self, grant: Grant) -> str:
        return _line(grant).source

    @display(description="connections")
    def connections(self, grant: Grant) -> str:
        return one_line(_line(grant).connections)

    @display(description="streams")
    def stream_labels(self, grant: Grant) -> str:
        return _line(grant).streams

    @display(description="allowed", ordering="issued_at")
    def issued(self, grant: Grant) -> str:
        return _line(grant).issued

    @display(description="ends", ordering="expires_at")
    def ends(self, grant: Grant) -> str:
        return _line(grant).expires

    @display(description="state")
    def state(self, grant: Grant) -> SafeString:
        return _line(grant).state

    @override
    def add_view(
        self,
        request: HttpRequest,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        return redirect("give-access")

    @override
    def row_page(self, request: HttpRequest, object_id: str) -> HttpResponse:
        return grant_pages.grant_page(request, self.get_or_404(request, object_id))

    def token_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        return grant_pages.add_token(request, self.get_or_404(request, object_id))

    def limits_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        return grant_pages.change_limits(request, self.get_or_404(request, object_id))

    def revoke_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        return grant_pages.revoke(request, self.get_or_404(request, object_id))

    @action(description="Revoke the selected grants", permissions=["view"])
    def revoke_selected(
        self, request: HttpRequest, queryset: QuerySet[Grant]
    ) -> HttpResponse | None:
        grants = list(queryset)
        if is_confirmed(request):
            grant_pages.revoke_grants(request, grants)
            return None
        back = reverse("admin:evidence_grant_changelist")
        question = grant_pages.revoke_confirmation(grants, back=back)
        return confirmation(request, question, action="revoke_selected")


def _line(grant: Grant) -> GrantRow:
    line: GrantRow = vars(grant)[LINE]
    return line
