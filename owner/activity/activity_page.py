"""The activity page: what each app read, by day and in words, and the proof of the ledger."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from itertools import groupby
from typing import Any
from urllib.parse import urlencode

from django import forms
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_safe

from evidence.ledger.disclosures import digest_of_record
from evidence.ledger.proof import ledger_proof
from evidence.ledger.readings import (
    Reading,
    ReadingFilter,
    find_time,
    list_readings,
    sum_by_client,
)
from evidence.models.owners import current_owner
from owner.activity.reading_text import (
    Amount,
    Names,
    activity_url,
    amounts,
    calls,
    looked_at,
    period,
)
from owner.activity.usage_charts import share_table, usage_charts
from owner.form_fields import set_choices
from owner.permissions import owner_required
from owner.text import DAY, escape_invisible, midnight, start_of_day

YOU = "you"
WEEK = 7 * DAY
MAX_PAGE_ROWS = 10_000
"""A page shows fewer days than a week if the ledger has more rows of them than this."""
MAX_LINES = 200
"""Readings of one app on one page."""


class ActivityForm(forms.Form):
    """All filters are optional; invalid ones are ignored."""

    client = forms.ChoiceField(label="App", required=False)
    connection = forms.ChoiceField(label="Connection", required=False)
    day = forms.DateField(
        label="Day", required=False, widget=forms.DateInput(attrs={"type": "date"})
    )
    until = forms.DateField(required=False, widget=forms.HiddenInput)
    stream = forms.CharField(required=False, widget=forms.HiddenInput)
    key = forms.CharField(required=False, strip=False, widget=forms.HiddenInput)

    def __init__(self, data: Any, *, names: Names) -> None:
        super().__init__(data)
        set_choices(self, "client", [("", "All apps"), *names.clients.items(), (YOU, "You")])
        set_choices(self, "connection", [("", "All connections"), *names.connections.items()])
        self.is_valid()
        self.cleaned_data = {name: self.cleaned_data.get(name) or "" for name in self.fields}

    @property
    def query(self) -> dict[str, str]:
        """The chosen filters as parameters of a URL."""
        return {name: str(value) for name, value in self.cleaned_data.items() if value}

    @property
    def where(self) -> ReadingFilter:
        """Without a chosen app all apps; who has seen one record includes the owner."""
        chosen = self.cleaned_data
        client, connection, key = chosen["client"], chosen["connection"], chosen["key"]
        digest = digest_of_record(connection, chosen["stream"], key) if key else None
        return ReadingFilter(
            client_id=("" if client == YOU else client) if client else None,
            only_apps=not client and not key,
            connection_id=None if key else connection or None,
            record_digest=(digest or b"") if key else None,
        )

    def days(self, where: ReadingFilter, *, now: datetime) -> tuple[datetime, datetime]:
        """Return the period of the page: the chosen day, or a week that ends with a reading."""
        if day := self.cleaned_data["day"]:
            return midnight(day), midnight(day + DAY)
        until: date | None = self.cleaned_data["until"] or None
        end = midnight(until) if until else start_of_day(now) + DAY
        latest = find_time(where, until=end)
        end = end if latest is None else start_of_day(latest) + DAY
        busy = find_time(where, until=end, since=end - WEEK, newer=MAX_PAGE_ROWS)
        start = end - WEEK if busy is None else min(start_of_day(busy), end - 2 * DAY) + DAY
        return start, end


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadingLine:
    """One reading in words."""

    amounts: Sequence[Amount]
    looked_at: Sequence[str]
    period: str
    calls: str
    url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AppActivity:
    """What one app read in the period, by day, latest first. The owner has no client id."""

    client_id: str
    name: str
    records: int
    answers: int
    days: Sequence[tuple[date, Sequence[ReadingLine]]]
    left_out: int
    url: str


@require_safe
@owner_required
def activity_page(request: HttpRequest) -> HttpResponse:
    """Show the readings that match the filters, a week on each page."""
    now = timezone.now()
    names = Names(current_owner())
    form = ActivityForm(request.GET, names=names)
    where = form.where
    since, until = form.days(where, now=now)
    readings = list_readings(since=since, until=until, where=where, counts_records=True)
    client = where.client_id or ""
    is_overview = not form.query
    context = {
        "here": "activity",
        "form": form,
        "is_overview": is_overview,
        "is_filtered": bool(form.query.keys() - {"until"}),
        "key": escape_invisible(form.cleaned_data["key"]),
        "app": names.client(client) if client else "",
        "client_id": client,
        "apps": app_activities(readings, names),
        "since": since.date(),
        "last": until.date() - DAY,
        "charts": usage_charts(client, now=now) if client else (),
        "shares": share_table(current_owner(), names, now=now) if is_overview else None,
        "proof": ledger_proof(current_owner()),
        **_links(form, where, since),
    }
    return render(request, "owner/activity/activity.html", context)


def app_activities(readings: Sequence[Reading], names: Names) -> list[AppActivity]:
    """Return the readings by app, most recent first, then by day."""
    totals = sum_by_client(readings)
    activities = []
    for client_id, total in totals.items():
        own = [reading for reading in readings if reading.client_id == client_id]
        days = groupby(own[:MAX_LINES], key=lambda reading: timezone.localdate(reading.last))
        activities.append(
            AppActivity(
                client_id=client_id,
                name=names.client(client_id),
                records=total.records,
                answers=total.answers,
                days=[(day, [_line(each, names) for each in rows]) for day, rows in days],
                left_out=max(0, len(own) - MAX_LINES),
                url=activity_url(client=client_id or YOU),
            )
        )
    return activities


def _line(reading: Reading, names: Names) -> ReadingLine:
    query = {
        "client": reading.client_id,
        "since": reading.first.isoformat(),
        "until": reading.last.isoformat(),
    }
    return ReadingLine(
        amounts=amounts(reading, names),
        looked_at=looked_at(reading, names),
        period=period(reading),
        calls=calls(reading),
        url=f"{reverse('activity-reading')}?{urlencode(query)}",
    )


def _links(form: ActivityForm, where: ReadingFilter, since: datetime) -> Mapping[str, str]:
    filters = {name: value for name, value in form.query.items() if name not in ("day", "until")}
    earlier = find_time(where, until=since)
    export = urlencode(form.query)
    return {
        "earlier_url": activity_url(**filters, until=since.date().isoformat()) if earlier else "",
        "latest_url": activity_url(**filters) if len(filters) < len(form.query) else "",
        "csv_url": f"{reverse('activity-export', args=['csv'])}?{export}",
        "json_url": f"{reverse('activity-export', args=['json'])}?{export}",
    }
