"""Build a CloudEvents envelope and its Standard Webhooks signatures; it contains no record."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import orjson
from standardwebhooks import Webhook

from evidence.models.events import Event

CONTENT_TYPE = "application/cloudevents+json; charset=utf-8"
SPEC_VERSION = "1.0"
PDPP_VERSION = "1"


@dataclass(frozen=True, slots=True)
class Message:
    """The HTTP request of one delivery attempt."""

    url: str
    headers: Mapping[str, str]
    body: bytes


def build_envelope(event: Event, data: Mapping[str, Any]) -> bytes:
    """Return the envelope of an event in structured JSON mode."""
    subscription_id = event.subscription_id
    envelope = {
        "specversion": SPEC_VERSION,
        "pdppversion": PDPP_VERSION,
        "id": event.event_id,
        "type": event.type,
        "source": f"/v1/event-subscriptions/{subscription_id}",
        "time": event.created_at.astimezone(UTC).isoformat().replace("+00:00", "Z"),
        "datacontenttype": "application/json",
        "data": {"subscription_id": subscription_id, **data},
    }
    return orjson.dumps(envelope)


def sign_message(
    content: bytes, *, url: str, event_id: str, secrets: Sequence[str], now: datetime
) -> Message:
    """Sign an envelope with each secret: during a rotation, receivers may have either."""
    signatures = [
        Webhook(secret).sign(msg_id=event_id, timestamp=now, data=content.decode())
        for secret in secrets
    ]
    headers = {
        "content-type": CONTENT_TYPE,
        "accept": "application/json",
        "accept-encoding": "identity",
        "user-agent": "pdpp",
        "webhook-id": event_id,
        "webhook-timestamp": str(int(now.timestamp())),
        "webhook-signature": " ".join(signatures),
    }
    return Message(url, headers, content)
