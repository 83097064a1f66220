"""Open the file of a record: pictures and PDF files in the browser, all others as downloads."""

from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.utils.http import content_disposition_header
from django.views.decorators.http import require_safe

from evidence.access.gate import Gate
from evidence.access.owner_scope import owner_scope
from evidence.api.views.blobs import blob_response
from evidence.declarations.declaration import BLOB_REFERENCE
from evidence.errors import ApiException, RangeNotSatisfiable
from evidence.ledger.entries import DisclosedItem
from evidence.reading import blobs
from owner.permissions import owner_required
from owner.records.owner_reads import record_owner_read
from owner.site import owner
from owner.text import record_title


@require_safe
@owner_required
def record_file(request: HttpRequest, connection_id: str, blob_id: str) -> HttpResponseBase:
    """Stream the file with the headers of the REST API, which keep browsers from running it."""
    gate = Gate(owner_scope(owner().pk))
    try:
        with transaction.atomic():
            blob = blobs.get(gate, blob_id, connection_id=connection_id)
            place = (connection_id, blob.visible.stream.name, blob.record_key)
            item = DisclosedItem(*place, frozenset({BLOB_REFERENCE}))
            record_owner_read(gate.scope, [item], route="file")
            [record] = blob.visible.for_connection(connection_id).get(blob.record_key)
        response = blob_response(blob, request)
    except RangeNotSatisfiable:
        return HttpResponse(status=416)
    except ApiException as refusal:
        raise Http404 from refusal
    is_attachment = response.get("Content-Disposition", "").startswith("attachment")
    name = record_title(blob.visible, record)
    response["Content-Disposition"] = content_disposition_header(is_attachment, name) or "inline"
    return response
