"""Erasing for good: what would go is counted and what stays is said before anything is done."""

from collections.abc import Mapping
from typing import Any

from django import forms
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils import timezone

from evidence.access.gate import Gate
from evidence.access.grant_text import humanize, stream_label
from evidence.access.owner_scope import owner_scope
from evidence.declarations.values import key_text
from evidence.erasure import erase_record
from evidence.models.connections import Connection, Erasure
from evidence.models.owners import current_owner, is_last_administrator
from evidence.write.erasure_orders import ErasureScope, create_erasure, get_receipt, list_receipts
from operations.erasure_text import count_rows, describe_kept, describe_scope, format_counts
from owner.permissions import owner_required
from owner.records.record_summaries import headings_of
from owner.site import link, page
from owner.text import escape_invisible, format_time

BY = "the owner, on these pages"
LATEST = 50
REFRESH_SECONDS = 3
WORD = "erase everything"
LAST_ADMINISTRATOR = (
    "You are the last administrator of the owners on this server. Make another one administrator"
    " first."
)
BUTTONS = {
    ErasureScope.RECORD: "Erase this record",
    ErasureScope.STREAM: "Erase this stream",
    ErasureScope.CONNECTION: "Erase this connection",
    ErasureScope.OWNER: "Erase everything",
}


class EraseForm(forms.Form):
    """A word where everything goes; a choice where somebody may have to be told."""

    untold = forms.BooleanField(
        label="Erase it without notifying apps",
        required=False,
        help_text="Apps that read it keep their copy unaware, and its key is not kept to tell them.",
    )
    word = forms.CharField(label=f"Type “{WORD}”", required=False)

    def __init__(self, data: Mapping[str, Any] | None, *, of: ErasureScope) -> None:
        super().__init__(data)
        self.of = of
        if of not in {ErasureScope.RECORD, ErasureScope.STREAM}:
            del self.fields["untold"]
        if of != ErasureScope.OWNER:
            del self.fields["word"]

    def clean_word(self) -> str:
        word: str = self.cleaned_data["word"]
        if word.strip().lower() != WORD:
            raise forms.ValidationError(f"Type “{WORD}” to go on.")
        if is_last_administrator(current_owner()):
            raise forms.ValidationError(LAST_ADMINISTRATOR)
        return word


@owner_required
def ask(request: HttpRequest) -> HttpResponse:
    """Asks, and once confirmed begins: a record is gone at once, anything larger is watched."""
    of, where = _wanted(request)
    form = EraseForm(request.POST if request.method == "POST" else None, of=of)
    found = count_rows(of, owner_id=current_owner(), **where)
    if request.method == "POST" and form.is_valid():
        tombstones = not form.cleaned_data.get("untold", False)
        made = _begun(of, where, tombstones=tombstones)
        return redirect(link("erasure", made.erasure_id, rows=sum(found.values())))
    context = {
        "form": form,
        "name": _name(of, where),
        **_headings(where),
        "counts": format_counts(found),
        "stays": describe_kept(of),
        "button": BUTTONS[of],
        "back": reverse("erasures")
        if of == ErasureScope.OWNER
        else reverse("connection", args=[where["connection_id"]]),
    }
    return page(request, "erasing/ask", title=BUTTONS[of], context=context)


@owner_required
def receipts_page(request: HttpRequest) -> HttpResponse:
    """What was erased, latest first."""
    labels = _labels()
    lines = [_lines(each, labels) for each in list_receipts(current_owner(), most=LATEST)]
    context = {"receipts": lines, "everything_url": link("erase", of=ErasureScope.OWNER.value)}
    return page(request, "erasing/receipts", title="Erased records", context=context)


@owner_required
def watch(request: HttpRequest, erasure_id: str) -> HttpResponse:
    """How far an erasure is, and then its receipt."""
    erasure = get_receipt(erasure_id, owner_id=current_owner())
    if erasure is None:
        raise Http404
    # The address says how many rows there were when it began.
    said, percent = request.GET.get("rows", ""), 0 if erasure.finished_at is None else 100
    total = int(said) if said.isascii() and said.isdigit() and len(said) < 16 else 0
    if erasure.finished_at is None and total:
        percent = min(99, sum(erasure.removed.values()) * 100 // total)
    context = {
        "erasure": _lines(erasure, _labels()),
        "percent": percent,
        "seconds": REFRESH_SECONDS,
    }
    title = "Erasing" if erasure.finished_at is None else "Erased"
    return page(request, "erasing/progress", title=title, context=context)


def _begun(of: ErasureScope, where: Mapping[str, str], *, tombstones: bool) -> Erasure:
    now = timezone.now()
    if of == ErasureScope.RECORD:
        return erase_record(
            where["connection_id"], stream=where["stream"], record_key=where["record_key"],
            owner_id=current_owner(), by=BY, now=now, tombstones=tombstones,
        )  # fmt: skip
    return create_erasure(
        of, owner_id=current_owner(), by=BY, now=now, tombstones=tombstones,
        connection_id=where.get("connection_id", ""), stream=where.get("stream", ""),
    )  # fmt: skip


def _wanted(request: HttpRequest) -> tuple[ErasureScope, dict[str, str]]:
    """What the address names; anything else is no page."""
    said = {
        "connection_id": request.GET.get("connection", ""),
        "stream": request.GET.get("stream", ""),
        "record_key": request.GET.get("key", ""),
    }
    needed = {
        ErasureScope.OWNER: (),
        ErasureScope.CONNECTION: ("connection_id",),
        ErasureScope.STREAM: ("connection_id", "stream"),
        ErasureScope.RECORD: ("connection_id", "stream", "record_key"),
    }
    if (named := request.GET.get("of", "")) not in ErasureScope.values:
        raise Http404
    where = {name: said[name] for name in needed[ErasureScope(named)]}
    if not all(where.values()) or any("\0" in each for each in where.values()):
        raise Http404
    if where and not Connection.unscoped.filter(pk=where["connection_id"]).exists():
        raise Http404
    return ErasureScope(named), where


def _name(of: ErasureScope, where: Mapping[str, str]) -> str:
    if of == ErasureScope.OWNER:
        return "Everything that is stored here"
    label = Connection.unscoped.get(pk=where["connection_id"]).label
    parts = [label]
    if "stream" in where:
        held = Gate(owner_scope(current_owner())).streams(connection_id=where["connection_id"])
        labels = {each.stream.name: stream_label(each.stream) for each in held}
        parts.append(labels.get(where["stream"]) or humanize(where["stream"]))
    if "record_key" in where:
        parts.append(escape_invisible(where["record_key"]))
    return ": ".join(parts)


def _headings(where: Mapping[str, str]) -> dict[str, list[str]]:
    """Return what pages call a record, and the records that contain it, such as its mail."""
    if "record_key" not in where:
        return {}
    gate = Gate(owner_scope(current_owner()))
    headings = headings_of(gate, **where, route="erase")
    if not headings:
        return {}
    [record] = gate.stream(where["stream"], connection_id=where["connection_id"]).get(
        where["record_key"]
    )
    parents = [
        heading
        for stream, foreign_key in _parents(gate, where)
        if (key := key_text(record.data.get(foreign_key))) is not None
        for heading in headings_of(gate, where["connection_id"], stream, key, route="erase")
    ]
    return {"headings": headings, "parents": parents}


def _parents(gate: Gate, where: Mapping[str, str]) -> set[tuple[str, str]]:
    """Return stream and foreign key of what contains records; either side may declare the relation."""
    found = set()
    for each in gate.streams(connection_id=where["connection_id"]):
        for relation in each.stream.relations.values():
            if each.stream.name == where["stream"] and relation.cardinality == "has_one":
                found.add((relation.stream, relation.foreign_key))
            if relation.stream == where["stream"] and relation.cardinality == "has_many":
                found.add((each.stream.name, relation.foreign_key))
    return found


def _labels() -> dict[str, str]:
    return {connection.pk: connection.label for connection in Connection.unscoped.all()}


def _lines(erasure: Erasure, labels: Mapping[str, str]) -> dict[str, str]:
    """Return a receipt in words. `labels` are the names of connections that are still there."""
    what, connection_id = describe_scope(erasure), erasure.connection_id or ""
    if connection_id in labels:
        what = what.replace(connection_id, f"“{labels[connection_id]}”")
    return {
        "id": erasure.erasure_id,
        "what": what,
        "by": erasure.by,
        "wanted": format_time(erasure.wanted_at),
        "finished": format_time(erasure.finished_at, never=""),
        "removed": ", ".join(format_counts(erasure.removed)) or "nothing yet",
        "kept": ", ".join(format_counts(erasure.kept)),
    }
