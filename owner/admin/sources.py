"""Sources with their declarations, and connections, read-only."""

from dataclasses import dataclass

from django.contrib.admin import display, register
from django.http import HttpRequest, HttpResponse
from typing_extensions import override

from evidence.access.grant_text import field_detail, field_label, stream_label
from evidence.declarations.declaration import Field, StreamDeclaration
from evidence.models.connections import Connection
from evidence.models.sources import Source, SourceDeclaration, load_declarations
from owner.site import OwnerAdmin, owner_site, page
from owner.text import with_code


@dataclass(frozen=True, slots=True)
class FieldRow:
    label: str
    name: str
    detail: str
    uses: str


@dataclass(frozen=True, slots=True)
class StreamRows:
    label: str
    stream: StreamDeclaration
    facts: tuple[str, ...]
    fields: tuple[FieldRow, ...]


@register(Source, site=owner_site)
class SourceAdmin(OwnerAdmin[Source]):
    list_title = "Sources"
    about = with_code(
        "A source declares the streams and fields of its connections."
        " {} on the server declares a new one.",
        "manage.py declare FILE",
    )
    list_display = ("name", "short_name", "version", "streams")
    list_select_related = ("current_declaration",)
    search_fields = ("display_name", "connector_key")
    search_help_text = "Search by name"
    ordering = ("display_name", "pk")

    @display(description="name", ordering="display_name")
    def name(self, source: Source) -> str:
        return source.display_name

    @display(description="short name", ordering="connector_key")
    def short_name(self, source: Source) -> str:
        return source.connector_key

    @display(description="version")
    def version(self, source: Source) -> str:
        current = source.current_declaration
        return current.version if current is not None else "not declared"

    @display(description="streams")
    def streams(self, source: Source) -> str:
        return ", ".join(stream_label(stream) for stream in declared_streams(source))

    @override
    def row_page(self, request: HttpRequest, object_id: str) -> HttpResponse:
        source = self.get_or_404(request, object_id)
        context = {
            "source": source,
            "streams": [_rows(stream) for stream in declared_streams(source)],
            "connections": Connection.unscoped.filter(source=source).order_by(
                "display_name", "connection_id"
            ),
            "versions": SourceDeclaration.unscoped.filter(source=source)
            .order_by("-revision")
            .only("version", "revision", "created_at"),
        }
        return page(request, "expert/source", title=source.display_name, context=context)


@register(Connection, site=owner_site)
class ConnectionAdmin(OwnerAdmin[Connection]):
    list_title = "Connections"
    list_display = ("connection_id", "display_name", "source", "status", "created_at")
    list_select_related = ("source",)
    search_fields = ("display_name", "source__display_name", "connection_id")
    ordering = ("display_name", "pk")


def declared_streams(source: Source) -> list[StreamDeclaration]:
    """The streams of the source's current declaration; none where it has none."""
    current = source.current_declaration_id
    if current is None:
        return []
    return list(load_declarations([current])[current].declaration.streams.values())


def _rows(stream: StreamDeclaration) -> StreamRows:
    fields = tuple(
        FieldRow(
            field_label(field, stream.fields), field.name, field_detail(field), _uses(field, stream)
        )
        for field in stream.fields.values()
    )
    return StreamRows(stream_label(stream), stream, tuple(_facts(stream)), fields)


def _facts(stream: StreamDeclaration) -> list[str]:
    changes = (
        "Records are only added."
        if stream.semantics == "append_only"
        else "Records may change later."
    )
    time_field = stream.consent_time_field
    by_time = (
        f"Access can be limited by time, using “{field_label(stream.fields[time_field], stream.fields)}”."
        if time_field is not None
        else "Access cannot be limited by time."
    )
    by_field = (
        "Access can be given to single fields."
        if stream.selection_fields
        else "Access is given to all fields or none."
    )
    return [changes, by_time, by_field]


def _uses(field: Field, stream: StreamDeclaration) -> str:
    uses = {
        "identifies the record": field.name in stream.primary_key,
        "puts records in order": field.name == stream.cursor_field,
        "limits access in time": field.name == stream.consent_time_field,
        "found by search": field.lexical,
    }
    return ", ".join(use for use, holds in uses.items() if holds)
