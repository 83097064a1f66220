"""send_test_event: a message that tells of nothing."""

from mcp_adapter.subscriptions import CHANGES, SUBSCRIPTION_ID, path, result
from mcp_adapter.tool import Call, Result, Tool

DESCRIPTION = (
    "Send the receiver of a subscription a test event, which tells of nothing (mutating; POST "
    "/v1/event-subscriptions/{id}/test-event). It goes out once the subscription is active."
)


def run(call: Call) -> Result:
    """The id of the event that is on its way."""
    return result(call.send("POST", path(call, end="/test-event"), {}))


TOOL = Tool(
    "send_test_event", "Send a test event", DESCRIPTION, (SUBSCRIPTION_ID,), run, hints=CHANGES
)
