"""System checks: what must hold for the wall to be a wall."""

from collections.abc import Iterable, Iterator
from typing import Any

from django.core.checks import CheckMessage, Error
from django.urls import URLPattern, URLResolver, get_resolver

PUBLIC = frozenset({"UnknownRouteView", "OpenApiView"})
"""Views under ``/v1`` that show nothing personal and so need no bearer."""


def every_route_is_granted(app_configs: Any, **_: Any) -> list[CheckMessage]:
    """E001: each route under ``/v1/`` is a ``GrantedView`` or on the public list."""
    from evidence.api.base_views import GrantedView, PublicView

    problems: list[CheckMessage] = []
    for route, view in _routes(get_resolver().url_patterns):
        if not route.startswith("v1/"):
            continue
        if (
            view is None
            or not issubclass(view, PublicView)
            or (not issubclass(view, GrantedView) and view.__name__ not in PUBLIC)
        ):
            problems.append(_problem(route, view))
    return problems


def _problem(route: str, view: Any) -> CheckMessage:
    name = getattr(view, "__name__", "a plain function")
    return Error(f"{route} is answered by {name}, which is not a GrantedView", id="evidence.E001")


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
