"""URIs that clients may send, and that the server never returns."""

import base64
from typing import Any

import orjson

from evidence.record_ids import RecordRef


def handle(members: object) -> str:
    """Encode the handle of a pdpp:// URI: base64url JSON without padding."""
    return base64.urlsafe_b64encode(orjson.dumps(members)).decode().rstrip("=")


def field_window_uri(ref: RecordRef, *, window: dict[str, Any]) -> str:
    """Return `pdpp://field-window/{handle}`. `window` has `field_path` and read arguments."""
    record = {"stream": ref.stream, "record_id": ref.record_id}
    if ref.connection_id is not None:
        record["connection_id"] = ref.connection_id
    return f"pdpp://field-window/{handle({'v': 1, 'kind': 'field-window'} | record | window)}"
