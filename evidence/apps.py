"""The Django app of the records. It checks that every `/v1` route requires a grant."""

from collections.abc import Iterable, Iterator
from typing import Any

from django.apps import AppConfig
from django.core.checks import CheckMessage, Error, register
from django.urls import URLPattern, URLResolver, get_resolver
from typing_extensions import override


class EvidenceConfig(AppConfig):
    name = "evidence"
    verbose_name = "Evidence"

    @override
    def ready(self) -> None:
        register(check_routes_require_grants)


PUBLIC_VIEWS = frozenset({"UnknownRouteView", "OpenApiView"})
"""Views under ``/v1`` that return nothing personal and need no bearer token."""


def check_routes_require_grants(app_configs: Any, **_: Any) -> list[CheckMessage]:
    """Check E001: every route under ``/v1/`` is a ``GrantedView`` or listed in PUBLIC_VIEWS."""
    from evidence.api.base_views import GrantedView, PublicView

    problems: list[CheckMessage] = []
    for route, view in _routes(get_resolver().url_patterns):
        if not route.startswith("v1/"):
            continue
        if (
            view is None
            or not issubclass(view, PublicView)
            or (not issubclass(view, GrantedView) and view.__name__ not in PUBLIC_VIEWS)
        ):
            problems.append(_problem(route, view))
    return problems


def _problem(route: str, view: Any) -> CheckMessage:
    name = getattr(view, "__name__", "a plain function")
    return Error(f"{route} is served by {name}, which is not a GrantedView", id="evidence.E001")


def _routes(
    patterns: Iterable[URLPattern | URLResolver], prefix: str = ""
) -> Iterator[tuple[str, Any]]:
    for pattern in patterns:
        route = prefix + str(pattern.pattern)
        if isinstance(pattern, URLResolver):
            yield from _routes(pattern.url_patterns, route)
        else:
            yield (
                route,
                getattr(pattern.callback, "view_class", getattr(pattern.callback, "cls", None)),
            )
