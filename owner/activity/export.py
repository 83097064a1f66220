"""Export activity as CSV or JSON: each answer with the records that it showed."""

import csv
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import islice
from typing import Any

import orjson
from django.http import Http404, HttpRequest, StreamingHttpResponse
from django.views.decorators.http import require_safe

from evidence.ledger.disclosures import (
    DisclosureEntry,
    Disclosures,
    NamedRecord,
    all_disclosures,
    disclosures_of_record,
    named_records,
    read_disclosures,
)
from evidence.models.owners import current_owner
from owner.activity.activity_page import OWNER_FILTER, ActivityForm, Names
from owner.permissions import owner_required
from owner.text import DAY, midnight

BATCH_SIZE = 500
ERASED = "(erased)"
COLUMNS = ("at", "client", "grant_id", "route", "request_id", "connection_id", "stream",
           "record_key", "fields")  # fmt: skip
FORMULA_STARTS = "=+-@\t\r\n\N{FULLWIDTH EQUALS SIGN}\N{FULLWIDTH PLUS SIGN}\N{FULLWIDTH HYPHEN-MINUS}\N{FULLWIDTH COMMERCIAL AT}"
"""A cell that begins so runs as a formula in some spreadsheets, also after spaces."""

Targets = Mapping[bytes, NamedRecord]


@require_safe
@owner_required
def export(request: HttpRequest, name: str) -> StreamingHttpResponse:
    """Return the answers that match the filters of the page, latest first, of all times or one day."""
    formats: Mapping[str, tuple[str, Callable[..., Iterator[Any]]]] = {
        "csv": ("text/csv; charset=utf-8", _csv),
        "json": ("application/json", _json),
    }
    if name not in formats:
        raise Http404
    media_type, write = formats[name]
    names = Names(current_owner())
    rows = _rows(ActivityForm(request.GET, names=names))
    response = StreamingHttpResponse(write(rows, names), content_type=media_type)
    response["Content-Disposition"] = f'attachment; filename="activity.{name}"'
    return response


def _rows(form: ActivityForm) -> Disclosures:
    """Return the disclosures that the page counts, without its limit to a week."""
    chosen, where = form.cleaned_data, form.where
    rows = (
        disclosures_of_record(chosen["connection"], chosen["stream"], chosen["key"])
        if chosen["key"]
        else all_disclosures(current_owner())
    )
    if where.only_apps:
        rows = rows.exclude(client_id="")
    if chosen["client"]:
        rows = rows.filter(client_id="" if chosen["client"] == OWNER_FILTER else chosen["client"])
    if where.connection_id is not None:
        rows = rows.filter(covered__contains=f'["{where.connection_id}",')
    if day := chosen["day"]:
        rows = rows.filter(at__gte=midnight(day), at__lt=midnight(day + DAY))
    return rows


def _entries(rows: Disclosures) -> Iterator[tuple[DisclosureEntry, Targets]]:
    """Yield each answer with its records that are not erased. One query per BATCH_SIZE answers."""
    entries = read_disclosures(rows)
    while batch := list(islice(entries, BATCH_SIZE)):
        targets = named_records([each for entry in batch for each in entry.record_digests])
        yield from ((entry, targets) for entry in batch)


class _Echo:
    """A file that returns what is written to it."""

    def write(self, text: str) -> str:
        return text


def _csv(rows: Disclosures, names: Names) -> Iterator[str]:
    write = csv.writer(_Echo()).writerow
    yield str(write(COLUMNS))
    for entry, targets in _entries(rows):
        for cells in _cells(entry, targets, names):
            yield str(write([_harmless(cell) for cell in cells]))


def _cells(entry: DisclosureEntry, targets: Targets, names: Names) -> Iterator[Sequence[str]]:
    """Yield one line per record; of an answer without records, one line per stream."""
    fields = {(each.connection_id, each.stream): " ".join(each.fields) for each in entry.covered}
    head = [_utc(entry.at), names.client(entry.client_id), entry.grant_id or "", entry.route,
            entry.request_id]  # fmt: skip
    for digest in entry.record_digests:
        if (record := targets.get(digest)) is None:
            yield [*head, "", "", ERASED, ""]
            continue
        place = (record.connection_id, record.stream)
        yield [*head, *place, record.record_key, fields.get(place, "")]
    if not entry.record_digests:
        for place, shown in fields.items() or [(("", ""), "")]:
            yield [*head, *place, "", shown]


def _harmless(cell: str) -> str:
    """Return a cell that no spreadsheet runs as a formula."""
    return f"'{cell}" if cell.lstrip(" ")[:1] in (*FORMULA_STARTS,) else cell


def _json(rows: Disclosures, names: Names) -> Iterator[bytes]:
    yield b"["
    for number, (entry, targets) in enumerate(_entries(rows)):
        yield (b",\n" if number else b"\n") + orjson.dumps(_entry_body(entry, targets, names))
    yield b"\n]\n"


def _entry_body(entry: DisclosureEntry, targets: Targets, names: Names) -> dict[str, Any]:
    records = [targets[each] for each in entry.record_digests if each in targets]
    return {
        "at": _utc(entry.at),
        "client": names.client(entry.client_id),
        "client_id": entry.client_id or None,
        "grant_id": entry.grant_id,
        "route": entry.route,
        "request_id": entry.request_id,
        "records_read": entry.record_count,
        "size_bytes": entry.size_bytes,
        "streams": [
            {
                "connection_id": each.connection_id,
                "stream": each.stream,
                "fields": each.fields,
                "records_read": each.records,
            }
            for each in entry.covered
        ],
        "records": [
            {
                "connection_id": each.connection_id,
                "stream": each.stream,
                "record_key": each.record_key,
            }
            for each in records
        ],
        "erased_records": entry.record_count - len(records),
    }


def _utc(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")
