"""Filters beside the lists of grants and tokens."""

from collections.abc import Iterable
from typing import Any

from django.contrib.admin import ModelAdmin, SimpleListFilter
from django.db.models import QuerySet
from django.http import HttpRequest
from typing_extensions import override

from evidence.access.grant_states import GrantState, filter_state
from evidence.models.accounts import Client
from evidence.models.sources import Source


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
    """A filter by a related row: all rows, the field that names one, and the lookup of that field."""

    rows: QuerySet[Any]
    key = ""
    lookup = ""

    @override
    def lookups(
        self, request: HttpRequest, model_admin: ModelAdmin[Any]
    ) -> Iterable[tuple[str, str]]:
        return list(self.rows.values_list(self.key, "display_name"))

    @override
    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        chosen = self.value()
        return queryset if chosen is None else queryset.filter(**{self.lookup: chosen})


class ClientFilter(RelatedFilter):
    title, parameter_name = "app", "client"
    rows = Client.unscoped.order_by("display_name", "client_id")
    key, lookup = "client_id", "package__client_id"


class SourceFilter(RelatedFilter):
    title = parameter_name = "source"
    rows = Source.unscoped.order_by("display_name", "connector_key")
    key, lookup = "connector_key", "source__connector_key"
