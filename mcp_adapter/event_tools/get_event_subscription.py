"""get_event_subscription: one of them."""

from mcp_adapter.subscriptions import SUBSCRIPTION_ID, path, result
from mcp_adapter.tool import Call, Result, Tool

DESCRIPTION = (
    "Show one event subscription: status, scope, and why it is disabled if it is (read-only; GET "
    "/v1/event-subscriptions/{id})."
)


def run(call: Call) -> Result:
    """The subscription as it is now."""
    return result(call.ask(path(call)))


TOOL = Tool("get_event_subscription", "Show a subscription", DESCRIPTION, (SUBSCRIPTION_ID,), run)
