"""Refused calls of apps, each with its reason in one sentence."""

from collections.abc import Mapping
from itertools import groupby
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from django import forms
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone

from evidence.access.grant_text import humanize
from evidence.access.owner_notices import REFUSED_CALL_RETENTION, refused_calls
from evidence.errors import Code
from evidence.models.owners import current_owner
from owner.activity.activity_page import Names
from owner.form_fields import set_choices
from owner.permissions import owner_reads
from owner.text import escape_invisible

if TYPE_CHECKING:
    from evidence.models.quotas import RefusedCall

A_PAGE = 50
REQUESTS: Mapping[str, str] = {
    "search": "a search",
    "semantic search": "a search",
    "hybrid search": "a search",
    "records": "a list",
    "record": "a single record",
    "field window": "a part of a text",
    "aggregate": "a calculation",
    "blob": "a file",
    "schema": "an overview of what it can read",
    "streams": "an overview of what it can read",
    "stream": "an overview of what it can read",
}
NOT_INCLUDED = "its access does not include that record, or there is none"
NO_SUCH_NAME = "its access includes nothing of that name"
NOT_VALID = "the call was not valid"
REASONS: Mapping[str, str] = {
    Code.GRANT_STREAM_NOT_ALLOWED: "its access does not include {stream}",
    Code.FIELD_NOT_GRANTED: "its access does not include every field that it named",
    Code.GRANT_PAUSED: "its access is paused",
    Code.GRANT_CONSUMED: "its single use was over",
    Code.GRANT_EXPIRED: "its access has expired",
    Code.GRANT_REVOKED: "you ended its access",
    Code.GRANT_INVALID: "its access is not valid any more",
    Code.AUTHENTICATION_ERROR: "its token is not valid here",
    Code.PERMISSION_ERROR: "only you can do that",
    Code.NOT_FOUND: NOT_INCLUDED,
    Code.BLOB_NOT_FOUND: NOT_INCLUDED,
    Code.CONNECTION_NOT_FOUND: "its access does not include that connection",
    Code.AMBIGUOUS_CONNECTION: "it did not say which connection it meant",
    Code.AMBIGUOUS_SCHEMA_DETAIL: "it did not say which source it meant",
    Code.RATE_LIMIT_EXCEEDED: "it reached a limit that you set",
    Code.TOO_MANY_REQUESTS: "it called too often",
    Code.CURSOR_EXPIRED: "the list that it continued is out of date",
}


class RefusedCallForm(forms.Form):
    """Both filters are optional; invalid ones are ignored."""

    client = forms.ChoiceField(label="App", required=False)
    request_id = forms.CharField(
        label="Request id", required=False, max_length=128,
        widget=forms.TextInput(attrs={"size": 30, "spellcheck": "false"}),
    )  # fmt: skip

    def __init__(self, data: Any, *, names: Names) -> None:
        super().__init__(data)
        set_choices(self, "client", [("", "All apps"), *names.clients.items()])
        self.is_valid()
        self.cleaned_data = {name: self.cleaned_data.get(name) or "" for name in self.fields}


@owner_reads
def refused_page(request: HttpRequest) -> HttpResponse:
    """Show the refused calls by day, latest first, some on each page."""
    names = Names(current_owner())
    form = RefusedCallForm(request.GET, names=names)
    chosen = form.cleaned_data
    rows = refused_calls(
        current_owner(), client_id=chosen["client"], request_id=chosen["request_id"].strip()
    )
    found = Paginator(rows, A_PAGE).get_page(request.GET.get("page"))
    days = groupby(found, key=lambda row: timezone.localdate(row.at))
    context = {
        "here": "activity",
        "form": form,
        "days": [(day, [_line(row, names) for row in group]) for day, group in days],
        "found": found,
        "kept_days": REFUSED_CALL_RETENTION.days,
        "page_query": urlencode({name: value for name, value in chosen.items() if value}),
    }
    return render(request, "owner/activity/refused.html", context)


def _line(row: "RefusedCall", names: Names) -> dict[str, str]:
    """Return one refusal: an app's name, the rest of the sentence, and details for a developer."""
    return {
        "clock": f"{timezone.localtime(row.at):%H:%M}",
        "name": names.client(row.client_id),
        "sentence": refusal_sentence(row.route, row.code, stream=row.stream, param=row.param),
        "clause": row.clause,
        "code": row.code,
        "request_id": escape_invisible(row.request_id),
    }


def refusal_sentence(route: str, code: str, *, stream: str, param: str) -> str:
    """Return ``asked for a list of threads, but its access does not include threads.``"""
    name = humanize(stream).lower()
    request = REQUESTS.get(route.partition(" ")[2], "something")
    reason = REASONS.get(code, f"{NOT_VALID} ({param})" if param else NOT_VALID)
    if reason == NOT_INCLUDED and not name:
        reason = NO_SUCH_NAME
    of = f" of {name}" if name else ""
    return f"asked for {request}{of}, but {reason.format(stream=name or 'that')}."
