"""Connections: a list, a page to change one, how long records are kept, disk use, and collectors."""

from collections.abc import Mapping
from typing import Any

from django import forms
from django.contrib import messages
from django.db.models import OuterRef, QuerySet, Subquery, Sum
from django.db.models.functions import Coalesce
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils import timezone

from evidence import limits
from evidence.access.grant_states import connection_labels
from evidence.access.grant_text import humanize, stream_label
from evidence.access.tokens import create_collector, list_collectors, revoke_collector
from evidence.declarations.declaration import StreamDeclaration
from evidence.errors import InvalidRequest
from evidence.models.connections import Connection, StreamState
from evidence.models.owners import current_owner
from evidence.models.sources import load_declarations
from evidence.write.connections import is_name_taken, set_languages, validate_identities
from evidence.write.disk_usage import disk_usage
from evidence.write.erasure_orders import ErasureScope
from evidence.write.retention import MAX_DAYS, retention_periods, set_retention
from evidence.write.targets import connection_targets
from owner.form_fields import PlainForm, language_choices, set_choices, validate_printable
from owner.permissions import owner_reads, owner_required
from owner.records.record_summaries import stream_url
from owner.site import Question, confirmation, is_confirmed, link, owner, page
from owner.text import format_time, pluralize

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
    replaces = forms.BooleanField(
        label="Replace records of streams that only grow",
        required=False,
        help_text="A collector may send a record again after it changed. Without this, the stored"
        " record stays, and the collector gets a receipt.",
    )
    status = forms.ChoiceField(label="Status", widget=forms.RadioSelect)

    class Meta:
        model = Connection
        fields = ("display_name", "languages", "identities", "replaces", "status")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        set_choices(self, "languages", language_choices(self.instance.languages))
        if not any(target.is_append_only for target in connection_targets(self.instance)):
            del self.fields["replaces"]
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


def connections_with_totals() -> QuerySet[Connection]:
    """Return the owner's connections by name; ``total`` is how many records each holds."""
    states = StreamState.unscoped.filter(connection=OuterRef("pk")).values("connection")
    total = Subquery(states.annotate(total=Sum("record_count")).values("total"))
    own = Connection.unscoped.filter(owner_id=current_owner()).select_related("source")
    return own.annotate(total=Coalesce(total, 0)).order_by("display_name", "pk")


@owner_required
def connections_page(request: HttpRequest) -> HttpResponse:
    """List all connections with their source, records and status."""
    context = {"here": "connections", "connections": connections_with_totals()}
    return render(request, "owner/connections/list.html", context)


@owner_required
def connection_page(request: HttpRequest, connection_id: str) -> HttpResponse:
    """Show what a connection holds, and a form to change it."""
    connection = get_object_or_404(connections_with_totals(), pk=connection_id.replace("\0", ""))
    name = connection.label
    form = ConnectionForm(request.POST or None, instance=connection)
    if form.is_valid():
        _save(form)
        messages.success(request, "Saved.")
        return redirect("connection", connection.pk)
    context = {
        "here": "connections",
        "name": name,
        "connection": connection,
        "form": form,
        "stream_lines": stream_lines(connection),
        "erase_url": link("erase", of=ErasureScope.CONNECTION.value, connection=connection.pk),
        "keep_url": link("retention", connection=connection.pk),
    }
    return render(request, "owner/connections/connection.html", context)


def _save(form: ConnectionForm) -> None:
    connection = form.instance
    connection.updated_at = timezone.now()
    if "display_name" in form.changed_data:
        connection.labelled_by_owner = True
    changed = [name for name in ("identities", "replaces", "status") if name in form.fields]
    connection.save(update_fields=["display_name", "labelled_by_owner", *changed, "updated_at"])
    if "languages" in form.changed_data:
        set_languages(connection.pk, languages=connection.languages, now=connection.updated_at)


def stream_lines(connection: Connection) -> list[dict[str, str]]:
    """Return every declared stream, and any that is stored though nothing declares it any more.

    ``url`` is empty where there is nothing to look at, ``erase_url`` where nothing was ever stored.
    """
    states = {
        state.stream: state
        for state in StreamState.unscoped.filter(connection=connection).order_by("stream")
    }
    streams = _declared(connection)
    is_shown = connection.status != Connection.Status.REVOKED
    lines = []
    for name in [*streams, *(name for name in states if name not in streams)]:
        stream, state = streams.get(name), states.get(name)
        where = {"connection": connection.pk, "stream": name}
        lines.append({
            "label": humanize(name) if stream is None else stream_label(stream),
            "detail": "no longer declared" if stream is None
            else stream.detail or stream.description or "",
            "holds": pluralize(0 if state is None else state.record_count, "record"),
            "latest": format_time(None if state is None else state.latest_emitted_at, never=""),
            "url": stream_url(connection.pk, name) if is_shown and stream is not None else "",
            "erase_url": "" if state is None else link("erase", of=ErasureScope.STREAM.value, **where),
        })  # fmt: skip
    return lines


def _declared(connection: Connection) -> dict[str, StreamDeclaration]:
    current = connection.source.current_declaration_id
    return (
        {} if current is None else dict(load_declarations([current])[current].declaration.streams)
    )


ALL = ""


class KeepForm(forms.Form):
    """A field for each stream, and a first one for those that have no number of their own."""

    def __init__(
        self, data: Mapping[str, Any] | None, *, streams: Mapping[str, str], kept: Mapping[str, int]
    ) -> None:
        super().__init__(data)
        self.streams = [ALL, *streams]
        for number, name in enumerate(self.streams):
            self.fields[f"days_{number}"] = forms.IntegerField(
                label=streams.get(name, "All streams without their own number"),
                required=False,
                min_value=1,
                max_value=MAX_DAYS,
                initial=kept.get(name),
                help_text="Days. Leave empty to keep all." if name == ALL else "",
            )

    @property
    def days(self) -> dict[str, int | None]:
        """stream -> days, once the form holds."""
        said = self.cleaned_data
        return {name: said[f"days_{number}"] for number, name in enumerate(self.streams)}


OLDER_ERASED = "Older records are erased within the hour, and every hour after."


@owner_required
def keep(request: HttpRequest) -> HttpResponse:
    """Shows the periods, and sets them."""
    connection_id = request.GET.get("connection", "").replace("\0", "")
    connection = Connection.unscoped.filter(pk=connection_id).first()
    if connection is None:
        raise Http404
    data = request.POST if request.method == "POST" else None
    form = KeepForm(data, streams=_streams(connection), kept=retention_periods(connection.pk))
    if data is not None and form.is_valid():
        for stream, days in form.days.items():
            set_retention(connection.pk, stream=stream, days=days, now=timezone.now())
        is_limited = any(form.days.values())
        messages.success(request, OLDER_ERASED if is_limited else "All records are kept.")
        return redirect("connection", connection.pk)
    context = {
        "here": "connections",
        "form": form,
        "connection": connection,
        "back": reverse("connection", args=[connection.pk]),
    }
    title = f"How long {connection.display_name} is kept"
    return page(request, "records/keep", title=title, context=context)


def _streams(connection: Connection) -> dict[str, str]:
    """Declared streams by name, and what they are called."""
    stored = retention_periods(connection.pk)
    named = {name: stream_label(stream) for name, stream in _declared(connection).items()}
    return {name: humanize(name) for name in stored if name and name not in named} | named


@owner_reads
def storage_page(request: HttpRequest) -> HttpResponse:
    usage = disk_usage()
    sources: dict[str, list[dict[str, Any]]] = {}
    for connection in Connection.unscoped.select_related("source"):
        kinds = ("records", "files", "index")
        sizes = {kind: getattr(usage, kind)[connection.pk] for kind in kinds}
        line = {"name": connection.display_name, "is_demo": connection.demo, **sizes}
        line["total"] = sum(sizes.values())
        sources.setdefault(connection.source.display_name, []).append(line)
    groups: list[dict[str, Any]] = [
        {
            "source": name,
            "total": sum(line["total"] for line in lines),
            "connections": sorted(lines, key=lambda line: (-line["total"], line["name"])),
        }
        for name, lines in sources.items()
    ]
    groups.sort(key=lambda group: (-group["total"], group["source"]))
    lines = [line for group in groups for line in group["connections"]]
    context = {
        "here": "storage",
        "total": usage.total,
        "limit": owner().disk_limit_bytes,
        "groups": groups,
        "largest": max((line["total"] for line in lines), default=0) or 1,
    }
    return render(request, "owner/storage.html", context)


class WritableConnectionsForm(forms.Form):
    """The connections that a collector may write to."""

    connections = forms.MultipleChoiceField(
        label="May write to",
        widget=forms.CheckboxSelectMultiple,
        error_messages={"required": "Choose a connection."},
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        own = Connection.unscoped.exclude(status=Connection.Status.REVOKED)
        rows = own.select_related("source").order_by("display_name", "pk")
        labels = [
            (each.pk, ", ".join(dict.fromkeys((each.label, each.source.display_name))))
            for each in rows
        ]
        set_choices(self, "connections", labels)


class CollectorForm(WritableConnectionsForm):
    name = forms.CharField(
        max_length=limits.LABEL_MAX_CHARS,
        help_text="Such as the program and the machine it runs on.",
    )

    def clean_name(self) -> str:
        return validate_printable(self.cleaned_data["name"])


@owner_required
def collectors_page(request: HttpRequest) -> HttpResponse:
    """List collectors, and add one: its token is shown once."""
    form = CollectorForm(request.POST or None)
    token = None
    if form.is_valid():
        chosen = form.cleaned_data
        token = create_collector(chosen["name"], chosen["connections"], now=timezone.now())
        form = CollectorForm()
    labels = connection_labels(current_owner())
    collectors = [
        {
            "id": row.pk,
            "name": row.name,
            "places": [labels.get(each, each) for each in row.connection_ids],
            "created": format_time(row.created_at),
            "used": format_time(row.used_at, never="never"),
        }
        for row in list_collectors()
    ]
    context = {"here": "connections", "form": form, "token": token, "collectors": collectors}
    return render(request, "owner/connections/collectors.html", context)


@owner_required
def revoke_collector_page(request: HttpRequest, collector_id: str) -> HttpResponse:
    """Revoke a collector, after a confirmation."""
    row = next((each for each in list_collectors() if each.pk == collector_id), None)
    if row is None:
        raise Http404
    if is_confirmed(request):
        revoke_collector(row.pk, now=timezone.now())
        messages.success(request, "Revoked. Its token stops working now; what it stored stays.")
        return redirect("collectors")
    question = Question(
        title="Revoke this collector?",
        explanation="Its token stops working now; this cannot be undone. What it stored stays.",
        items={row.pk: row.name},
        button="Revoke",
        back=reverse("collectors"),
    )
    return confirmation(request, question, here="connections")
