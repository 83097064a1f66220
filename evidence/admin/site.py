"""The site that holds the owner's administration."""

from collections.abc import Mapping
from typing import Any

from django.contrib.admin import AdminSite
from django.contrib.admin.models import LogEntry
from django.contrib.auth import REDIRECT_FIELD_NAME
from django.contrib.auth.views import redirect_to_login
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.cache import add_never_cache_headers
from typing_extensions import override

from evidence.admin.overview import SECTIONS
from evidence.consent.owners_only import View, fenced, is_owner


class OwnerSite(AdminSite):
    site_header = "PDPP"
    site_title = "PDPP"
    index_title = "Your records, and who may read them"
    index_template = "admin/evidence/index.html"
    site_url = None
    enable_nav_sidebar = False

    @override
    def has_permission(self, request: HttpRequest) -> bool:
        return is_owner(request.user)

    @override
    def admin_view(self, view: View, cacheable: bool = False) -> View:
        # Nothing here may be kept by a browser, not even what Django deems cacheable.
        return fenced(super().admin_view(view, cacheable=False))

    @override
    def login(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """There is one page to sign in on, and one place that counts who fails there."""
        return fenced(_to_sign_in)(request)

    @override
    def index(
        self, request: HttpRequest, extra_context: Mapping[str, Any] | None = None
    ) -> TemplateResponse:
        return super().index(request, {"sections": SECTIONS, **(extra_context or {})})

    @override
    def app_index(  # type: ignore[override] # a redirect says better that there is only one app
        self, request: HttpRequest, app_label: str, extra_context: Any = None
    ) -> HttpResponse:
        return redirect(reverse("admin:index"))

    @override
    def get_log_entries(self, request: HttpRequest) -> QuerySet[LogEntry]:
        return LogEntry.objects.none()


def _to_sign_in(request: HttpRequest) -> HttpResponse:
    response = redirect_to_login(request.GET.get(REDIRECT_FIELD_NAME) or reverse("admin:index"))
    add_never_cache_headers(response)
    return response


owner_site = OwnerSite(name="admin")
