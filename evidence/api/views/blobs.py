"""Download blobs with ranges, and upload them as the owner (contract 3.8).

A blob is untrusted. A browser must neither guess its type nor run it: only images and PDF files are
shown inline, in a sandbox.
"""

from collections.abc import Iterator
from typing import Any, ClassVar

from django.http import HttpRequest, HttpResponse, HttpResponseNotModified, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.utils import timezone
from django.utils.http import content_disposition_header, parse_etags
from rest_framework.request import Request
from rest_framework.response import Response
from typing_extensions import override

from evidence import limits
from evidence.access.record_details import VisibleBlob, get_blob, parse_range, read_chunks
from evidence.api import error_responses
from evidence.api.base_views import Answer, Described, GrantedView, target_connection_id
from evidence.declarations.declaration import BLOB_REFERENCE
from evidence.errors import InvalidRequest, RangeNotSatisfiable, ResourceLimit
from evidence.ledger.entries import DisclosedItem
from evidence.parameters import Connections, PutBlob
from evidence.write.blobs import MEDIA_TYPE, put_blob
from evidence.write.targets import load_one_target

INLINE_MEDIA_TYPES = frozenset(
    {"application/pdf", "image/avif", "image/gif", "image/jpeg", "image/png", "image/webp"}
)
READ_BYTES = 64 * 1024


class BlobView(GrantedView):
    """Stream a blob or a range of it."""

    route = "blob"
    described: ClassVar = {"GET": Described(status="2XX")}
    parameters = Connections
    query: Connections

    @override
    def perform_content_negotiation(self, request: Request, force: bool = False) -> Any:
        # A blob has its own media type, and errors are JSON, whatever the client accepts.
        return super().perform_content_negotiation(request, force=True)

    def get(self, request: Request, blob_id: str) -> Answer | HttpResponseBase:
        blob = get_blob(self.gate, blob_id, connection_id=self.query.connection_id)
        try:
            response = blob_response(blob, request._request)  # noqa: SLF001 - its headers
        except RangeNotSatisfiable as error:
            response = error_responses.handle_exception(error, {"view": self})
            response["Content-Range"] = f"bytes */{blob.size_bytes}"
            return response
        for notice in self.warnings:
            response["PDPP-Warning"] = notice.code
        place = (blob.connection.connection_id, blob.visible.stream.name, blob.record_key)
        return Answer(response, [DisclosedItem(*place, fields=frozenset({BLOB_REFERENCE}))])


class BlobsView(GrantedView):
    """Store the bytes of a record's blob. The record refers to them by `blob_ref.blob_id`."""

    route = "blobs"
    described: ClassVar = {"POST": Described("Blob", takes="application/octet-stream")}
    owner_only = True
    collector_methods = frozenset({"POST"})
    parameters = PutBlob
    query: PutBlob

    def post(self, request: Request) -> Response:
        stream, record_key = self.query.stream, self.query.record_key
        connection_id = target_connection_id(self.scope, self.query)
        load_one_target(self.scope.owner_id, connection_id=connection_id, stream=stream)
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


def blob_response(blob: VisibleBlob, request: HttpRequest) -> HttpResponseBase:
    """Return the bytes, a range of them, or 304. Raises RangeNotSatisfiable."""
    response = _content(blob, request, f'"{blob.sha256}"')
    response["ETag"] = f'"{blob.sha256}"'
    response["Accept-Ranges"] = "bytes"
    return response


def _content(blob: VisibleBlob, request: HttpRequest, tag: str) -> HttpResponseBase:
    client_tags = parse_etags(request.headers.get("If-None-Match", ""))
    if "*" in client_tags or any(known.removeprefix("W/") == tag for known in client_tags):
        return HttpResponseNotModified()
    if request.method == "HEAD":
        return _described(HttpResponse(), blob, length=blob.size_bytes)
    requested_range = request.headers.get("Range")
    if request.headers.get("If-Range", tag) != tag:
        requested_range = None
    part = parse_range(blob, requested_range)
    start, end = (part.start, part.end) if part is not None else (0, blob.size_bytes)
    response = StreamingHttpResponse(read_chunks(blob, start=start, end=end))
    if part is not None:
        response.status_code = 206
        response["Content-Range"] = f"bytes {start}-{end - 1}/{blob.size_bytes}"
    return _described(response, blob, length=end - start)


def _described(response: HttpResponseBase, blob: VisibleBlob, *, length: int) -> HttpResponseBase:
    kind = blob.media_type.partition(";")[0].strip().lower()
    response["Content-Type"] = blob.media_type
    response["Content-Length"] = str(length)
    attached = kind not in INLINE_MEDIA_TYPES
    response["Content-Disposition"] = (
        content_disposition_header(attached, blob.blob_id) or "attachment"
    )
    response["X-Content-Type-Options"] = "nosniff"
    response["Content-Security-Policy"] = "default-src 'none'; sandbox"
    response["Cross-Origin-Resource-Policy"] = "same-origin"
    return response


def _media_type(query: PutBlob, request: Request) -> str:
    """Return `mime_type`, else the Content-Type, else `application/octet-stream`."""
    named = query.mime_type
    if named is not None and not MEDIA_TYPE.fullmatch(named):
        raise InvalidRequest(message="mime_type is not a media type.", param="mime_type")
    sent = request.headers.get("Content-Type", "")
    return named or (sent if MEDIA_TYPE.fullmatch(sent) else "application/octet-stream")


def _chunks(request: HttpRequest) -> Iterator[bytes]:
    """Yield the body in chunks. Raises ResourceLimit over BLOB_MAX_BYTES."""
    size = 0
    while chunk := request.read(READ_BYTES):
        size += len(chunk)
        if size > limits.BLOB_MAX_BYTES:
            raise ResourceLimit(message=f"A blob takes at most {limits.BLOB_MAX_BYTES} bytes.")
        yield chunk
