"""discover_event_subscription_capabilities: what a receiver has to do, and what it can count on."""

from mcp_adapter.json_text import dumps
from mcp_adapter.subscriptions import result
from mcp_adapter.tool import Call, Result, Tool

METADATA = "/.well-known/oauth-protected-resource"
DESCRIPTION = (
    "Say what event subscriptions need and promise: event types, envelope, signing, verification, "
    "delivery and retries (read-only; capabilities.client_event_subscriptions of "
    "/.well-known/oauth-protected-resource). Call it before create_event_subscription. A receiver is a "
    "public https address. It checks webhook-signature (Standard Webhooks, HMAC-SHA256 with the secret "
    "that creation returns once), answers the verification event with its challenge as JSON, and "
    "answers 2xx within 10 seconds; messages come at least once."
)
GUIDANCE = (
    "Verify first: base64 HMAC-SHA256 over '{webhook-id}.{webhook-timestamp}.{raw body}' with the "
    "base64-decoded part of the secret after whsec_, compared in constant time with any v1 entry of "
    "webhook-signature; refuse timestamps more than five minutes away. Answer "
    'pdpp.subscription.verify with 2xx and {"challenge": data.challenge}. Take a webhook-id that came '
    "before for done. Read what pdpp.records.changed tells of with query_records at /mcp: its stream, "
    "connection_id and changes_since, as they are."
)


def run(call: Call) -> Result:
    """The block, and how to use it."""
    block = result(call.ask(METADATA)).structured["capabilities"]["client_event_subscriptions"]
    structured = {"capabilities": block, "guidance": GUIDANCE}
    return Result(structured, dumps(structured))


TOOL = Tool("discover_event_subscription_capabilities", "Event capabilities", DESCRIPTION, (), run)
