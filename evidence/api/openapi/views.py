"""Serve `/v1/openapi.json` and an offline page to browse it."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views import View
from rest_framework.request import Request
from rest_framework.response import Response

from evidence.api.base_views import PublicView
from evidence.api.openapi.document import document


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
