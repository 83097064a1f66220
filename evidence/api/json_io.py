"""Request bodies, read up to a bound."""

from collections.abc import Mapping
from typing import Any

import orjson
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request
from typing_extensions import override

from evidence.errors import InvalidRequest, ResourceLimit


def read_body(request: Request, *, most: int) -> bytes:
    """All of the body. Raises ``ResourceLimit`` when there is more than ``most`` bytes of it."""
    content: bytes = request._request.read(most + 1)  # noqa: SLF001 - before any parser
    if len(content) > most:
        raise ResourceLimit(message=f"The body takes at most {most} bytes.")
    return content


def read_object(request: Request, *, most: int) -> dict[str, Any]:
    """The body as a JSON object."""
    try:
        content = orjson.loads(read_body(request, most=most))
    except orjson.JSONDecodeError as error:
        raise InvalidRequest(message="The body is not JSON.") from error
    if not isinstance(content, dict):
        raise InvalidRequest(message="The body is a JSON object.")
    return content


class OrjsonRenderer(BaseRenderer):
    """UTF-8 JSON; several times faster than the framework's own on pages of records."""

    media_type = "application/json"
    format = "json"
    charset = None

    @override
    def render(
        self,
        data: Any,
        accepted_media_type: str | None = None,
        renderer_context: Mapping[str, Any] | None = None,
    ) -> bytes:
        return b"" if data is None else orjson.dumps(data)
