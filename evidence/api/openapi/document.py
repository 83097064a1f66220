"""Assemble the OpenAPI document: paths, parameters and responses."""

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from evidence.api.error_responses import STATUS
from evidence.api.openapi.schemas import SCHEMAS, ref
from evidence.api.openapi.write_schemas import WRITE_SCHEMAS
from evidence.api.views.aggregate import AggregateView
from evidence.api.views.blobs import BlobsView, BlobView
from evidence.api.views.collectors import IngestView, StateView
from evidence.api.views.connectors import (
    ConnectorsView,
    ConnectorView,
    OwnerConnectionsView,
    OwnerConnectionView,
)
from evidence.api.views.event_subscriptions import (
    EventSubscriptionsView,
    EventSubscriptionView,
    EventTestView,
)
from evidence.api.views.record import FieldWindowView, RecordView
from evidence.api.views.records import RecordsView
from evidence.api.views.schema import SchemaView, StreamsView, StreamView
from evidence.api.views.search import HybridSearchView, SearchView, SemanticSearchView
from evidence.parameters import Parameters

Json = dict[str, Any]

COMMON_STATUSES = (400, 401, 403, 404, 413, 421, 429, 500, 503)
"""Error statuses that any route may return."""

STATUS_DESCRIPTIONS = {
    304: "The client's copy is current.",
    400: "The request is not valid; param names the invalid parameter.",
    401: "No token, or not a valid one for this resource.",
    403: "The grant or the kind of token does not allow it.",
    404: "Nothing with this name is visible to this token.",
    406: "Responses are application/json.",
    409: "Several connections match (available_connections), or the state forbids it.",
    410: "The cursor is older than the stored history.",
    413: "Too large.",
    416: "The range is outside the blob.",
    421: "This server does not serve the requested host.",
    429: "Too many requests; Retry-After says when to retry.",
    500: "Internal server error.",
    503: "Not ready, overloaded or too slow (query_timeout); Retry-After says when to retry.",
}

EVENT_TYPE = "application/cloudevents+json"
BODY_SCHEMAS: Json = {
    "application/json": {"type": "object"},
    "application/x-ndjson": {"type": "string", "description": "A JSON object a line."},
    "application/octet-stream": {},
}


def _path_parameter(name: str, description: str) -> Json:
    return {
        "name": name,
        "in": "path",
        "required": True,
        "description": description,
        "schema": {"type": "string", "minLength": 1},
    }


STREAM = _path_parameter("stream", "The name of a stream, as the schema lists it.")
RECORD = _path_parameter("record_id", "The id of a record, percent-encoded.")
BLOB = _path_parameter("blob_id", "The id in a record's blob_ref.")
CONNECTOR = _path_parameter(
    "connector_id", "The key of a connector, or its absolute id, percent-encoded."
)
CONNECTION_ID = _path_parameter("connection_id", "The id of a connection.")
SUBSCRIPTION = _path_parameter("subscription_id", "The id of a subscription.")


@lru_cache(maxsize=1)
def document() -> Json:
    """Return the OpenAPI document, the same for every client."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "PDPP resource server",
            "version": "0.1.0",
            "description": "One owner's records, limited to what a grant shows. "
            "Offsets count Unicode code points; times are RFC 3339 in UTC.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/v1"}],
        "security": [{"bearer": []}],
        "paths": _stream_paths() | _other_paths() | _event_paths() | _owner_paths(),
        "webhooks": {"event": {"post": _event()}},
        "components": {
            "schemas": SCHEMAS | WRITE_SCHEMAS,
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
        },
    }


def _stream_paths() -> Json:
    return {
        "/schema": {
            "get": _read(
                "getSchema", "Describe what this token can read.", SchemaView, "Schema", 304, 409
            )
        },
        "/streams": {"get": _read("listStreams", "List streams.", StreamsView, "StreamList", 304)},
        "/streams/{stream}": _at(
            [STREAM],
            get=_read("getStream", "Get a stream.", StreamView, "StreamMetadata", 304, 409),
        ),
        "/streams/{stream}/records": _at(
            [STREAM],
            get=_read(
                "listRecords", "List records or changes.", RecordsView, "RecordList", 409, 410
            ),
            delete=_delete("deleteRecords", "Delete a whole stream.", RecordsView),
        ),
        "/streams/{stream}/records/{record_id}": _at(
            [STREAM, RECORD],
            get=_read("getRecord", "Get a record.", RecordView, "Record", 409),
            delete=_delete("deleteRecord", "Delete one record.", RecordView),
        ),
        "/streams/{stream}/records/{record_id}/field-window": _at(
            [STREAM, RECORD],
            get=_read(
                "readFieldWindow", "Read a window of a text field.", FieldWindowView,
                "FieldWindow", 409,
            ),
        ),
        "/streams/{stream}/aggregate": _at(
            [STREAM],
            get=_read(
                "aggregate", "Counts, sums and histograms.", AggregateView, "Aggregation", 409,
            ),
        ),
    }  # fmt: skip


def _other_paths() -> Json:
    return {
        "/blobs": {
            "post": _write("putBlob", "Store the bytes of a record's blob.", BlobsView, "Blob",
                           "application/octet-stream", 200, 409)
        },
        "/blobs/{blob_id}": _at([BLOB], get=_blob()),
        "/search": {
            "get": _read("search", "Search with excerpts.", SearchView, "SearchHits", 410)
        },
        "/search/semantic": {
            "get": _read("searchByMeaning", "Search by meaning.", SemanticSearchView, "SearchHits",
                         404, 410)
        },
        "/search/hybrid": {
            "get": _read("searchHybrid", "Search by words and meaning.", HybridSearchView,
                         "SearchHits", 404, 410)
        },
        "/connectors": {
            "get": _read("listConnectors", "List connectors.", ConnectorsView, "ConnectorList"),
            "post": _write("declareConnector", "Declare a source.", ConnectorsView, "Connector",
                           "application/json", 200, 201),
        },
        "/connectors/{connector_id}": _at(
            [CONNECTOR],
            get=_read("getConnector", "Get a source declaration (owner only).", ConnectorView,
                      "Declaration"),
        ),
    }  # fmt: skip


def _event() -> Json:
    """Describe the webhook request (docs/events.md)."""
    return {
        "operationId": "receiveEvent",
        "summary": "An event, signed as in Standard Webhooks.",
        "security": [],
        "requestBody": {"content": {EVENT_TYPE: {"schema": ref("Event")}}},
        "responses": {"2XX": {"description": "Received; echoes the challenge as JSON."}},
    }


def _event_paths() -> Json:
    one, json = "/event-subscriptions/{subscription_id}", "application/json"
    return {
        "/event-subscriptions": {
            "get": _read("listSubscriptions", "List event subscriptions.", EventSubscriptionsView,
                         "SubscriptionList"),
            "post": _write("subscribe", "Create an event subscription.", EventSubscriptionsView,
                           "SubscriptionCreated", json, 201, takes="SubscriptionRequest"),
        },
        one: _at(
            [SUBSCRIPTION],
            get=_read("getSubscription", "Get an event subscription.", EventSubscriptionView, "Subscription"),
            patch=_write("changeSubscription", "Enable, disable, or rotate the secret.",
                         EventSubscriptionView, "SubscriptionChanged", json, 200, 409,
                         takes="SubscriptionChange"),
            delete=_delete("unsubscribe", "Delete an event subscription.", EventSubscriptionView),
        ),
        f"{one}/test-event": _at(
            [SUBSCRIPTION],
            post=_write("sendTestEvent", "Send a test event without data.", EventTestView,
                        "EventAccepted", json, 202, 409),
        ),
    }  # fmt: skip


def _owner_paths() -> Json:
    return {
        "/owner/connections": {
            "get": _read("listOwnConnections", "The owner's connections.", OwnerConnectionsView,
                         "OwnerConnectionList")
        },
        "/owner/connections/{connection_id}": _at(
            [CONNECTION_ID],
            patch=_write("renameConnection", "Rename a connection.", OwnerConnectionView,
                         "OwnerConnection", "application/json", 200),
        ),
        "/ingest/{stream}": _at(
            [STREAM],
            post=_write("ingest", "Store records as NDJSON lines.", IngestView, "IngestReceipt",
                        "application/x-ndjson", 200, 409),
        ),
        "/state/{connector_id}": _at(
            [CONNECTOR],
            get=_read("getState", "Get a collector's state.", StateView, "CollectorState"),
            put=_write("putState", "Store a collector's state.", StateView, "CollectorState",
                       "application/json", 200),
        ),
    }  # fmt: skip


def _at(parameters: list[Json], **operations: Json) -> Json:
    return {"parameters": parameters, **operations}


def _read(name: str, summary: str, view: Any, schema: str, *statuses: int) -> Json:
    return {
        "operationId": name,
        "summary": summary,
        "parameters": _query_parameters(view.parameters),
        "responses": _responses((200, *statuses), schema),
    }


def _blob() -> Json:
    operation = _read("readBlob", "Download a blob.", BlobView, "Blob", 206, 304, 409, 416)
    for status, description in (("200", "The complete blob."), ("206", "The range.")):
        operation["responses"][status] = {
            "description": description,
            "content": {"*/*": {"schema": {}}},
        }
    return operation


def _delete(name: str, summary: str, view: Any) -> Json:
    responses = _responses((409,), "Error")
    return {
        "operationId": name,
        "summary": summary,
        "parameters": _query_parameters(view.owner_methods.get("DELETE", view.parameters)),
        "responses": {"204": {"description": "Deleted."}, **responses},
    }


def _write(
    name: str,
    summary: str,
    view: Any,
    schema: str,
    media: str,
    *statuses: int,
    takes: str | None = None,
) -> Json:
    return {
        "operationId": name,
        "summary": summary,
        "parameters": _query_parameters(view.parameters),
        "requestBody": {
            "content": {media: {"schema": ref(takes) if takes else BODY_SCHEMAS[media]}}
        },
        "responses": _responses(statuses, schema),
    }


def _query_parameters(model: type[Parameters]) -> list[Json]:
    """Return the parameters of a route; names may be joined by commas, keys stand in brackets."""
    return [
        {
            "name": name,
            "in": "query",
            "required": model.model_fields[name].is_required(),
            "description": schema["description"],
            "schema": {
                key: schema[key] for key in schema if key not in ("description", "expected")
            },
            **_STYLES.get(schema["type"], {}),
        }
        for name, schema in sorted(model.schemas().items())
    ]


_STYLES: Json = {
    "array": {"style": "form", "explode": False},
    "object": {"style": "deepObject", "explode": True},
}


def _responses(statuses: Iterable[int], schema: str) -> Json:
    return {
        str(status): _response(status, schema)
        for status in sorted({*statuses, *COMMON_STATUSES, 406})
    }


def _response(status: int, schema: str) -> Json:
    if status == 304:
        return {"description": STATUS_DESCRIPTIONS[304]}
    if status < 300:
        return {"description": "Success.", "content": _json(schema)}
    assert status in STATUS.values()  # noqa: S101 - every status needs an error code
    return {"description": STATUS_DESCRIPTIONS[status], "content": _json("Error")}


def _json(schema: str) -> Json:
    return {"application/json": {"schema": ref(schema)}}
