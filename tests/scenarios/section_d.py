"""D: how little it takes to be understood."""

from tests.scenarios.entry import Scenario

SCENARIOS = (
    Scenario(
        "D1",
        "The server introduces itself in both eras with instructions whose first 512 characters "
        "stand alone and never ask for an owner token.",
    ),
    Scenario(
        "D2",
        "No guidance on connection_id is repeated from tool to tool, nothing of events is said there, "
        "and on the surface for events one tool alone speaks of signing and delivery.",
    ),
    Scenario(
        "D3",
        "Each description says what the tool does, that it only reads, and the REST read behind it, "
        "and leaves the rest to schema or the instructions.",
    ),
    Scenario("D4", "A test holds the bytes of the list and fails when long guidance returns."),
    Scenario(
        "D5",
        "Descriptions call the structured output visible and tell the model to page, narrow or "
        "aggregate.",
    ),
    Scenario(
        "D6",
        "How much comes back is the caller's choice between bounds, small by default.",
    ),
    Scenario(
        "D7",
        "expand on a stream that advertises relations is passed on, and the answer comes through "
        "unchanged.",
    ),
    Scenario(
        "D8",
        "expand or expand_limit on a stream that advertises none is refused by name before any "
        "record is read.",
    ),
    Scenario(
        "D9",
        "A changed schema holds on the next call; where the schema cannot be read the resource "
        "server decides.",
    ),
)
