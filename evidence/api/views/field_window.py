"""``GET /v1/streams/{stream}/records/{id}/field-window``."""

import re
from collections.abc import Sequence
from typing import Any

from django.core.exceptions import SuspiciousOperation
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from rest_framework.request import Request
from rest_framework.response import Response
from typing_extensions import override

from evidence import limits
from evidence.api import envelopes
from evidence.api.base_views import GrantedView
from evidence.api.query_parameters import CONNECTION, Parameters
from evidence.api.views.records import RecordView
from evidence.errors import InvalidFieldPath, InvalidWindow, Refusal
from evidence.ledger.entries import Shown
from evidence.reading import field_windows
from evidence.reading.field_windows import Expectation

DEEPEST = 32
_SHA256 = re.compile("[0-9a-fA-F]{64}")


class FieldWindowView(GrantedView):
    parameters = CONNECTION | {
        "field", "offset_chars", "limit_chars", "q", "occurrence", "before_chars", "after_chars",
        "quote", "expect_sha256",
    }  # fmt: skip

    @override
    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        """Hand over to the record view where every parameter is one of its own: a record's key may
        itself end like this route. Exactly one of the two views runs and is charged."""
        if _asks_for_window(request):
            return super().dispatch(request, *args, **kwargs)
        view = RecordView.as_view(or_window=True)
        key = f"{kwargs['record_id']}/field-window"
        return view(request, stream=kwargs["stream"], record_id=key)

    @override
    def told_by(self, refusal: Refusal) -> Sequence[Shown]:
        """Whether a visible record has a field, or has a text in it."""
        if refusal.discloses is None:
            return []
        connection_id, record_key = refusal.discloses
        field, _ = _path(self.query.text("field") or "")
        return [Shown(connection_id, self.kwargs["stream"], record_key, frozenset({field}))]

    def get(self, request: Request, stream: str, record_id: str) -> Response:
        visible = self.gate.stream(stream, connection_id=self.query.connection_id())
        window = field_windows.read(visible, record_id, asked(self.query))
        body = envelopes.field_window(
            visible,
            window,
            record_key=record_id,
            path=self.query.text("field") or "",
            url=self.query.path.partition("?")[0],
        )
        return Response(
            envelopes.finished(body, self_link=self.query.path, warnings=self.query.warnings)
        )


def _asks_for_window(request: HttpRequest) -> bool:
    known = RecordView.owner_methods.get(str(request.method), RecordView.parameters)
    try:
        return any(name.partition("[")[0] not in known for name in request.GET)
    except SuspiciousOperation:
        return True  # too many parameters: the window refuses them like any route


def asked(query: Parameters) -> field_windows.WindowRequest:
    """The window that the parameters describe; ``InvalidWindow`` for any other combination."""
    field, below = _path(query.text("field") or "")
    q = query.text("q")
    _check_combination(query, q)
    context = limits.WINDOW_CONTEXT_MAX_CHARS
    return field_windows.WindowRequest(
        field=field,
        below=below,
        limit_chars=_length(query),
        offset_chars=_number(query, "offset_chars", least=0),
        q=q,
        occurrence=_number(query, "occurrence", least=1) or 1,
        before_chars=_number(query, "before_chars", least=0, most=context),
        after_chars=_number(query, "after_chars", least=0, most=context),
        expected=_expected(query),
    )


def _path(path: str) -> tuple[str, list[str]]:
    """A top-level field, or a JSON Pointer (RFC 6901) whose first token is one."""
    if not path.startswith("/"):
        tokens = [path]
    else:
        tokens = [each.replace("~1", "/").replace("~0", "~") for each in path[1:].split("/")]
    if not tokens[0] or len(tokens) > DEEPEST:
        raise InvalidFieldPath(
            message="field names a top-level field, or is a JSON Pointer that starts with one.",
            param="field",
        )
    return tokens[0], tokens[1:]


def _expected(query: Parameters) -> Expectation | None:
    quote, sha256 = query.text("quote"), query.text("expect_sha256")
    if quote is None and sha256 is None:
        return None
    if quote == "":
        raise InvalidWindow(message="quote takes the text to check.", param="quote")
    if sha256 is not None and not _SHA256.fullmatch(sha256):
        raise InvalidWindow(message="expect_sha256 takes 64 hex digits.", param="expect_sha256")
    return Expectation(quote, sha256)


def _check_combination(query: Parameters, q: str | None) -> None:
    if q is not None and not q.strip():
        raise InvalidWindow(message="q takes the text to find.", param="q")
    if q is not None and query.text("offset_chars") is not None:
        raise InvalidWindow(message="Give q or offset_chars, not both.", param="offset_chars")
    for name in ("before_chars", "after_chars", "occurrence"):
        if q is None and query.text(name) is not None:
            raise InvalidWindow(message=f"{name} needs q.", param=name)


def _length(query: Parameters) -> int:
    length = _number(query, "limit_chars", least=1) or limits.WINDOW_DEFAULT_CHARS
    return query.clamped("limit_chars", length, most=limits.WINDOW_MAX_CHARS)


def _number(query: Parameters, name: str, *, least: int, most: int | None = None) -> int | None:
    text = query.text(name)
    if text is None:
        return None
    plain = text.isascii() and text.isdigit() and len(text) <= 12
    number = int(text) if plain else -1
    if number < least or (most is not None and number > most):
        bounds = f"from {least}" + (f" to {most}" if most is not None else " up")
        raise InvalidWindow(message=f"{name} takes a whole number {bounds}.", param=name)
    return number
