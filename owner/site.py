"""The Django admin, and what it shares with the owner's pages: rendering and questions before an end."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from django.contrib.admin import AdminSite, ModelAdmin, ShowFacets
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.admin.models import LogEntry
from django.contrib.auth import REDIRECT_FIELD_NAME
from django.contrib.auth.views import redirect_to_login
from django.db.models import Model, QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import URLPattern, URLResolver, reverse
from typing_extensions import override

from evidence.models.owners import Owner, current_owner
from owner.permissions import View, is_owner, with_security_headers


class OwnerSite(AdminSite):
    site_header = "PDPP"
    site_title = "PDPP"
    index_title = "Admin"
    site_url = None
    enable_nav_sidebar = False

    @override
    def get_urls(self) -> list[URLResolver | URLPattern]:
        # No row here has a page elsewhere, and looking one up fails for keys that are bytes.
        return [each for each in super().get_urls() if getattr(each, "name", "") != "view_on_site"]

    @override
    def has_permission(self, request: HttpRequest) -> bool:
        return is_owner(request.user)

    @override
    def admin_view(self, view: View, cacheable: bool = False) -> View:
        # Nothing here may be kept by a browser, not even what Django deems cacheable.
        return with_security_headers(super().admin_view(view, cacheable=False))

    @override
    def login(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """There is one page to sign in on, and one place that counts who fails there."""
        return with_security_headers(_to_sign_in)(request)

    @override
    def get_log_entries(self, request: HttpRequest) -> QuerySet[LogEntry]:
        return LogEntry.objects.none()


def _to_sign_in(request: HttpRequest) -> HttpResponse:
    return redirect_to_login(request.GET.get(REDIRECT_FIELD_NAME) or reverse("admin:index"))


owner_site = OwnerSite(name="admin")


Row = TypeVar("Row", bound=Model)


class OwnerAdmin(ModelAdmin[Row]):
    """Only the owner sees anything; nobody adds, changes or deletes unless a subclass says so."""

    show_facets = ShowFacets.NEVER
    list_per_page = 50

    @override
    def get_urls(self) -> list[URLPattern]:
        # Changes are not logged, so Django's history would always be empty.
        return [each for each in super().get_urls() if not str(each.name).endswith("_history")]

    @override
    def get_queryset(self, request: HttpRequest) -> QuerySet[Row]:
        return super().get_queryset(request).filter(owner_id=current_owner())

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
    """Return a page of `owner/`, by the name of its template."""
    shown = {"title": title, **context}
    return TemplateResponse(request, f"owner/{name}.html", shown, status=status)


def owner() -> Owner:
    """Return the owner who is signed in."""
    return Owner.unscoped.get(pk=current_owner())


CONFIRMED = "confirmed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """``items`` are what will end, by id; ``explanation`` says what that means."""

    title: str
    explanation: str
    items: Mapping[Any, str]
    button: str
    back: str
    is_final: bool = True
    """Whether the button takes something away for good."""


def is_confirmed(request: HttpRequest) -> bool:
    return request.method == "POST" and CONFIRMED in request.POST


def confirmation(
    request: HttpRequest, question: Question, *, action: str | None = None, here: str = ""
) -> TemplateResponse:
    """Asks. ``action`` is set where the question comes from a list of which some were selected."""
    repeated: Iterable[tuple[str, str]] = ()
    if action is not None:
        selected = [(ACTION_CHECKBOX_NAME, each) for each in question.items]
        repeated = [("action", action), *selected]
    context = {"question": question, "repeated": repeated, "confirmed": CONFIRMED, "here": here}
    return page(request, "expert/confirm", title=question.title, context=context)


def grant_url(grant_id: str, page: str = "grant") -> str:
    """Return the address of the page of a grant, or of another page that takes its id."""
    return reverse(page, args=[grant_id])


def link(name: str, *args: object, **query: object) -> str:
    """Return the address of a page; parameters that are empty are left out."""
    chosen = {name: str(value) for name, value in query.items() if value not in (None, "")}
    return reverse(name, args=args, query=chosen or None)
