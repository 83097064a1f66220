"""Accounts that can sign in, read-only."""

from typing import Any

from django.contrib.admin import register
from django.contrib.auth.models import User
from django.http import HttpRequest
from django.urls import URLPattern, path
from typing_extensions import override

from owner.accounts.second_factor_views import second_factor_page
from owner.formatting import with_code
from owner.site import OwnerAdmin, owner_site


@register(User, site=owner_site)
class AccountAdmin(OwnerAdmin[User]):
    list_display = ("username", "is_active", "is_superuser", "last_login")
    list_display_links = None
    ordering = ("username",)
    fields = ("username", "is_active", "is_superuser", "last_login", "date_joined")

    @override
    def get_urls(self) -> list[URLPattern]:
        own = self.admin_site.admin_view(second_factor_page)
        return [path("second-factor/", own, name="second_factor"), *super().get_urls()]

    @override
    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> Any:
        about = with_code(
            "Who can sign in here. Only superusers see records."
            " After a lost password or phone, run {} on the server.",
            "manage.py setup-link",
        )
        return super().changelist_view(request, {"title": "Accounts", "about": about})
