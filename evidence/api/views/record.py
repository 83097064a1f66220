"""``GET`` and ``DELETE /v1/streams/{stream}/records/{id}``."""

from typing import ClassVar

from rest_framework.request import Request
from rest_framework.response import Response

from evidence.access.rows import VisibleRecord, VisibleRecords
from evidence.api import budget, envelopes, expansions
from evidence.api.base import GrantedView
from evidence.api.params import CONNECTION, PROJECTION
from evidence.api.sizes import size
from evidence.api.views import deleting
from evidence.declarations.types import BLOB_REFERENCE
from evidence.reading import blobs, records
from evidence.refusals import InvalidFieldPath, NotFound


class RecordView(GrantedView):
    owner_methods: ClassVar = {"DELETE": deleting.PARAMETERS}
    parameters = CONNECTION | PROJECTION | {"max_bytes"} | expansions.PARAMETERS
    or_window = False
    """Whether the key ends like the route of a field window, so the window's field may be missing."""

    def get(self, request: Request, stream: str, record_id: str) -> Response:
        visible = self.gate.stream(stream, connection_id=self.query.connection_id())
        fields = records.selected(
            visible, fields=self.query.names("fields"), view=self.query.text("view")
        )
        wanted = expansions.asked(self.query, self.gate, visible)
        record = self._one(visible, record_id)
        data = records.projected(record, fields)
        blob = blobs.kept_for(visible, record, data)
        if blob is not None:
            reference = data[BLOB_REFERENCE] | {"size_bytes": blob.size_bytes}
            data = {**data, BLOB_REFERENCE: reference}
        body = envelopes.record(visible, record, data)
        whole = size(body["data"])
        bodies = expansions.beside([body], [record], wanted)
        body = budget.fitted_alone(bodies[0], budget.asked(self.query))
        return Response(
            envelopes.finished(
                body | {"record_json_bytes": whole},
                self_link=self.query.path,
                warnings=self.query.warnings,
            )
        )

    def _one(self, visible: VisibleRecords, record_id: str) -> VisibleRecord:
        try:
            return records.one(visible, record_id)
        except NotFound as refusal:
            if not self.or_window:
                raise
            raise InvalidFieldPath(
                message="field names a top-level field, or is a JSON Pointer that starts with one.",
                param="field",
            ) from refusal

    def delete(self, request: Request, stream: str, record_id: str) -> Response:
        return deleting.delete_record(self, stream, record_id)
