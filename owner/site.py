"""The site that holds the owner's administration."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

from django.contrib import messages
from django.contrib.admin import AdminSite, ModelAdmin, ShowFacets
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.admin.models import LogEntry
from django.contrib.admin.utils import quote, unquote
from django.contrib.auth import REDIRECT_FIELD_NAME
from django.contrib.auth.views import redirect_to_login
from django.db.models import Model, QuerySet
from django.forms import ModelForm
from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, URLResolver, path, reverse
from typing_extensions import override

from evidence.models.owners import Owner, current_owner
from owner.form_fields import PlainForm
from owner.permissions import View, is_owner, with_security_headers


@dataclass(frozen=True, slots=True)
class Entry:
    """One page. ``view`` is its name in the URLs of the admin."""

    title: str
    text: str
    view: str

    @property
    def url(self) -> str:
        return reverse(f"admin:{self.view}")


@dataclass(frozen=True, slots=True)
class Section:
    title: str
    entries: tuple[Entry, ...]


WHO_MAY_READ = (
    Entry(
        "Grants",
        "Who may read what, and until when. Revoke any of it at once.",
        "evidence_grant_changelist",
    ),
    Entry(
        "Tokens",
        "The keys that were handed out. Revoke one that was lost.",
        "evidence_accesstoken_changelist",
    ),
    Entry(
        "Apps",
        "What signs in to read, by the names that you chose.",
        "evidence_client_changelist",
    ),
)
YOUR_RECORDS = (
    Entry(
        "Connections",
        "Your mailboxes, accounts and devices: names, languages, retention, erasing.",
        "evidence_connection_changelist",
    ),
    Entry(
        "Sources",
        "What each kind of connection can hold, field by field.",
        "evidence_source_changelist",
    ),
)
SECTIONS = (
    Section("Who may read", WHO_MAY_READ),
    Section("Your records", YOUR_RECORDS),
)


class OwnerSite(AdminSite):
    site_header = "PDPP"
    site_title = "PDPP"
    index_title = "Admin"
    index_template = "owner/expert/index.html"
    password_change_template = "owner/accounts/password.html"  # noqa: S105 - a template
    password_change_done_template = password_change_template
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
    return redirect_to_login(request.GET.get(REDIRECT_FIELD_NAME) or reverse("admin:index"))


owner_site = OwnerSite(name="admin")


Row = TypeVar("Row", bound=Model)
OwnPage: TypeAlias = tuple[str, Callable[..., HttpResponseBase], str]
"""Path, view and name of a page."""


class OwnerAdmin(ModelAdmin[Row]):
    """Only the owner sees anything; nobody adds, changes or deletes unless a subclass says so."""

    form: type[ModelForm[Row]] = PlainForm
    show_facets = ShowFacets.NEVER
    list_per_page = 50
    list_title = ""
    about = ""
    """The explanation above the list."""

    def own_pages(self) -> Iterable[OwnPage]:
        """Return the pages besides Django's."""
        return ()

    @override
    def get_urls(self) -> list[URLPattern]:
        added = [
            path(route, self.admin_site.admin_view(view), name=name)
            for route, view, name in self.own_pages()
        ]
        # Changes are not logged, so Django's history would always be empty.
        given = [each for each in super().get_urls() if not str(each.name).endswith("_history")]
        return [*added, *given]

    @override
    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        if "index" in request.POST and ACTION_CHECKBOX_NAME not in request.POST:
            messages.error(request, "Nothing is selected. Tick at least one first.")
            return redirect(request.get_full_path())
        shown = {"title": self.list_title, "about": self.about}
        return super().changelist_view(request, {**shown, **(extra_context or {})})

    @override
    def change_view(
        self,
        request: HttpRequest,
        object_id: str,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        return self.row_page(request, object_id)

    def row_page(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Return the page of one row."""
        return self.form_page(request, object_id, {})

    def form_page(
        self, request: HttpRequest, object_id: str | None, context: dict[str, Any]
    ) -> HttpResponse:
        """Return Django's form for a row, or for a new one."""
        return self.changeform_view(request, object_id, extra_context=context)

    def get_or_404(self, request: HttpRequest, object_id: str) -> Row:
        """Return the row that the address of a page names."""
        row = self.get_object(request, unquote(object_id))
        if row is None:
            raise Http404
        return row

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
    """Return a page of the owner's whose address is below the admin's."""
    shown = {"title": title, **context}
    return TemplateResponse(request, f"owner/{name}.html", shown, status=status)


def named(row: Model | None) -> dict[str, Any]:
    """What the page to change a row needs: its name on top, and one button to save it."""
    one_button = {"show_save_and_add_another": False, "show_save_and_continue": False}
    return one_button if row is None else {**one_button, "title": getattr(row, "display_name", "")}


def owner() -> Owner:
    """Return the owner who is signed in."""
    return Owner.unscoped.get(pk=current_owner())


CONFIRMED = "confirmed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """``items`` are what will end, by id; ``explanation`` says what that means."""

    title: str
    explanation: str
    items: Mapping[str, str]
    button: str
    back: str


def is_confirmed(request: HttpRequest) -> bool:
    return request.method == "POST" and CONFIRMED in request.POST


def confirmation(
    request: HttpRequest, question: Question, *, action: str | None = None
) -> TemplateResponse:
    """Asks. ``action`` is set where the question comes from a list of which some were selected."""
    repeated: Iterable[tuple[str, str]] = ()
    if action is not None:
        selected = [(ACTION_CHECKBOX_NAME, each) for each in question.items]
        repeated = [("action", action), *selected]
    context = {"question": question, "repeated": repeated, "confirmed": CONFIRMED}
    return page(request, "expert/confirm", title=question.title, context=context)


def grant_url(view: str, grant_id: str) -> str:
    return reverse(f"admin:evidence_grant_{view}", args=[quote(grant_id)])
