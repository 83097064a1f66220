"""What was disclosed: to whom, when, how much, and who has seen one record."""

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any
from urllib.parse import urlencode

from django import forms
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.urls import reverse
from django.utils import timezone

from evidence.access.owner_notices import REFUSED_CALL_RETENTION, refused_calls
from evidence.ledger.disclosures import (
    DayTotals,
    DisclosureEntry,
    Disclosures,
    all_disclosures,
    daily_totals,
    disclosures_of_record,
    filter_disclosures,
    read_disclosures,
    resolve_pseudonyms,
)
from evidence.models.accounts import Client
from evidence.models.connections import Connection
from owner.form_fields import set_choices
from owner.site import owner, page
from owner.text import escape_invisible, format_time, pluralize

A_PAGE = 50
CALENDAR = timedelta(days=84)
YOU = "you"
NAMED = 20
"""So many records of one answer are named on a page; the file names all of them."""


class DisclosureFilterForm(forms.Form):
    """Every filter is optional; what is no choice is left aside."""

    client = forms.ChoiceField(label="Who", required=False)
    connection = forms.ChoiceField(label="Of which connection", required=False)
    day = forms.DateField(
        label="On the day", required=False, widget=forms.DateInput(attrs={"type": "date"})
    )
    stream = forms.CharField(required=False, widget=forms.HiddenInput)
    key = forms.CharField(required=False, strip=False, widget=forms.HiddenInput)


@dataclass(frozen=True, slots=True)
class DisclosureRow:
    """One answer, in words."""

    at: str
    who: str
    how: str
    what: Sequence[str]
    records: Sequence[tuple[str, str]]
    more: int
    size: str


@dataclass(frozen=True, slots=True)
class Bar:
    """One day of the calendar; ``share`` in percent of the busiest."""

    day: date
    words: str
    share: int
    url: str


def disclosures(request: HttpRequest) -> HttpResponse:
    """Answers that match the filters, latest first, below a calendar of them."""
    names = _Names()
    form = _form(request, names)
    rows = _rows(form)
    chosen = {k: v for k, v in request.GET.dict().items() if v and k != "page"}
    found = Paginator(rows, A_PAGE).get_page(request.GET.get("page"))
    shown = (
        list(read_disclosures(rows[found.start_index() - 1 : found.end_index()])) if found else []
    )
    days = daily_totals(rows, since=timezone.now() - CALENDAR)
    context = {
        "form": form,
        "lines": [_line(each, names) for each in shown],
        "found": found,
        "bars": list(_bars(days, chosen)),
        "key": escape_invisible(form.cleaned_data["key"]),
        "query": urlencode(chosen),
        "csv_url": f"{reverse('admin:evidence_disclosures_csv')}?{urlencode(chosen)}",
    }
    return page(request, "disclosures", title="What was read", context=context)


def as_csv(request: HttpRequest) -> StreamingHttpResponse:
    """The same answers as a table, one line for each record that was shown."""
    names = _Names()
    rows = _rows(_form(request, names))
    response = StreamingHttpResponse(_csv(rows, names), content_type="text/csv; charset=utf-8")
    response["Content-Disposition"] = 'attachment; filename="disclosures.csv"'
    return response


class _Names:
    """What the owner calls clients and connections."""

    def __init__(self) -> None:
        self.clients = dict(
            Client.unscoped.filter(owner=owner())
            .order_by("display_name")
            .values_list("client_id", "display_name")
        )
        self.connections = dict(
            Connection.unscoped.filter(owner=owner())
            .order_by("display_name")
            .values_list("connection_id", "display_name")
        )

    def who(self, each: DisclosureEntry) -> str:
        return "You" if each.grant_id is None else self.clients.get(each.client_id, each.client_id)


def _form(request: HttpRequest, names: _Names) -> DisclosureFilterForm:
    form = DisclosureFilterForm(request.GET)
    set_choices(form, "client", [("", "Everybody"), (YOU, "You"), *names.clients.items()])
    set_choices(form, "connection", [("", "Every connection"), *names.connections.items()])
    form.is_valid()
    form.cleaned_data = {name: form.cleaned_data.get(name) or "" for name in form.fields}
    return form


def _rows(form: DisclosureFilterForm) -> Disclosures:
    asked = form.cleaned_data
    client, connection, key = asked["client"], asked["connection"], asked["key"]
    rows = (
        disclosures_of_record(connection, asked["stream"], key)
        if key
        else all_disclosures(owner().pk)
    )
    return filter_disclosures(
        rows,
        client_id=("" if client == YOU else client) if client else None,
        connection_id=connection if connection and not key else None,
        day=asked["day"] or None,
    )


def _line(each: DisclosureEntry, names: _Names) -> DisclosureRow:
    records = resolve_pseudonyms(each.pseudonyms[:NAMED]).values()
    return DisclosureRow(
        at=format_time(each.at),
        who=names.who(each),
        how=each.route,
        what=[
            f"{names.connections.get(covered.connection_id, covered.connection_id)}:"
            f" {covered.stream} ({escape_invisible(', '.join(covered.fields)) or 'how much there is'})"
            for covered in each.covered
        ],
        records=[
            (
                escape_invisible(record.record_key),
                f"{reverse('admin:evidence_record')}?"
                + urlencode(
                    {
                        "connection": record.connection_id,
                        "stream": record.stream,
                        "key": record.record_key,
                    }
                ),
            )
            for record in records
        ],
        more=each.record_count - len(records),
        size=f"{each.size_bytes:,} bytes" if each.size_bytes else "",
    )


def _bars(days: Sequence[DayTotals], chosen: Mapping[str, Any]) -> Iterator[Bar]:
    most = max((day.answers for day in days), default=1)
    here = reverse("admin:evidence_disclosures")
    for day in days:
        words = f"{pluralize(day.answers, 'answer')}, {pluralize(day.records, 'record')}"
        url = f"{here}?{urlencode({**chosen, 'day': day.day.isoformat()})}"
        yield Bar(day.day, words, max(1, 100 * day.answers // most), url)


class _Echo:
    """A file that hands back what is written to it."""

    def write(self, text: str) -> str:
        return text


def _csv(rows: Disclosures, names: _Names) -> Iterator[str]:
    write = csv.writer(_Echo()).writerow
    yield str(write(["at", "client", "grant_id", "route", "request_id", "connection_id", "stream",
                     "record_key", "fields"]))  # fmt: skip
    for each in read_disclosures(rows):
        for cells in _cells(each, names):
            yield str(write([_harmless(cell) for cell in cells]))


def _cells(each: DisclosureEntry, names: _Names) -> Iterator[Sequence[str]]:
    fields = {(one.connection_id, one.stream): " ".join(one.fields) for one in each.covered}
    head = [_utc(each.at), names.who(each), each.grant_id or "", each.route, each.request_id]
    records = resolve_pseudonyms(each.pseudonyms).values()
    for record in records:
        place = (record.connection_id, record.stream)
        yield [*head, *place, record.record_key, fields.get(place, "")]
    if not each.pseudonyms:
        for place, names_of in fields.items() or [(("", ""), "")]:
            yield [*head, *place, "", names_of]
    for _ in range(len(each.pseudonyms) - len(records)):
        yield [*head, "", "", "(erased)", ""]


def _harmless(cell: str) -> str:
    """A cell that no spreadsheet takes for a formula."""
    return f"'{cell}" if cell[:1] in ("=", "+", "-", "@", "\t", "\r") else cell


def _utc(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")


class RefusedCallFilterForm(forms.Form):
    """Both filters are optional; what is no choice is left aside."""

    client = forms.ChoiceField(label="Who", required=False)
    request_id = forms.CharField(
        label="Request id", required=False, max_length=128,
        widget=forms.TextInput(attrs={"size": 30, "spellcheck": "false"}),
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class RefusedCallRow:
    """One refusal in words."""

    at: str
    who: str
    asked: str
    code: str
    clause: str
    request_id: str


def refused(request: HttpRequest) -> HttpResponse:
    """Latest first, some on each page."""
    names = dict(
        Client.unscoped.filter(owner=owner())
        .order_by("display_name")
        .values_list("client_id", "display_name")
    )
    form = RefusedCallFilterForm(request.GET)
    set_choices(form, "client", [("", "Everybody"), *names.items()])
    form.is_valid()
    asked = {name: form.cleaned_data.get(name) or "" for name in form.fields}
    rows = refused_calls(
        owner().pk, client_id=asked["client"], request_id=asked["request_id"].strip()
    )
    found = Paginator(rows, A_PAGE).get_page(request.GET.get("page"))
    lines = [
        RefusedCallRow(
            at=format_time(row.at),
            who=names.get(row.client_id, row.client_id),
            asked=_asked(row.route, row.stream, row.param),
            code=row.code,
            clause=row.clause,
            request_id=escape_invisible(row.request_id),
        )
        for row in found
    ]
    context = {
        "form": form,
        "lines": lines,
        "found": found,
        "days": REFUSED_CALL_RETENTION.days,
        "query": urlencode({name: value for name, value in asked.items() if value}),
    }
    return page(request, "refused", title="What was refused", context=context)


def _asked(route: str, stream: str, param: str) -> str:
    told = [route, *([f"of {stream}"] if stream else []), *([f"({param})"] if param else [])]
    return " ".join(told)
