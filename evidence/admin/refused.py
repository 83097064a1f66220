"""What was refused, to whom and by which clause; found by client or by the id of the request."""

from dataclasses import dataclass
from urllib.parse import urlencode

from django import forms
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse

from evidence.access.refused import KEPT, refused_calls
from evidence.admin.base import owner, page
from evidence.consent.offering import offer
from evidence.consent.plain_text import plain
from evidence.consent.wording import when
from evidence.models.clients import Client

A_PAGE = 50


class WhichForm(forms.Form):
    """Both filters are optional; what is no choice is left aside."""

    client = forms.ChoiceField(label="Who", required=False)
    request_id = forms.CharField(
        label="Request id", required=False, max_length=128,
        widget=forms.TextInput(attrs={"size": 30, "spellcheck": "false"}),
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Line:
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
    form = WhichForm(request.GET)
    offer(form, "client", [("", "Everybody"), *names.items()])
    form.is_valid()
    asked = {name: form.cleaned_data.get(name) or "" for name in form.fields}
    rows = refused_calls(
        owner().pk, client_id=asked["client"], request_id=asked["request_id"].strip()
    )
    found = Paginator(rows, A_PAGE).get_page(request.GET.get("page"))
    lines = [
        Line(
            at=when(row.at),
            who=names.get(row.client_id, row.client_id),
            asked=_asked(row.route, row.stream, row.param),
            code=row.code,
            clause=row.clause,
            request_id=plain(row.request_id),
        )
        for row in found
    ]
    context = {
        "form": form,
        "lines": lines,
        "found": found,
        "days": KEPT.days,
        "query": urlencode({name: value for name, value in asked.items() if value}),
    }
    return page(request, "refused", title="What was refused", context=context)


def _asked(route: str, stream: str, param: str) -> str:
    told = [route, *([f"of {stream}"] if stream else []), *([f"({param})"] if param else [])]
    return " ".join(told)
