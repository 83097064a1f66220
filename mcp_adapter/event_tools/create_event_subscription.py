"""create_event_subscription: a receiver that is told of changes."""

from mcp_adapter import arguments
from mcp_adapter.subscriptions import CHANGES, PATH, result
from mcp_adapter.tool import Call, Result, Tool

DESCRIPTION = (
    "Subscribe a receiver to changes of the streams this grant shows (mutating; POST "
    "/v1/event-subscriptions). The answer holds the secret, shown this once: hand it to the receiver. "
    "The subscription is pending_verification until the receiver has proved itself. "
    "discover_event_subscription_capabilities says how."
)
ARGUMENTS = (
    arguments.text("callback_url", "https address of the receiver", required=True, longest=2_048),
    arguments.names("streams", "Only these streams; all that the grant shows if omitted"),
)


def run(call: Call) -> Result:
    """The new subscription with its secret."""
    body = {"callback_url": call.given["callback_url"]}
    if "streams" in call.given:
        body["filters"] = {"streams": call.given["streams"]}
    return result(call.send("POST", PATH, body))


TOOL = Tool(
    "create_event_subscription", "Subscribe to changes", DESCRIPTION, ARGUMENTS, run, hints=CHANGES
)
