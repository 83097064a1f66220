"""The OpenAPI document, which follows from the routes, their views and the models of their parameters.

`/v1/openapi.json` serves it, and an offline page shows it.
"""

import re
from functools import lru_cache
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import URLPattern, get_resolver
from django.views import View
from rest_framework.request import Request
from rest_framework.response import Response

from evidence.api.base_views import Described, PublicView
from evidence.declarations.declaration import Origin
from evidence.errors import Code
from evidence.events.messages import PDPP_VERSION, SPEC_VERSION
from evidence.models.events import Event, Subscription
from evidence.parameters import Parameters

Json = dict[str, Any]

STRING: Json = {"type": "string"}
INTEGER: Json = {"type": "integer"}
BOOLEAN: Json = {"type": "boolean"}
MOMENT: Json = {"type": "string", "format": "date-time"}
ANY_OBJECT: Json = {"type": "object"}
ORIGIN: Json = {"enum": [str(origin) for origin in Origin]}


def ref(name: str) -> Json:
    return {"$ref": f"#/components/schemas/{name}"}


def obj(required: dict[str, Json], optional: dict[str, Json] | None = None) -> Json:
    return {
        "type": "object",
        "required": list(required),
        "properties": required | (optional or {}),
    }


def array(items: Json) -> Json:
    return {"type": "array", "items": items}


def nullable(schema: Json) -> Json:
    return {"anyOf": [schema, {"type": "null"}]}


AMOUNTS: Json = {"type": "object", "additionalProperties": nullable(STRING)}


def listing(items: Json, **more: Json) -> Json:
    return obj(
        {"object": {"const": "list"}, "has_more": BOOLEAN, "data": array(items), **ENVELOPE},
        {"url": STRING, "next_cursor": STRING, "next_changes_since": STRING, **more},
    )


ENVELOPE: dict[str, Json] = {"links": ref("Links"), "meta": ref("Meta")}
COMPACT_LIST = {
    **obj(
        {"object": {"const": "list"}, "has_more": BOOLEAN, "data": array({"type": "object"})},
        {
            "shared": {"type": "object"},
            "connections": {"type": "object"},
            "meta": {"type": "object"},
            "next_cursor": STRING,
            "next_changes_since": STRING,
        },
    ),
    "not": {"required": ["links"]},
    "description": "The answer with form=compact. Members of all items stand once, in shared.",
}

WINDOW = obj(
    {
        "text": STRING,
        "start_chars": INTEGER,
        "end_chars": INTEGER,
        "limit_chars": INTEGER,
        "total_chars": INTEGER,
        "complete": BOOLEAN,
        "has_more": BOOLEAN,
        "next_offset_chars": nullable(INTEGER),
        "previous_offset_chars": nullable(INTEGER),
    },
    {"match_start_chars": INTEGER, "match_end_chars": INTEGER},
)

SOURCE: dict[str, Json] = {
    "stream": STRING,
    "connection_id": STRING,
    "connector_key": STRING,
    "display_name": STRING,
    "emitted_at": MOMENT,
}
SCORE = obj({"kind": STRING, "value": {"type": "number"}, "order": STRING})
EXCERPT = obj(
    {
        "object": {"const": "evidence_excerpt"},
        "field_path": STRING,
        "preview_text": STRING,
        "plain_text": STRING,
        "start_chars": INTEGER,
        "end_chars": INTEGER,
        "match_start_chars": INTEGER,
        "match_end_chars": INTEGER,
        "truncated": BOOLEAN,
        "provenance": STRING,
        "field_sha256": STRING,
        "read": ref("FieldWindowRead"),
    }
)

SCHEMAS: dict[str, Json] = {
    "CompactList": COMPACT_LIST,
    "Error": obj(
        {
            "error": obj(
                {
                    "type": STRING,
                    "code": {"type": "string", "enum": [str(code) for code in Code]},
                    "message": STRING,
                    "request_id": STRING,
                },
                {
                    "param": STRING,
                    "next_step": STRING,
                    "retry_with": STRING,
                    "resource_metadata": STRING,
                    "available_connections": array(ref("Candidate")),
                    "available_connection_count": INTEGER,
                    "missing": ref("MissingAccess"),
                    "ask_url": STRING | {"description": "Where the owner can allow it."},
                },
            )
        }
    ),
    "MissingAccess": obj({"connector_key": STRING, "stream": STRING}, {"fields": array(STRING)}),
    "Candidate": obj(
        {"connection_id": STRING},
        {
            "display_name": STRING,
            "connector_key": STRING,
            "grant_id": nullable(STRING),
            "stream": STRING,
        },
    ),
    "Links": obj({"self": STRING}, {"next": nullable(STRING)}),
    "Meta": obj({"count": {}, "warnings": array(ref("Warning"))}, {"window": ref("Extent")}),
    "Extent": obj(
        {"total": INTEGER, "earliest_at": nullable(MOMENT), "latest_at": nullable(MOMENT)}
    ),
    "Warning": obj({"code": STRING, "message": STRING}, {"param": STRING, "detail": ANY_OBJECT}),
    "Connection": obj({"connection_id": STRING, "display_name": STRING}),
    "FieldWindowRead": obj(
        {
            "method": {"const": "GET"},
            "route": STRING,
            "stream": STRING,
            "record_id": STRING,
            "field": STRING,
            "connection_id": STRING,
        },
        {"object": {"const": "field_window_read"}},
    ),
    "Record": obj(
        {
            "object": {"const": "record"},
            "id": STRING,
            **SOURCE,
        },
        {
            "connector_instance_id": STRING,
            "title": STRING,
            "authored_at": STRING,
            "version": STRING,
            "origin": ORIGIN,
            "data": ANY_OBJECT,
            "money": AMOUNTS,
            "expanded": ANY_OBJECT,
            "deleted": {"const": True},
            "deleted_at": MOMENT,
            "record_json_bytes": INTEGER,
            "text_field": nullable(STRING),
            "omitted_fields": array(STRING),
            **ENVELOPE,
        },
    ),
    "RecordList": {"anyOf": [listing(ref("Record")), ref("CompactList")]},
    "SearchHit": obj(
        {
            "object": {"const": "search_result"},
            "record_key": STRING,
            **SOURCE,
            "version": STRING,
            "origin": ORIGIN,
            "matched_fields": array(STRING),
            "record_url": STRING,
            "evidence_excerpts": array(EXCERPT),
        },
        {
            "title": STRING,
            "authored_at": STRING,
            "actor": STRING,
            "amount": {"type": "number"},
            "money": STRING,
            "score": SCORE,
            "retrieval_mode": {"enum": ["semantic", "hybrid"]},
            "retrieval_sources": array({"enum": ["lexical", "semantic"]}),
            "scores": obj({}, {"lexical": SCORE, "semantic": SCORE}),
            "word_forms": {"type": "object", "additionalProperties": array(STRING)},
            "snippet": obj(
                {"field": STRING, "text": STRING},
                {
                    "provenance": {"const": "semantic_passage"},
                    "start_chars": INTEGER,
                    "end_chars": INTEGER,
                    "total_chars": INTEGER,
                    "read": {"type": "object"},
                },
            ),
        },
    ),
    "SearchHits": {"anyOf": [listing(ref("SearchHit")), ref("CompactList")]},
    "FieldWindow": obj(
        {
            "object": {"const": "field_window"},
            "stream": STRING,
            "record_id": STRING,
            "connection_id": STRING,
            "connector_key": STRING,
            "origin": ORIGIN,
            "field": obj(
                {"path": STRING, "type": STRING, "size_bytes": INTEGER},
                {
                    "media_type": STRING,
                    "item_count": INTEGER,
                    "blob": obj({"blob_id": STRING, "fetch_url": STRING}),
                },
            ),
            "window": WINDOW,
            **ENVELOPE,
        },
        {
            "verification": obj(
                {
                    "status": {"enum": ["verified", "moved", "changed", "absent"]},
                    "field_sha256": STRING,
                },
                {"found_at_chars": INTEGER, "field_changed": BOOLEAN},
            )
        },
    ),
    "Aggregation": obj(
        {
            "object": {"const": "aggregation"},
            "stream": STRING,
            "field": nullable(STRING),
            "filtered_record_count": INTEGER,
            "approximate": BOOLEAN,
            **ENVELOPE,
        },
        {
            "metric": STRING,
            "metrics": array(STRING),
            "value": {},
            "values": ANY_OBJECT,
            "money": AMOUNTS,
            "groups": array(
                obj(
                    {"count": INTEGER},
                    {
                        "key": {},
                        "keys": array({}),
                        "value": {},
                        "values": ANY_OBJECT,
                        "money": AMOUNTS,
                    },
                )
            ),
            "limit": INTEGER,
            "other_count": INTEGER,
            "next_cursor": STRING,
            "granularity": STRING,
            "time_zone": STRING,
        },
    ),
    "Stream": obj(
        {
            "object": {"const": "stream"},
            "name": STRING,
            "connection_id": STRING,
            "connector_key": STRING,
            "display_name": STRING,
        },
        {"record_count": INTEGER, "last_updated": MOMENT, "freshness": ANY_OBJECT},
    ),
    "StreamList": listing(ref("Stream")),
    "StreamMetadata": obj(
        {
            "object": {"const": "stream_metadata"},
            "name": STRING,
            "primary_key": array(STRING),
            "schema": ANY_OBJECT,
            "field_capabilities": ANY_OBJECT,
            "expand_capabilities": array(ANY_OBJECT),
        }
    ),
    "Schema": obj(
        {
            "object": {"const": "schema"},
            "connectors": array(obj({"connector_key": STRING})),
            **ENVELOPE,
        },
        {"detail": STRING, "connector_count": INTEGER, "stream_count": INTEGER},
    ),
}


STATUS: Json = {"enum": [*Subscription.Status.values, "deleted"]}
NAMES = array(STRING)
CLOSED: Json = {"additionalProperties": False}

LINE_RECEIPT = obj(
    {"input_index": INTEGER, "code": STRING, "message": STRING, "receipt_id": STRING}
)
SCHEMAS |= {
    "ConnectorList": obj({"object": {"const": "list"}, "data": array(ANY_OBJECT)}),
    "Connector": obj({"connector_id": STRING, "connector_key": STRING, "version": STRING}),
    "Declaration": ANY_OBJECT,
    "IngestReceipt": obj(
        {
            "stream": STRING,
            "records_attempted": INTEGER,
            "records_accepted": INTEGER,
            "records_rejected": INTEGER,
            "rejections": array(LINE_RECEIPT),
            "notices": array(LINE_RECEIPT),
        }
    ),
    "OwnerConnection": obj(
        {"connection_id": STRING, "display_name": STRING, "label_status": STRING, "status": STRING}
    ),
    "OwnerConnectionList": listing(ref("OwnerConnection")),
    "CollectorState": obj(
        {
            "object": {"const": "collector_state"},
            "connector_id": STRING,
            "connection_id": STRING,
            "grant_id": nullable(STRING),
            "state": ANY_OBJECT,
            "updated_at": nullable(MOMENT),
        }
    ),
    "Blob": obj(
        {
            "object": {"const": "blob"},
            "blob_id": STRING,
            "sha256": STRING,
            "size_bytes": INTEGER,
            "mime_type": STRING,
        }
    ),
    "SubscriptionRequest": obj(
        {"callback_url": {"type": "string", "format": "uri", "maxLength": 2048}},
        {"filters": obj({}, {"streams": {**NAMES, "minItems": 1}}) | CLOSED},
    )
    | CLOSED,
    "SubscriptionChange": obj(
        {}, {"enabled": {"type": "boolean"}, "rotate_secret": {"type": "boolean"}}
    )
    | CLOSED,
    "SubscriptionCreated": obj(
        {
            "subscription_id": STRING,
            "secret": STRING,
            "status": STATUS,
            "callback_url": STRING,
            "created_at": MOMENT,
        }
    ),
    "Subscription": obj(
        {
            "subscription_id": STRING,
            "authority_kind": {"const": "client_grant"},
            "client_id": nullable(STRING),
            "grant_id": nullable(STRING),
            "grant_ids": NAMES,
            "callback_url": STRING,
            "status": STATUS,
            "scope": obj(
                {"streams": NAMES},
                {
                    "source": obj({"kind": STRING, "id": STRING}),
                    "filters": obj({"streams": NAMES}),
                },
            ),
            "disabled_reason": nullable(STRING),
            "created_at": MOMENT,
            "updated_at": MOMENT,
        }
    ),
    "SubscriptionList": obj({"data": array(ref("Subscription"))}),
    "SubscriptionChanged": obj({"subscription": ref("Subscription")}, {"secret": STRING}),
    "EventAccepted": obj({"event_id": STRING}),
    "Event": obj(
        {
            "specversion": {"const": SPEC_VERSION},
            "pdppversion": {"const": PDPP_VERSION},
            "id": STRING,
            "type": {"enum": list(Event.Type.values)},
            "source": STRING,
            "time": MOMENT,
            "datacontenttype": {"const": "application/json"},
            "data": obj(
                {"subscription_id": STRING},
                {
                    "challenge": STRING,
                    "stream": STRING,
                    "connection_id": STRING,
                    "change_count_hint": INTEGER,
                    "changes_since": STRING,
                    "reason": nullable(STRING),
                },
            ),
        }
    ),
}


_PATH_PARAMETERS = {
    "stream": "The name of a stream, as the schema lists it.",
    "record_id": "The id of a record, percent-encoded.",
    "blob_id": "The id in a record's blob_ref.",
    "connector_id": "The key of a connector, or its absolute id, percent-encoded.",
    "connection_id": "The id of a connection.",
    "subscription_id": "The id of a subscription.",
}
_BODIES: Json = {
    "application/json": {"type": "object"},
    "application/x-ndjson": {"type": "string", "description": "A JSON object a line."},
    "application/octet-stream": {},
}
_STYLES: Json = {
    "array": {"style": "form", "explode": False},
    "object": {"style": "deepObject", "explode": True},
}
_UNCHANGED: Json = {"description": "The client's copy is current."}
_ERROR: Json = {
    "description": "An error; error.param names the invalid parameter, error.next_step says what to do.",
    "content": {"application/json": {"schema": ref("Error")}},
}


class OpenApiView(PublicView):
    def get(self, request: Request) -> Response:
        response = Response(document())
        response["Cache-Control"] = "public, max-age=300"
        return response


class OpenApiPageView(View):
    """Show the document in a browser, with scripts and styles from this server only."""

    def get(self, request: HttpRequest) -> HttpResponse:
        response = render(request, "evidence/openapi.html")
        response["Content-Security-Policy"] = (
            "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
            "img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
            "frame-ancestors 'none'"
        )
        return response


@lru_cache(maxsize=1)
def document() -> Json:
    """Return the OpenAPI document, the same for every client."""
    routes = list(get_resolver("evidence.api.urls").url_patterns)
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
        "paths": dict(
            _path(each) for each in routes if isinstance(each, URLPattern) and _view(each).described
        ),
        "webhooks": {
            "event": {
                "post": {
                    "operationId": "receiveEvent",
                    "summary": "An event, signed as in Standard Webhooks.",
                    "security": [],
                    "requestBody": {
                        "content": {"application/cloudevents+json": {"schema": ref("Event")}}
                    },
                    "responses": {
                        "2XX": {"description": "Received; echoes the challenge as JSON."}
                    },
                }
            }
        },
        "components": {
            "schemas": SCHEMAS,
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
        },
    }


def _view(route: URLPattern) -> type[PublicView]:
    view: type[PublicView] = route.callback.cls  # type: ignore[attr-defined]
    return view


def _path(route: URLPattern) -> tuple[str, Json]:
    """Return a path as the document writes it, with its parameters and its operations."""
    path = "/" + re.sub("<[a-z]+:([a-z_]+)>", r"{\1}", str(route.pattern))
    names = re.findall("{([a-z_]+)}", path)
    view = _view(route)
    operations = {
        method.lower(): _operation(view, method, described)
        for method, described in view.described.items()
    }
    return path, {"parameters": [_path_parameter(name) for name in names], **operations}


def _operation(view: type[PublicView], method: str, described: Described) -> Json:
    summary = str(getattr(view, method.lower()).__doc__ or view.__doc__)
    parameters = view.owner_methods.get(method, view.parameters)
    takes = described.takes
    media, body = (takes, _BODIES[takes]) if takes in _BODIES else ("application/json", ref(takes))
    return {
        "operationId": method.lower() + view.__name__.removesuffix("View"),
        "summary": summary.partition("\n")[0],
        "parameters": _query_parameters(parameters),
        **({"requestBody": {"content": {media: {"schema": body}}}} if takes else {}),
        "responses": {
            described.status: _success(described),
            **({"304": _UNCHANGED} if method == "GET" else {}),
            "4XX": _ERROR,
            "5XX": _ERROR,
        },
    }


def _success(described: Described) -> Json:
    if described.status == "204":
        return {"description": "Deleted."}
    content = {"application/json": {"schema": ref(described.answers)}}
    return {"description": "Success.", "content": content if described.answers else {"*/*": {}}}


def _path_parameter(name: str) -> Json:
    return {
        "name": name,
        "in": "path",
        "required": True,
        "description": _PATH_PARAMETERS[name],
        "schema": {"type": "string", "minLength": 1},
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
