"""What the event tools have in common: where subscriptions are, and how an answer becomes a result."""

from mcp_adapter import arguments
from mcp_adapter.errors import from_rest
from mcp_adapter.json_text import dumps
from mcp_adapter.rest import RestAnswer, segment
from mcp_adapter.tool import Call, Result, Tool

PATH = "/v1/event-subscriptions"
SUBSCRIPTION_ID = arguments.text("subscription_id", "sub_…", required=True, longest=100)

CHANGES = {
    "readOnlyHint": False,
    "destructiveHint": False,
    "idempotentHint": False,
    "openWorldHint": True,
}
TAKES_AWAY = CHANGES | {"destructiveHint": True, "idempotentHint": True}

_NEXT_STEPS = {
    "not_found": "Call list_event_subscriptions for the ids there are.",
    "invalid_state": "Call get_event_subscription for its status, then update_event_subscription.",
    "resource_limit": "Call delete_event_subscription for one that is not needed.",
    "invalid_request": "Call again with the argument that the error names corrected; "
    "discover_event_subscription_capabilities says what is allowed.",
}
_ELSE = "Call discover_event_subscription_capabilities, then call again with other arguments."


def path(call: Call, *, end: str = "") -> str:
    """The route of the subscription that was named."""
    return f"{PATH}/{segment(call.given['subscription_id'])}{end}"


def result(answer: RestAnswer) -> Result:
    """Both channels with the body as it came; raises `ToolError` for a refusal."""
    if not 200 <= answer.status < 300 or (isinstance(answer.body, bytes) and answer.body):
        raise from_rest(answer, next_step=_next_step(answer))
    body = answer.body if isinstance(answer.body, dict) else {"done": True}
    return Result(body, dumps(body))


def _next_step(answer: RestAnswer) -> str:
    error = answer.body.get("error", {}) if isinstance(answer.body, dict) else {}
    return _NEXT_STEPS.get(str(error.get("code")), _ELSE)


CREATE_DESCRIPTION = (
    "Subscribe a receiver to changes of the streams this grant shows (mutating; POST "
    "/v1/event-subscriptions). The answer holds the secret, shown this once: hand it to the receiver. "
    "The subscription is pending_verification until the receiver has proved itself. "
    "discover_event_subscription_capabilities says how."
)
CREATE_ARGUMENTS = (
    arguments.text("callback_url", "https address of the receiver", required=True, longest=2_048),
    arguments.names("streams", "Only these streams; all that the grant shows if omitted"),
)


def run_create(call: Call) -> Result:
    """The new subscription with its secret."""
    body = {"callback_url": call.given["callback_url"]}
    if "streams" in call.given:
        body["filters"] = {"streams": call.given["streams"]}
    return result(call.send("POST", PATH, body))


CREATE_TOOL = Tool(
    "create_event_subscription",
    "Subscribe to changes",
    CREATE_DESCRIPTION,
    CREATE_ARGUMENTS,
    run_create,
    hints=CHANGES,
)


DELETE_DESCRIPTION = (
    "Delete an event subscription with all that is on its way (mutating; DELETE "
    "/v1/event-subscriptions/{id}). It cannot be undone; to pause it use update_event_subscription."
)


def run_delete(call: Call) -> Result:
    """That it is gone."""
    return result(call.send("DELETE", path(call)))


DELETE_TOOL = Tool(
    "delete_event_subscription",
    "Delete a subscription",
    DELETE_DESCRIPTION,
    (SUBSCRIPTION_ID,),
    run_delete,
    hints=TAKES_AWAY,
)


METADATA = "/.well-known/oauth-protected-resource"
DISCOVER_DESCRIPTION = (
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


def run_discover(call: Call) -> Result:
    """The block, and how to use it."""
    block = result(call.ask(METADATA)).structured["capabilities"]["client_event_subscriptions"]
    structured = {"capabilities": block, "guidance": GUIDANCE}
    return Result(structured, dumps(structured))


DISCOVER_TOOL = Tool(
    "discover_event_subscription_capabilities",
    "Event capabilities",
    DISCOVER_DESCRIPTION,
    (),
    run_discover,
)


GET_DESCRIPTION = (
    "Show one event subscription: status, scope, and why it is disabled if it is (read-only; GET "
    "/v1/event-subscriptions/{id})."
)


def run_get(call: Call) -> Result:
    """The subscription as it is now."""
    return result(call.ask(path(call)))


GET_TOOL = Tool(
    "get_event_subscription", "Show a subscription", GET_DESCRIPTION, (SUBSCRIPTION_ID,), run_get
)


LIST_DESCRIPTION = (
    "List the event subscriptions made under this grant, with status and scope, never a secret "
    "(read-only; GET /v1/event-subscriptions)."
)


def run_list(call: Call) -> Result:
    """All of them; there are few."""
    return result(call.ask(PATH))


LIST_TOOL = Tool("list_event_subscriptions", "List subscriptions", LIST_DESCRIPTION, (), run_list)


SEND_TEST_DESCRIPTION = (
    "Send the receiver of a subscription a test event, which tells of nothing (mutating; POST "
    "/v1/event-subscriptions/{id}/test-event). It goes out once the subscription is active."
)


def run_send_test(call: Call) -> Result:
    """The id of the event that is on its way."""
    return result(call.send("POST", path(call, end="/test-event"), {}))


SEND_TEST_TOOL = Tool(
    "send_test_event",
    "Send a test event",
    SEND_TEST_DESCRIPTION,
    (SUBSCRIPTION_ID,),
    run_send_test,
    hints=CHANGES,
)


UPDATE_DESCRIPTION = (
    "Switch an event subscription off or on, or give it a new secret, shown this once (mutating; PATCH "
    "/v1/event-subscriptions/{id}). Switched on, its receiver is verified again."
)
UPDATE_ARGUMENTS = (
    SUBSCRIPTION_ID,
    arguments.flag("enabled", "Whether it sends anything"),
    arguments.flag("rotate_secret", "True for a new secret"),
)


def run_update(call: Call) -> Result:
    """The subscription after the change, and the secret where it is new."""
    names = ("enabled", "rotate_secret")
    body = {name: call.given[name] for name in names if name in call.given}
    return result(call.send("PATCH", path(call), body))


UPDATE_TOOL = Tool(
    "update_event_subscription",
    "Change a subscription",
    UPDATE_DESCRIPTION,
    UPDATE_ARGUMENTS,
    run_update,
    hints=CHANGES,
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
