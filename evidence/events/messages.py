"""What is sent: a CloudEvents envelope, signed as Standard Webhooks says. No record is in it."""

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
    """One attempt at one event, ready to be sent."""

    url: str
    headers: Mapping[str, str]
    body: bytes


def body(event: Event, data: Mapping[str, Any]) -> bytes:
    """The envelope in its structured JSON form."""
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


def signed(
    content: bytes, *, url: str, event_id: str, secrets: Sequence[str], now: datetime
) -> Message:
    """With a signature for each secret: while one replaces another both are good."""
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
