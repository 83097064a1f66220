"""``GET /v1/streams/{stream}/records/{id}/field-window``."""

from rest_framework.request import Request
from rest_framework.response import Response

from evidence import limits
from evidence.api import envelopes
from evidence.api.base import GrantedView
from evidence.api.params import CONNECTION, Parameters
from evidence.reading import field_windows
from evidence.refusals import InvalidFieldPath, InvalidWindow


class FieldWindowView(GrantedView):
    parameters = CONNECTION | {
        "field", "offset_chars", "limit_chars", "q", "occurrence", "before_chars", "after_chars",
    }  # fmt: skip

    def get(self, request: Request, stream: str, record_id: str) -> Response:
        visible = self.gate.stream(stream, connection_id=self.query.connection_id())
        window = field_windows.read(visible, record_id, asked(self.query))
        body = envelopes.field_window(
            visible, window, record_key=record_id, url=self.query.path.partition("?")[0]
        )
        return Response(
            envelopes.finished(body, self_link=self.query.path, warnings=self.query.warnings)
        )


def asked(query: Parameters) -> field_windows.WindowRequest:
    """The window that the parameters describe; ``InvalidWindow`` for any other combination."""
    field = query.text("field")
    if not field:
        raise InvalidFieldPath(message="field names a top-level field.", param="field")
    q = query.text("q")
    _check_combination(query, q)
    context = limits.WINDOW_CONTEXT_MAX_CHARS
    return field_windows.WindowRequest(
        field=field,
        limit_chars=_length(query),
        offset_chars=_number(query, "offset_chars", least=0) or 0,
        q=q,
        occurrence=_number(query, "occurrence", least=1) or 1,
        before_chars=_number(query, "before_chars", least=0, most=context),
        after_chars=_number(query, "after_chars", least=0, most=context),
    )


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
