"""update_event_subscription: switched off or on, or given another secret."""

from mcp_adapter import arguments
from mcp_adapter.subscriptions import CHANGES, SUBSCRIPTION_ID, path, result
from mcp_adapter.tool import Call, Result, Tool

DESCRIPTION = (
    "Switch an event subscription off or on, or give it a new secret, shown this once (mutating; PATCH "
    "/v1/event-subscriptions/{id}). Switched on, its receiver is verified again."
)
ARGUMENTS = (
    SUBSCRIPTION_ID,
    arguments.flag("enabled", "Whether it sends anything"),
    arguments.flag("rotate_secret", "True for a new secret"),
)


def run(call: Call) -> Result:
    """The subscription after the change, and the secret where it is new."""
    names = ("enabled", "rotate_secret")
    body = {name: call.given[name] for name in names if name in call.given}
    return result(call.send("PATCH", path(call), body))


TOOL = Tool(
    "update_event_subscription", "Change a subscription", DESCRIPTION, ARGUMENTS, run, hints=CHANGES
)
