"""The event capabilities that the protected resource metadata advertises (contract 6)."""

from typing import Any

from evidence import limits
from evidence.events.delivery_outcome import BUSY_STATUSES, GONE_STATUS
from evidence.events.messages import CONTENT_TYPE, PDPP_VERSION, SPEC_VERSION
from evidence.events.signing_secrets import PREFIX
from evidence.models.events import Event

ENDPOINT = "/v1/event-subscriptions"


def capability() -> dict[str, Any]:
    """Return `capabilities.client_event_subscriptions` of the metadata document."""
    return {
        "supported": True,
        "endpoint": ENDPOINT,
        "authority_kinds": ["client_grant"],
        "envelope": {
            "format": "cloudevents",
            "specversion": SPEC_VERSION,
            "pdppversion": PDPP_VERSION,
            "mode": "structured",
            "content_type": CONTENT_TYPE,
        },
        "event_types": [str(event_type) for event_type in Event.Type.values],
        "signing": {
            "scheme": "standard-webhooks",
            "algorithm": "hmac-sha256",
            "headers": ["webhook-id", "webhook-timestamp", "webhook-signature"],
            "signed_content": "{webhook-id}.{webhook-timestamp}.{raw body}",
            "secret_prefix": PREFIX,
            "secret_overlap_seconds": limits.EVENT_SECRET_OVERLAP,
        },
        "delivery": _delivery(),
        "verification": "post_with_challenge_echo",
        "max_subscriptions": limits.SUBSCRIPTIONS_PER_PACKAGE,
    }


def _delivery() -> dict[str, Any]:
    return {
        "guarantee": "at_least_once",
        "max_attempts": 1 + len(limits.EVENT_RETRIES),
        "retry_schedule_seconds": list(limits.EVENT_RETRIES),
        "retry_jitter": limits.EVENT_JITTER,
        "timeout_seconds": limits.EVENT_TIMEOUT,
        "follows_redirects": False,
        "concurrency_per_receiver": 1,
        "coalescing": "one outstanding pdpp.records.changed per stream and connection",
        "retry_after": {
            "statuses": sorted(BUSY_STATUSES),
            "default_seconds": limits.EVENT_RETRY_AFTER,
            "max_seconds": limits.EVENT_RETRY_AFTER_MOST,
            "give_up_after_seconds": limits.EVENT_DEFERRED_MOST,
        },
        "disables_at_once": [GONE_STATUS],
    }
