"""The event tools of `/mcp/events`: create, list, show, update, test and delete event subscriptions."""

from typing import Annotated

from pydantic import Field

from evidence import record_ids
from evidence.page_cutter import dumps
from evidence.parameters import NameList
from mcp_adapter.rest import METADATA_PATH, RestResponse
from mcp_adapter.tool import Call, Result, Tool, error_from_response, own_text, tool_arguments

SUBSCRIPTIONS_PATH = "/v1/event-subscriptions"
SUBSCRIPTION = tool_arguments(own_text("subscription_id", "sub_…", required=True))

WRITES = {
    "readOnlyHint": False,
    "destructiveHint": False,
    "idempotentHint": False,
    "openWorldHint": True,
}
DESTRUCTIVE = WRITES | {"destructiveHint": True, "idempotentHint": True}

_NEXT_STEPS = {
    "not_found": "Call list_event_subscriptions for the ids there are.",
    "invalid_state": "Call get_event_subscription for its status, then update_event_subscription.",
    "resource_limit": "Call delete_event_subscription for one that is not needed.",
    "invalid_request": "Call again with the argument that the error names corrected; "
    "discover_event_subscription_capabilities says what is allowed.",
}
_DEFAULT_NEXT_STEP = (
    "Call discover_event_subscription_capabilities, then call again with other arguments."
)


def _subscription_path(call: Call) -> str:
    return f"{SUBSCRIPTIONS_PATH}/{record_ids.path_segment(call.arguments['subscription_id'])}"


def _result(response: RestResponse) -> Result:
    """Return both channels with the unchanged body. Raises ToolError for an error response."""
    body = response.body
    if not 200 <= response.status < 300 or (isinstance(body, bytes) and body):
        error = body.get("error", {}) if isinstance(body, dict) else {}
        next_step = _NEXT_STEPS.get(str(error.get("code")), _DEFAULT_NEXT_STEP)
        raise error_from_response(response, next_step=next_step)
    structured = body if isinstance(body, dict) else {"done": True}
    return Result(structured, dumps(structured))


def _create(call: Call) -> Result:
    body = {"callback_url": call.arguments["callback_url"]}
    if "streams" in call.arguments:
        body["filters"] = {"streams": call.arguments["streams"]}
    return _result(call.send("POST", SUBSCRIPTIONS_PATH, body))


_WHICH = "Only these streams; all that the grant shows if omitted"
CREATE_TOOL = Tool(
    "create_event_subscription",
    "Subscribe to changes",
    "Subscribe a receiver to changes of the streams this grant shows (mutating; POST "
    "/v1/event-subscriptions). The answer holds the secret, shown this once: hand it to the receiver. "
    "The subscription is pending_verification until the receiver has proved itself. "
    "discover_event_subscription_capabilities says how.",
    tool_arguments(
        own_text("callback_url", "https address of the receiver", required=True),
        ("streams", Annotated[NameList | None, Field(description=_WHICH)]),
    ),
    _create,
    annotations=WRITES,
)

DELETE_TOOL = Tool(
    "delete_event_subscription",
    "Delete a subscription",
    "Delete an event subscription with all that is on its way (mutating; DELETE "
    "/v1/event-subscriptions/{id}). It cannot be undone; to pause it use update_event_subscription.",
    SUBSCRIPTION,
    lambda call: _result(call.send("DELETE", _subscription_path(call))),
    annotations=DESTRUCTIVE,
)


GUIDANCE = (
    "Verify first: base64 HMAC-SHA256 over '{webhook-id}.{webhook-timestamp}.{raw body}' with the "
    "base64-decoded part of the secret after whsec_, compared in constant time with any v1 entry of "
    "webhook-signature; refuse timestamps more than five minutes away. Answer "
    'pdpp.subscription.verify with 2xx and {"challenge": data.challenge}. Take a webhook-id that came '
    "before for done. Read what pdpp.records.changed tells of with query_records at /mcp: its stream, "
    "connection_id and changes_since, as they are."
)


def _discover(call: Call) -> Result:
    metadata = _result(call.get(METADATA_PATH)).structured
    capabilities = metadata["capabilities"]["client_event_subscriptions"]
    structured = {"capabilities": capabilities, "guidance": GUIDANCE}
    return Result(structured, dumps(structured))


DISCOVER_TOOL = Tool(
    "discover_event_subscription_capabilities",
    "Event capabilities",
    "Say what event subscriptions need and promise: event types, envelope, signing, verification, "
    "delivery and retries (read-only; capabilities.client_event_subscriptions of "
    "/.well-known/oauth-protected-resource). Call it before create_event_subscription. A receiver is a "
    "public https address. It checks webhook-signature (Standard Webhooks, HMAC-SHA256 with the secret "
    "that creation returns once), answers the verification event with its challenge as JSON, and "
    "answers 2xx within 10 seconds; messages come at least once.",
    tool_arguments(),
    _discover,
)

GET_TOOL = Tool(
    "get_event_subscription",
    "Show a subscription",
    "Show one event subscription: status, scope, and why it is disabled if it is (read-only; GET "
    "/v1/event-subscriptions/{id}).",
    SUBSCRIPTION,
    lambda call: _result(call.get(_subscription_path(call))),
)

LIST_TOOL = Tool(
    "list_event_subscriptions",
    "List subscriptions",
    "List the event subscriptions made under this grant, with status and scope, never a secret "
    "(read-only; GET /v1/event-subscriptions).",
    tool_arguments(),
    lambda call: _result(call.get(SUBSCRIPTIONS_PATH)),
)

SEND_TEST_TOOL = Tool(
    "send_test_event",
    "Send a test event",
    "Send the receiver of a subscription a test event, which tells of nothing (mutating; POST "
    "/v1/event-subscriptions/{id}/test-event). It goes out once the subscription is active.",
    SUBSCRIPTION,
    lambda call: _result(call.send("POST", f"{_subscription_path(call)}/test-event", {})),
    annotations=WRITES,
)


def _update(call: Call) -> Result:
    names = ("enabled", "rotate_secret")
    body = {name: call.arguments[name] for name in names if name in call.arguments}
    return _result(call.send("PATCH", _subscription_path(call), body))


UPDATE_TOOL = Tool(
    "update_event_subscription",
    "Change a subscription",
    "Switch an event subscription off or on, or give it a new secret, shown this once (mutating; PATCH "
    "/v1/event-subscriptions/{id}). Switched on, its receiver is verified again.",
    tool_arguments(
        own_text("subscription_id", "sub_…", required=True),
        ("enabled", Annotated[bool | None, Field(description="Whether it sends anything")]),
        ("rotate_secret", Annotated[bool | None, Field(description="True for a new secret")]),
    ),
    _update,
    annotations=WRITES,
)

TOOLS = (
    DISCOVER_TOOL,
    CREATE_TOOL,
    LIST_TOOL,
    GET_TOOL,
    UPDATE_TOOL,
    DELETE_TOOL,
    SEND_TEST_TOOL,
)
