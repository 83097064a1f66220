"""list_event_subscriptions: all that this grant has."""

from mcp_adapter.subscriptions import PATH, result
from mcp_adapter.tool import Call, Result, Tool

DESCRIPTION = (
    "List the event subscriptions made under this grant, with status and scope, never a secret "
    "(read-only; GET /v1/event-subscriptions)."
)


def run(call: Call) -> Result:
    """All of them; there are few."""
    return result(call.ask(PATH))


TOOL = Tool("list_event_subscriptions", "List subscriptions", DESCRIPTION, (), run)
