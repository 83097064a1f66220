"""delete_event_subscription: no more messages."""

from mcp_adapter.subscriptions import SUBSCRIPTION_ID, TAKES_AWAY, path, result
from mcp_adapter.tool import Call, Result, Tool

DESCRIPTION = (
    "Delete an event subscription with all that is on its way (mutating; DELETE "
    "/v1/event-subscriptions/{id}). It cannot be undone; to pause it use update_event_subscription."
)


def run(call: Call) -> Result:
    """That it is gone."""
    return result(call.send("DELETE", path(call)))


TOOL = Tool(
    "delete_event_subscription",
    "Delete a subscription",
    DESCRIPTION,
    (SUBSCRIPTION_ID,),
    run,
    hints=TAKES_AWAY,
)
