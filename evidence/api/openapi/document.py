"""The document itself: routes, their parameters, their answers."""

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from evidence.api.error_responses import STATUS
from evidence.api.openapi.event_schemas import EVENT_SCHEMAS
from evidence.api.openapi.parameters import described, in_path
from evidence.api.openapi.schemas import SCHEMAS, ref
from evidence.api.views.aggregate import AggregateView
from evidence.api.views.blobs import BlobsView, BlobView
from evidence.api.views.collectors import IngestView, StateView
from evidence.api.views.connectors import ConnectorsView, ConnectorView
from evidence.api.views.event_subscriptions import (
    EventSubscriptionsView,
    EventSubscriptionView,
    EventTestView,
)
from evidence.api.views.field_window import FieldWindowView
from evidence.api.views.owner_connections import OwnerConnectionsView, OwnerConnectionView
from evidence.api.views.records import RecordsView, RecordView
from evidence.api.views.schema import SchemaView, StreamsView, StreamView
from evidence.api.views.search import HybridSearchView, SearchView, SemanticSearchView

Json = dict[str, Any]

ALWAYS = (400, 401, 403, 404, 413, 421, 429, 500, 503)
"""What any route may answer instead of its own success."""

MEANINGS = {
    304: "What the client has is still current.",
    400: "The request is not valid; param names what is wrong with it.",
    401: "No token, or not a valid one for this resource.",
    403: "The grant or the kind of token does not allow it.",
    404: "Nothing of that name is visible to this token.",
    406: "Only application/json is spoken.",
    409: "Several connections match, which available_connections names; or it is in no state for that.",
    410: "The cursor is older than what is kept.",
    413: "Too large.",
    416: "The range lies outside the blob.",
    421: "This server does not answer for that host.",
    429: "Too much in too short a time; Retry-After says when to go on.",
    500: "Something went wrong here.",
    503: "Not ready to answer, too busy with this token's other requests, or (query_timeout) too slow;"
    " Retry-After says when to go on.",
}

EVENT_TYPE = "application/cloudevents+json"
BODIES: Json = {
    "application/json": {"type": "object"},
    "application/x-ndjson": {"type": "string", "description": "A JSON object a line."},
    "application/octet-stream": {},
}

STREAM = in_path("stream", "The name of a stream, as the schema lists it.")
RECORD = in_path("record_id", "The id of a record, percent-encoded.")
BLOB = in_path("blob_id", "The id in a record's blob_ref.")
CONNECTOR = in_path("connector_id", "The key of a connector, or its absolute id, percent-encoded.")
CONNECTION_ID = in_path("connection_id", "The id of a connection.")
SUBSCRIPTION = in_path("subscription_id", "The id of a subscription.")


@lru_cache(maxsize=1)
def document() -> Json:
    """The whole document; the same for every caller."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "PDPP resource server",
            "version": "0.1.0",
            "description": "One owner's records, as far as a grant shows them. "
            "Offsets count Unicode code points; times are RFC 3339 in UTC.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/v1"}],
        "security": [{"bearer": []}],
        "paths": _paths(),
        "webhooks": {"event": {"post": _event()}},
        "components": {
            "schemas": SCHEMAS | EVENT_SCHEMAS,
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
        },
    }


def _paths() -> Json:
    return _stream_paths() | _record_paths() | _other_paths() | _event_paths() | _owner_paths()


def _stream_paths() -> Json:
    return {
        "/schema": {
            "get": _read("getSchema", "What this token can do.", SchemaView, "Schema", 304, 409)
        },
        "/streams": {"get": _read("listStreams", "Every stream.", StreamsView, "StreamList", 304)},
        "/streams/{stream}": _at(
            [STREAM],
            get=_read("getStream", "One stream.", StreamView, "StreamMetadata", 304, 409),
        ),
    }


def _record_paths() -> Json:
    return {
        "/streams/{stream}/records": _at(
            [STREAM],
            get=_read(
                "listRecords", "Records, or their changes.", RecordsView, "RecordList", 409, 410
            ),
            delete=_delete("deleteRecords", "Delete a whole stream.", RecordsView),
        ),
        "/streams/{stream}/records/{record_id}": _at(
            [STREAM, RECORD],
            get=_read("getRecord", "One record.", RecordView, "Record", 409),
            delete=_delete("deleteRecord", "Delete one record.", RecordView),
        ),
        "/streams/{stream}/records/{record_id}/field-window": _at(
            [STREAM, RECORD],
            get=_read(
                "readFieldWindow", "A bounded window into one text field.", FieldWindowView,
                "FieldWindow", 409, required=["field"],
            ),
        ),
        "/streams/{stream}/aggregate": _at(
            [STREAM],
            get=_read(
                "aggregate", "Counts, sums and histograms.", AggregateView, "Aggregation", 409,
                required=["metric"],
            ),
        ),
    }  # fmt: skip


def _other_paths() -> Json:
    return {
        "/blobs": {
            "post": _write("putBlob", "Store the bytes of a record's blob.", BlobsView, "Blob",
                           "application/octet-stream", 200, 409,
                           required=["stream", "record_key"])
        },
        "/blobs/{blob_id}": _at([BLOB], get=_blob()),
        "/search": {
            "get": _read("search", "Search, with evidence.", SearchView, "SearchHits", 410,
                         required=["q"])
        },
        "/search/semantic": {
            "get": _read("searchByMeaning", "Search by meaning.", SemanticSearchView, "SearchHits",
                         404, 410, required=["q"])
        },
        "/search/hybrid": {
            "get": _read("searchHybrid", "Search by words and meaning.", HybridSearchView,
                         "SearchHits", 404, 410, required=["q"])
        },
        "/connectors": {
            "get": _read("listConnectors", "What is declared.", ConnectorsView, "ConnectorList"),
            "post": _write("declareConnector", "Declare a source.", ConnectorsView, "Connector",
                           "application/json", 200, 201),
        },
        "/connectors/{connector_id}": _at(
            [CONNECTOR],
            get=_read("getConnector", "What was declared, by the owner.", ConnectorView,
                      "Declaration"),
        ),
    }  # fmt: skip


def _event_paths() -> Json:
    one, json = "/event-subscriptions/{subscription_id}", "application/json"
    return {
        "/event-subscriptions": {
            "get": _read("listSubscriptions", "Who is told of changes.", EventSubscriptionsView,
                         "SubscriptionList"),
            "post": _write("subscribe", "Be told of changes.", EventSubscriptionsView,
                           "SubscriptionCreated", json, 201, takes="SubscriptionRequest"),
        },
        one: _at(
            [SUBSCRIPTION],
            get=_read("getSubscription", "One of them.", EventSubscriptionView, "Subscription"),
            patch=_write("changeSubscription", "Switch it, or give it a new secret.",
                         EventSubscriptionView, "SubscriptionChanged", json, 200, 409,
                         takes="SubscriptionChange"),
            delete=_delete("unsubscribe", "Be told no more.", EventSubscriptionView),
        ),
        f"{one}/test-event": _at(
            [SUBSCRIPTION],
            post=_write("sendTestEvent", "A message that tells of nothing.", EventTestView,
                        "EventAccepted", json, 202, 409),
        ),
    }  # fmt: skip


def _event() -> Json:
    """What is sent to a callback_url (docs/events.md)."""
    return {
        "operationId": "receiveEvent",
        "summary": "What a receiver is sent, signed as Standard Webhooks says.",
        "security": [],
        "requestBody": {"content": {EVENT_TYPE: {"schema": ref("Event")}}},
        "responses": {"2XX": {"description": "Received; the challenge in it is echoed as JSON."}},
    }


def _owner_paths() -> Json:
    return {
        "/owner/connections": {
            "get": _read("listOwnConnections", "The owner's connections.", OwnerConnectionsView,
                         "OwnerConnectionList")
        },
        "/owner/connections/{connection_id}": _at(
            [CONNECTION_ID],
            patch=_write("renameConnection", "Give it another label.", OwnerConnectionView,
                         "OwnerConnection", "application/json", 200),
        ),
        "/ingest/{stream}": _at(
            [STREAM],
            post=_write("ingest", "Store records, a line each.", IngestView, "IngestReceipt",
                        "application/x-ndjson", 200, 409),
        ),
        "/state/{connector_id}": _at(
            [CONNECTOR],
            get=_read("getState", "What a collector left.", StateView, "CollectorState"),
            put=_write("putState", "Leave something.", StateView, "CollectorState",
                       "application/json", 200),
        ),
    }  # fmt: skip


def _at(parameters: list[Json], **operations: Json) -> Json:
    return {"parameters": parameters, **operations}


def _read(
    name: str, summary: str, view: Any, schema: str, *statuses: int, required: Iterable[str] = ()
) -> Json:
    return {
        "operationId": name,
        "summary": summary,
        "parameters": described(view.parameters, required=required),
        "responses": _responses((200, *statuses), schema),
    }


def _blob() -> Json:
    operation = _read(
        "readBlob", "The bytes that a record points at.", BlobView, "Blob", 206, 304, 409, 416
    )
    whatever: Json = {"*/*": {"schema": {}}}
    operation["responses"]["200"] = {"description": "All of the bytes.", "content": whatever}
    operation["responses"]["206"] = {"description": "The range.", "content": whatever}
    return operation


def _delete(name: str, summary: str, view: Any) -> Json:
    responses = _responses((409,), "Error")
    return {
        "operationId": name,
        "summary": summary,
        "parameters": described(view.owner_methods.get("DELETE", view.parameters)),
        "responses": {"204": {"description": "It is not there any more."}, **responses},
    }


def _write(
    name: str,
    summary: str,
    view: Any,
    schema: str,
    media: str,
    *statuses: int,
    required: Iterable[str] = (),
    takes: str | None = None,
) -> Json:
    return {
        "operationId": name,
        "summary": summary,
        "parameters": described(view.parameters, required=required),
        "requestBody": {"content": {media: {"schema": ref(takes) if takes else BODIES[media]}}},
        "responses": _responses(statuses, schema),
    }


def _responses(statuses: Iterable[int], schema: str) -> Json:
    return {str(status): _response(status, schema) for status in sorted({*statuses, *ALWAYS, 406})}


def _response(status: int, schema: str) -> Json:
    if status == 304:
        return {"description": MEANINGS[304]}
    if status < 300:
        return {"description": "As asked.", "content": _json(schema)}
    assert status in STATUS.values()  # noqa: S101 - a status that no code has is a slip here
    return {"description": MEANINGS[status], "content": _json("Error")}


def _json(schema: str) -> Json:
    return {"application/json": {"schema": ref(schema)}}
