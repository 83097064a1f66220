"""JSON on the wire."""

from collections.abc import Mapping
from typing import Any

import orjson
from rest_framework.renderers import BaseRenderer
from typing_extensions import override


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
