"""One reading: its records by title, as far as they are not erased, and its answers."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import urlencode

from django.core.paginator import Page, Paginator
from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from evidence.access.gate import Gate
from evidence.access.owner_scope import owner_scope
from evidence.errors import ApiException
from evidence.ledger.disclosures import (
    DisclosureEntry,
    disclosures_between,
    named_records,
    read_disclosures,
)
from evidence.models.owners import current_owner
from owner.activity.reading_text import Names, activity_url
from owner.permissions import owner_required
from owner.records.owner_reads import listed_items, record_owner_read
from owner.records.record_summaries import RecordSummary, summarize
from owner.text import escape_invisible

A_PAGE = 50
MAX_ANSWERS = 100
MAX_ROWS = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerLine:
    """One answer: its streams with the fields that it showed, without values.

    ``counted`` is the number of records behind a number that it showed, such as a sum.
    """

    at: datetime
    route: str
    records: int
    counted: int | None
    size: int
    request_id: str
    streams: Sequence[tuple[str, str, str]]
    """Connection, stream and fields."""


@require_safe
@owner_required
def reading_page(request: HttpRequest) -> HttpResponse:
    """Show what one client read between two times; an empty client is the owner."""
    names, client_id = Names(current_owner()), request.GET.get("client", "")
    since, until = _time(request, "since"), _time(request, "until")
    rows = disclosures_between(current_owner(), client_id=client_id, since=since, until=until)
    entries = list(read_disclosures(rows[:MAX_ROWS]))
    digests = list(dict.fromkeys(each for entry in entries for each in entry.record_digests))
    found: Page[bytes] = Paginator(digests, A_PAGE).get_page(request.GET.get("page"))
    gate = Gate(owner_scope(current_owner()))
    with transaction.atomic():
        records, gone = _records(gate, list(found.object_list))
        record_owner_read(gate.scope, listed_items(records), route="activity")
    context = {
        "here": "activity",
        "name": names.client(client_id),
        "back_url": activity_url(client=client_id or "you"),
        "since": since,
        "until": until,
        "found": found,
        "records": records,
        "gone": gone,
        "answers": [_line(entry, names) for entry in entries[:MAX_ANSWERS]],
        "more_answers": max(0, len(entries) - MAX_ANSWERS),
        "pages": urlencode({name: request.GET[name] for name in ("client", "since", "until")}),
    }
    return render(request, "owner/activity/reading.html", context)


def _time(request: HttpRequest, name: str) -> datetime:
    try:
        moment = datetime.fromisoformat(request.GET.get(name, "").replace(" ", "+"))
    except ValueError:
        raise Http404 from None
    if timezone.is_naive(moment):
        raise Http404
    return moment


def _records(gate: Gate, digests: Sequence[bytes]) -> tuple[list[RecordSummary], int]:
    """Return the records of digests in their order, and the number of those that are gone.

    One query, and one per connection and stream.
    """
    targets = named_records(digests)
    keys: Mapping[tuple[str, str], list[str]] = defaultdict(list)
    for each in targets.values():
        keys[each.connection_id, each.stream].append(each.record_key)
    found = {}
    for (connection_id, stream), record_keys in keys.items():
        try:
            visible = gate.stream(stream, connection_id=connection_id)
        except ApiException:
            continue  # the connection is revoked, or its source declares no such stream any more
        for summary in summarize(visible, visible.get_many(record_keys)):
            found[connection_id, stream, summary.record.record_key] = summary
    ordered = [
        found.get((target.connection_id, target.stream, target.record_key))
        for digest in digests
        if (target := targets.get(digest)) is not None
    ]
    records = [summary for summary in ordered if summary is not None]
    return records, len(digests) - len(records)


def _line(entry: DisclosureEntry, names: Names) -> AnswerLine:
    return AnswerLine(
        at=entry.at,
        route=entry.route,
        records=entry.record_count,
        counted=entry.counted,
        size=entry.size_bytes,
        request_id=escape_invisible(entry.request_id),
        streams=[
            (
                names.connection(each.connection_id),
                each.stream,
                escape_invisible(", ".join(each.fields)),
            )
            for each in entry.covered
        ],
    )
