"""What every page of the owner has in common: closed, unless a page says what may be done."""

from collections.abc import Mapping
from typing import Any, TypeVar

from django.contrib.admin import ModelAdmin, ShowFacets
from django.db.models import Model
from django.http import HttpRequest
from django.template.response import TemplateResponse
from django.utils import timezone
from typing_extensions import override

from evidence.admin.site import owner_site
from evidence.consent.owners_only import is_owner
from evidence.models.owners import Owner, the_owner

Row = TypeVar("Row", bound=Model)


class OwnerAdmin(ModelAdmin[Row]):
    """Only the owner sees anything; nobody adds, changes or deletes unless a subclass says so."""

    show_facets = ShowFacets.NEVER
    list_per_page = 50

    @override
    def has_module_permission(self, request: HttpRequest) -> bool:
        return is_owner(request.user)

    @override
    def has_view_permission(self, request: HttpRequest, obj: Row | None = None) -> bool:
        return is_owner(request.user)

    @override
    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    @override
    def has_change_permission(self, request: HttpRequest, obj: Row | None = None) -> bool:
        return False

    @override
    def has_delete_permission(self, request: HttpRequest, obj: Row | None = None) -> bool:
        return False


def page(
    request: HttpRequest, name: str, *, title: str, context: Mapping[str, Any], status: int = 200
) -> TemplateResponse:
    """A page of our own inside the site."""
    everywhere = owner_site.each_context(request)
    return TemplateResponse(
        request,
        f"admin/evidence/{name}.html",
        {**everywhere, "title": title, **context},
        status=status,
    )


def named(row: Model | None) -> dict[str, Any]:
    """What the page to change a row needs: its name on top, and one button to save it."""
    one_button = {"show_save_and_add_another": False, "show_save_and_continue": False}
    return one_button if row is None else {**one_button, "title": getattr(row, "display_name", "")}


def owner() -> Owner:
    """Whose records these pages are about."""
    return the_owner(timezone.now())
