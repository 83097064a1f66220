"""The advanced surface, `/mcp/events`: seven tools for hearing of changes, and none that reads.

It is no part of the recommended setup (spec C), and what it says of signing and delivery stands in one
of its tools alone (spec D).
"""

from typing import Final

from mcp_adapter.event_tools import (
    create_event_subscription,
    delete_event_subscription,
    discover_event_subscription_capabilities,
    get_event_subscription,
    list_event_subscriptions,
    send_test_event,
    update_event_subscription,
)
from mcp_adapter.surface import Surface

INSTRUCTIONS: Final = (
    "Event subscriptions for one person's records, as far as this grant allows. This endpoint reads no "
    "records: read at /mcp, schema first, with connection_id where sources are ambiguous, typed filters "
    "and bounded pages. Before subscribing call discover_event_subscription_capabilities: it says what a "
    "receiver must do. Then create_event_subscription, and get_event_subscription until it is active. "
    "An event names a stream, a connection and a changes_since bookmark, never a record."
    "\n\nRead what an event tells of with query_records at /mcp, with the stream, connection_id and "
    "changes_since of the event; where /mcp is signed in on its own and refuses that bookmark, with the "
    "next_changes_since it gave last. A subscription lasts as long as the grant; when that ends, it ends. "
    "Errors say what to call next. Do not ask for other credentials: this grant is all there is."
)

EVENTS = Surface(
    INSTRUCTIONS,
    {
        module.TOOL.name: module.TOOL
        for module in (
            discover_event_subscription_capabilities,
            create_event_subscription,
            list_event_subscriptions,
            get_event_subscription,
            update_event_subscription,
            delete_event_subscription,
            send_test_event,
        )
    },
)
