"""The page behind the ``url`` of a search result: one record, as text, for its owner alone.

It has no script, loads nothing, links nowhere but to sign in, and names itself to nobody, so that
whatever a record says stays on the page.
"""

from django.contrib.auth.views import redirect_to_login
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_safe

from evidence.access.describing import stream_label
from evidence.admin.records import looked_at, owners_gate
from evidence.consent.owners_only import is_owner
from evidence.consent.plain_text import LONGEST, plain
from evidence.consent.showing import title_of, values_of
from evidence.consent.wording import when
from evidence.refusals import Refusal

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "private, no-store",
}


@require_safe
def record_page(
    request: HttpRequest, connection_id: str, stream: str, record_key: str
) -> HttpResponse:
    """``/records/{connection_id}/{stream}/{record_key}``; 404 for whatever the owner lacks."""
    if not is_owner(request.user):
        return redirect_to_login(request.get_full_path(), reverse("admin:login"))
    try:
        gate = owners_gate()
        visible = gate.stream(stream, connection_id=connection_id)
        record = looked_at(gate, visible, record_key)
    except Refusal:
        return _page(request, {"title": "No such record", "key": plain(record_key)}, status=404)
    context = {
        "title": title_of(visible, record),
        "key": plain(record.record_key),
        "connection": record.connection,
        "stream_label": stream_label(visible.stream),
        "emitted_at": when(record.emitted_at),
        "values": values_of(visible, record, longest=None if "whole" in request.GET else LONGEST),
    }
    return _page(request, context)


def _page(request: HttpRequest, context: dict[str, object], *, status: int = 200) -> HttpResponse:
    response = render(request, "evidence/record_page.html", context, status=status)
    for name, value in HEADERS.items():
        response[name] = value
    return response
