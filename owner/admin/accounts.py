"""Accounts that can sign in, read-only."""

from collections.abc import Iterable

from django.contrib.admin import display, register
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from typing_extensions import override

from owner.accounts.second_factor_views import second_factor_page
from owner.permissions import is_owner
from owner.site import OwnerAdmin, OwnPage, owner_site
from owner.text import format_time, with_code


@register(User, site=owner_site)
class AccountAdmin(OwnerAdmin[User]):
    list_title = "Accounts"
    about = with_code(
        "Who can sign in here, and who sees the records."
        " After a lost password or phone, run {} on the server.",
        "manage.py setup-link",
    )
    list_display = ("name", "may_sign_in", "sees_records", "signed_in")
    list_display_links = None
    ordering = ("username",)
    # Django's own fields explain themselves in technical words.
    fields = readonly_fields = (*list_display, "joined")

    @display(description="name", ordering="username")
    def name(self, user: User) -> str:
        return user.username

    @display(description="can sign in", ordering="is_active")
    def may_sign_in(self, user: User) -> str:
        return "yes" if user.is_active else "no"

    @display(description="sees records", ordering="is_superuser")
    def sees_records(self, user: User) -> str:
        return "yes" if is_owner(user) else "no"

    @display(description="last sign-in", ordering="last_login")
    def signed_in(self, user: User) -> str:
        return format_time(user.last_login)

    @display(description="created", ordering="date_joined")
    def joined(self, user: User) -> str:
        return format_time(user.date_joined)

    @override
    def row_page(self, request: HttpRequest, object_id: str) -> HttpResponse:
        title = self.get_or_404(request, object_id).username
        return self.form_page(request, object_id, {"title": title})

    @override
    def own_pages(self) -> Iterable[OwnPage]:
        yield "second-factor/", second_factor_page, "second_factor"
