"""What the event tools have in common: where subscriptions are, and how an answer becomes a result."""

from mcp_adapter import arguments
from mcp_adapter.errors import from_rest
from mcp_adapter.json_text import dumps
from mcp_adapter.rest import RestAnswer, segment
from mcp_adapter.tool import Call, Result

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
