"""Whatever is not a route under ``/v1``."""

from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response
from typing_extensions import override

from evidence.api.base import PublicView
from evidence.refusals import NotFound


class UnknownRouteView(PublicView):
    """404 in the envelope of every other error, for every method."""

    @override
    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        raise NotFound(message="No such route.", next_step="GET /v1/schema is the way in.")

    def get(self, request: Request) -> Response:
        raise NotFound
