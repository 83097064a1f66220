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
from evidence.api.openapi.schemas import SCHEMAS, ref
from evidence.parameters import Parameters

Json = dict[str, Any]

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
