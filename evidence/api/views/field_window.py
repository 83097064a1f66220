"""Read part of a long field, or find and verify a quote: `…/field-window`."""

import re
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
from evidence.api.query_parameters import CONNECTION_PARAMETERS, QueryParameters
from evidence.api.views.records import RecordView
from evidence.errors import AmbiguousConnection, ApiException, InvalidFieldPath, InvalidWindow
from evidence.reading import field_windows
from evidence.reading.field_windows import ExpectedText

MAX_DEPTH = 32
_SHA256 = re.compile("[0-9a-fA-F]{64}")


class FieldWindowView(GrantedView):
    parameters = CONNECTION_PARAMETERS | {
        "field", "offset_chars", "limit_chars", "q", "occurrence", "before_chars", "after_chars",
        "quote", "expect_sha256",
    }  # fmt: skip

    @override
    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        """Call the record view instead if every parameter is one of its own.

        A record key may end with `/field-window`. Exactly one of the two views runs and is charged.
        """
        if _is_window_request(request):
            return super().dispatch(request, *args, **kwargs)
        view = RecordView.as_view(or_window=True)
        key = f"{kwargs['record_id']}/field-window"
        return view(request, stream=kwargs["stream"], record_id=key)

    @override
    def fields_disclosed_by_error(self, error: ApiException) -> frozenset[str]:
        """Return the field that a visible record lacks, or that does not contain the text."""
        if isinstance(error, AmbiguousConnection):
            return frozenset()
        field, _ = _path(self.query.text("field") or "")
        return frozenset({field})

    def get(self, request: Request, stream: str, record_id: str) -> Response:
        visible = self.gate.stream(stream, connection_id=self.query.connection_id())
        window = field_windows.read(visible, record_id, parse_window(self.query))
        body = envelopes.field_window_body(
            visible,
            window,
            record_key=record_id,
            path=self.query.text("field") or "",
            url=self.query.path.partition("?")[0],
        )
        return Response(
            envelopes.with_links_and_meta(
                body, self_link=self.query.path, warnings=self.query.warnings
            )
        )


def _is_window_request(request: HttpRequest) -> bool:
    known = RecordView.owner_methods.get(str(request.method), RecordView.parameters)
    try:
        return any(name.partition("[")[0] not in known for name in request.GET)
    except SuspiciousOperation:
        return True  # too many parameters: this view rejects them like any other


def parse_window(query: QueryParameters) -> field_windows.WindowRequest:
    """Parse the window parameters. Raises InvalidWindow for an invalid combination."""
    field, below = _path(query.text("field") or "")
    q = query.text("q")
    _check_combination(query, q)
    context = limits.WINDOW_CONTEXT_MAX_CHARS
    return field_windows.WindowRequest(
        field=field,
        below=below,
        limit_chars=_length(query),
        offset_chars=_number(query, "offset_chars", min_value=0),
        q=q,
        occurrence=_number(query, "occurrence", min_value=1) or 1,
        before_chars=_number(query, "before_chars", min_value=0, max_value=context),
        after_chars=_number(query, "after_chars", min_value=0, max_value=context),
        expected=_expected(query),
    )


def _path(path: str) -> tuple[str, list[str]]:
    """Parse a top-level field, or a JSON Pointer (RFC 6901) whose first token is one."""
    if not path.startswith("/"):
        tokens = [path]
    else:
        tokens = [token.replace("~1", "/").replace("~0", "~") for token in path[1:].split("/")]
    if not tokens[0] or len(tokens) > MAX_DEPTH:
        raise InvalidFieldPath(
            message="field takes a top-level field or a JSON Pointer that starts with one.",
            param="field",
        )
    return tokens[0], tokens[1:]


def _expected(query: QueryParameters) -> ExpectedText | None:
    quote, sha256 = query.text("quote"), query.text("expect_sha256")
    if quote is None and sha256 is None:
        return None
    if quote == "":
        raise InvalidWindow(message="quote takes the text to verify.", param="quote")
    if sha256 is not None and not _SHA256.fullmatch(sha256):
        raise InvalidWindow(message="expect_sha256 takes 64 hex digits.", param="expect_sha256")
    return ExpectedText(quote, sha256)


def _check_combination(query: QueryParameters, q: str | None) -> None:
    if q is not None and not q.strip():
        raise InvalidWindow(message="q takes the text to find.", param="q")
    if q is not None and query.text("offset_chars") is not None:
        raise InvalidWindow(message="Give q or offset_chars, not both.", param="offset_chars")
    for name in ("before_chars", "after_chars", "occurrence"):
        if q is None and query.text(name) is not None:
            raise InvalidWindow(message=f"{name} requires q.", param=name)


def _length(query: QueryParameters) -> int:
    length = _number(query, "limit_chars", min_value=1) or limits.WINDOW_DEFAULT_CHARS
    return query.clamp("limit_chars", length, max_value=limits.WINDOW_MAX_CHARS)


def _number(
    query: QueryParameters, name: str, *, min_value: int, max_value: int | None = None
) -> int | None:
    text = query.text(name)
    if text is None:
        return None
    plain = text.isascii() and text.isdigit() and len(text) <= 12
    number = int(text) if plain else -1
    if number < min_value or (max_value is not None and number > max_value):
        bounds = f"from {min_value}" + (f" to {max_value}" if max_value is not None else " up")
        raise InvalidWindow(message=f"{name} takes a whole number {bounds}.", param=name)
    return number
