"""``GET`` and ``HEAD /v1/blobs/{blob_id}``, and ``POST /v1/blobs`` by the owner (contract 3.8).

A blob is whatever somebody once attached to a mail. A browser must neither guess its type nor run
it: only pictures and PDF are ever shown in place, and even those in a sandbox.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from django.http import HttpRequest, HttpResponse, HttpResponseNotModified, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.utils import timezone
from django.utils.http import content_disposition_header, parse_etags
from rest_framework.request import Request
from rest_framework.response import Response
from typing_extensions import override

from evidence import limits
from evidence.access.record_parts import VisibleBlob, pieces
from evidence.api import error_responses
from evidence.api.base_views import GrantedView
from evidence.api.query_parameters import CONNECTION, Parameters
from evidence.api.target_connection import owned_connection
from evidence.declarations.declaration import BLOB_REFERENCE
from evidence.errors import InvalidRequest, RangeNotSatisfiable, Refusal, ResourceLimit
from evidence.ledger.entries import Shown
from evidence.reading import blobs
from evidence.storing.blobs import MEDIA_TYPE, put_blob
from evidence.storing.targets import one_of

SHOWN_IN_PLACE = frozenset(
    {"application/pdf", "image/avif", "image/gif", "image/jpeg", "image/png", "image/webp"}
)
PLACES = ("@record", "/blob_ref")
READ_BYTES = 64 * 1024


class BlobView(GrantedView):
    """The bytes, or a range of them, never more than a piece of them in memory."""

    parameters = CONNECTION

    @override
    def perform_content_negotiation(self, request: Request, force: bool = False) -> Any:
        # The blob has the type that it has; refusals are JSON whatever was asked for.
        return super().perform_content_negotiation(request, force=True)

    def get(self, request: Request, blob_id: str) -> HttpResponseBase:
        blob = self.blob = blobs.one(self.gate, blob_id, connection_id=self.query.connection_id())
        tag = f'"{blob.sha256}"'
        try:
            response = _response(blob, request._request, tag)  # noqa: SLF001 - its headers
        except RangeNotSatisfiable as refusal:
            refused = error_responses.handle(refusal, {"view": self})
            refused["Content-Range"] = f"bytes */{blob.size_bytes}"
            return refused
        response["ETag"] = tag
        response["Accept-Ranges"] = "bytes"
        for notice in self.query.warnings:
            response["PDPP-Warning"] = notice.code
        return response

    @override
    def shown_in(self, response: HttpResponseBase) -> Sequence[Shown]:
        blob = self.blob
        place = (blob.connection.connection_id, blob.visible.stream.name, blob.record_key)
        return [Shown(*place, fields=frozenset({BLOB_REFERENCE}))]

    @override
    def told_by(self, refusal: Refusal) -> Sequence[Shown]:
        """A range beyond the blob is refused with its size."""
        if not isinstance(refusal, RangeNotSatisfiable):
            return []
        return self.shown_in(Response())


class BlobsView(GrantedView):
    """Takes the bytes of a record's blob; the record names it by ``blob_ref.blob_id``."""

    owner_only = True
    parameters = CONNECTION | {"stream", "record_key", "json_path", "mime_type"}

    def post(self, request: Request) -> Response:
        stream = _required(self.query, "stream")
        record_key = _required(self.query, "record_key")
        self.query.choice("json_path", *PLACES, default=PLACES[0])
        connection_id = owned_connection(self.scope, self.query)
        one_of(self.scope.owner_id, connection_id=connection_id, stream=stream)
        blob = put_blob(
            connection_id,
            stream=stream,
            record_key=record_key,
            media_type=_media_type(self.query, request),
            chunks=_chunks(request._request),  # noqa: SLF001 - the bytes are read as they come
            now=timezone.now(),
        )
        return Response(
            {
                "object": "blob",
                "blob_id": blob.blob_id,
                "sha256": bytes(blob.sha256).hex(),
                "size_bytes": blob.size_bytes,
                "mime_type": blob.media_type,
            }
        )


def _response(blob: VisibleBlob, request: HttpRequest, tag: str) -> HttpResponseBase:
    known = parse_etags(request.headers.get("If-None-Match", ""))
    if "*" in known or any(each.removeprefix("W/") == tag for each in known):
        return HttpResponseNotModified()
    if request.method == "HEAD":
        return _described(HttpResponse(), blob, length=blob.size_bytes)
    wanted = request.headers.get("Range")
    if request.headers.get("If-Range", tag) != tag:
        wanted = None
    part = blobs.part(blob, wanted)
    start, end = (part.start, part.end) if part is not None else (0, blob.size_bytes)
    response = StreamingHttpResponse(pieces(blob, start=start, end=end))
    if part is not None:
        response.status_code = 206
        response["Content-Range"] = f"bytes {start}-{end - 1}/{blob.size_bytes}"
    return _described(response, blob, length=end - start)


def _described(response: HttpResponseBase, blob: VisibleBlob, *, length: int) -> HttpResponseBase:
    kind = blob.media_type.partition(";")[0].strip().lower()
    response["Content-Type"] = blob.media_type
    response["Content-Length"] = str(length)
    attached = kind not in SHOWN_IN_PLACE
    response["Content-Disposition"] = (
        content_disposition_header(attached, blob.blob_id) or "attachment"
    )
    response["X-Content-Type-Options"] = "nosniff"
    response["Content-Security-Policy"] = "default-src 'none'; sandbox"
    response["Cross-Origin-Resource-Policy"] = "same-origin"
    return response


def _required(query: Parameters, name: str) -> str:
    text = query.text(name)
    if not text:
        raise InvalidRequest(message=f"{name} is required.", param=name)
    return text


def _media_type(query: Parameters, request: Request) -> str:
    """As named, else as the request says its body is; ``application/octet-stream`` failing both."""
    named = query.text("mime_type")
    if named is not None and not MEDIA_TYPE.fullmatch(named):
        raise InvalidRequest(message="mime_type is not a media type.", param="mime_type")
    sent = request.headers.get("Content-Type", "")
    return named or (sent if MEDIA_TYPE.fullmatch(sent) else "application/octet-stream")


def _chunks(request: HttpRequest) -> Iterator[bytes]:
    """The body. Raises ``ResourceLimit`` where it is longer than a blob may be."""
    size = 0
    while chunk := request.read(READ_BYTES):
        size += len(chunk)
        if size > limits.BLOB_MAX_BYTES:
            raise ResourceLimit(message=f"A blob has at most {limits.BLOB_MAX_BYTES} bytes.")
        yield chunk
