"""Accounts that can sign in, read-only."""

from collections.abc import Iterable

from django.contrib.admin import display, register
from django.contrib.auth.models import User
from typing_extensions import override

from owner.accounts.second_factor_views import second_factor_page
from owner.site import OwnerAdmin, OwnPage, owner_site
from owner.text import format_time, with_code


@register(User, site=owner_site)
class AccountAdmin(OwnerAdmin[User]):
    list_title = "Accounts"
    about = with_code(
        "Who can sign in here. Only superusers see records."
        " After a lost password or phone, run {} on the server.",
        "manage.py setup-link",
    )
    list_display = ("username", "is_active", "is_superuser", "signed_in")
    list_display_links = None
    ordering = ("username",)
    fields = ("username", "is_active", "is_superuser", "signed_in", "joined")
    readonly_fields = ("signed_in", "joined")

    @display(description="last sign-in", ordering="last_login")
    def signed_in(self, user: User) -> str:
        return format_time(user.last_login)

    @display(description="created", ordering="date_joined")
    def joined(self, user: User) -> str:
        return format_time(user.date_joined)

    @override
    def own_pages(self) -> Iterable[OwnPage]:
        yield "second-factor/", second_factor_page, "second_factor"
