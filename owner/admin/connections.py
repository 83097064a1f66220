"""Connections can be renamed, paused and revoked. Imports create them."""

from typing import Any

from django import forms
from django.contrib.admin import display, register
from django.contrib.admin.utils import unquote
from django.db.models import OuterRef, QuerySet, Subquery, Sum
from django.db.models.functions import Coalesce
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString
from typing_extensions import override

from evidence import limits
from evidence.errors import InvalidRequest
from evidence.models.connections import Connection, StreamState
from evidence.models.owners import current_owner
from evidence.write.connections import is_name_taken, set_languages, validate_identities
from evidence.write.erasure_orders import ErasureScope
from owner.form_fields import PlainForm, language_choices, set_choices, validate_printable
from owner.records import connection_streams, erasure_pages
from owner.records.connection_streams import stream_lines
from owner.site import OwnerAdmin, named, owner_site
from owner.text import pluralize, with_code

Status = Connection.Status
MEANINGS = {
    Status.DRAFT: "Draft: no records yet. The first record makes it active.",
    Status.ACTIVE: "Active: it receives new records, and grants can read it.",
    Status.PAUSED: "Paused: no new records are fetched. Stored records can be read,"
    " and you can import files.",
    Status.REVOKED: "Revoked: it receives no records, and no grant can read it."
    " Its records stay stored and return when you make it active again.",
}


class ConnectionForm(PlainForm[Connection]):
    display_name = forms.CharField(
        label="Name",
        max_length=limits.LABEL_MAX_CHARS,
        help_text="Apps see this name too.",
        widget=forms.TextInput(attrs={"size": 40}),
    )
    languages = forms.MultipleChoiceField(
        label="Languages",
        required=False,
        widget=forms.CheckboxSelectMultiple,
        help_text="The languages of its texts. A search for one form of a word finds its other"
        " forms. After a change, stored texts are indexed again in the background; until then,"
        " searches show a warning and may miss some forms.",
    )
    identities = forms.CharField(
        label="Your addresses or user ids",
        required=False,
        widget=forms.Textarea(attrs={"rows": 3, "cols": 40}),
        help_text="One per line. Apps learn from them which records you wrote. All other"
        " records count as written by others.",
    )
    status = forms.ChoiceField(label="Status", widget=forms.RadioSelect)

    class Meta:
        model = Connection
        fields = ("display_name", "languages", "identities", "status")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        set_choices(self, "languages", language_choices(self.instance.languages))
        self.initial["identities"] = "\n".join(self.instance.identities)
        offered = [s for s in Status if s != Status.DRAFT or self.instance.status == Status.DRAFT]
        set_choices(self, "status", [(each.value, MEANINGS[each]) for each in offered])

    def clean_display_name(self) -> str:
        name = validate_printable(self.cleaned_data["display_name"])
        connection = self.instance
        if is_name_taken(name, owner_id=current_owner(), connection_id=connection.pk):
            raise forms.ValidationError("Another connection has this name. Choose another.")
        return name

    def clean_identities(self) -> list[str]:
        try:
            return validate_identities(self.cleaned_data["identities"].splitlines())
        except InvalidRequest as refusal:
            raise forms.ValidationError(refusal.message) from refusal


@register(Connection, site=owner_site)
class ConnectionAdmin(OwnerAdmin[Connection]):
    list_title = "Connections"
    about = with_code(
        "A connection is one account or device, such as a mailbox. An import creates one."
        " On the server, {} creates one and {} adds records.",
        "manage.py connect SOURCE --name NAME",
        "manage.py ingest FILE",
    )
    form = ConnectionForm
    list_display = ("name", "source_name", "holds", "state")
    list_select_related = ("source",)
    search_fields = ("display_name", "source__display_name", "connection_id")
    search_help_text = "Search by name, source or id"
    ordering = ("display_name", "pk")
    change_form_template = "admin/evidence/connection.html"

    @override
    def has_change_permission(self, request: HttpRequest, obj: Connection | None = None) -> bool:
        return self.has_view_permission(request, obj)

    @override
    def get_queryset(self, request: HttpRequest) -> QuerySet[Connection]:
        states = StreamState.unscoped.filter(connection=OuterRef("pk")).values("connection")
        total = Subquery(states.annotate(total=Sum("record_count")).values("total"))
        return super().get_queryset(request).annotate(total=Coalesce(total, 0))

    @display(description="name", ordering="display_name")
    def name(self, connection: Connection) -> str:
        return connection.label

    @display(description="source", ordering="source__display_name")
    def source_name(self, connection: Connection) -> str:
        return str(connection.source.display_name)

    @display(description="holds", ordering="total")
    def holds(self, connection: Connection) -> str:
        return pluralize(vars(connection)["total"], "record")

    @display(description="status", ordering="status")
    def state(self, connection: Connection) -> SafeString:
        word = MEANINGS[Status(connection.status)].partition(":")[0]
        return format_html('<span class="state state-{}">{}</span>', connection.status, word)

    @override
    def row_page(self, request: HttpRequest, object_id: str) -> HttpResponse:
        connection_id = unquote(object_id)
        connection = self.get_object(request, connection_id)
        lines = [] if connection is None else stream_lines(connection)
        context = {
            "stream_lines": lines,
            "erase_url": erasure_pages.url(ErasureScope.CONNECTION, connection_id=connection_id),
            "keep_url": connection_streams.url(connection_id),
            **named(connection),
        }
        return self.form_page(request, object_id, context)

    @override
    def save_model(self, request: HttpRequest, obj: Connection, form: Any, change: bool) -> None:
        obj.updated_at = timezone.now()
        if "display_name" in form.changed_data:
            obj.labelled_by_owner = True
        obj.save(
            update_fields=[
                "display_name",
                "labelled_by_owner",
                "identities",
                "status",
                "updated_at",
            ]
        )
        if "languages" in form.changed_data:
            set_languages(obj.pk, languages=obj.languages, now=obj.updated_at)
