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


class ClientFilter(SimpleListFilter):
    title = "client"
    parameter_name = "client"

    @override
    def lookups(
        self, request: HttpRequest, model_admin: ModelAdmin[Any]
    ) -> Iterable[tuple[str, str]]:
        clients = Client.unscoped.order_by("display_name", "client_id")
        return list(clients.values_list("client_id", "display_name"))

    @override
    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        chosen = self.value()
        return queryset if chosen is None else queryset.filter(package__client_id=chosen)


class SourceFilter(SimpleListFilter):
    title = "source"
    parameter_name = "source"

    @override
    def lookups(
        self, request: HttpRequest, model_admin: ModelAdmin[Any]
    ) -> Iterable[tuple[str, str]]:
        sources = Source.unscoped.order_by("display_name", "connector_key")
        return list(sources.values_list("connector_key", "display_name"))

    @override
    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        chosen = self.value()
        return queryset if chosen is None else queryset.filter(source__connector_key=chosen)
