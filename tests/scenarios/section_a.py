"""A: result ids that are complete in themselves."""

from tests.scenarios.entry import Scenario

SCENARIOS = (
    Scenario(
        "A1",
        "A search that meets several connections names each hit connection/stream:record, whole in "
        "both channels, and the results still carry the connection by itself.",
    ),
    Scenario(
        "A2",
        "Somebody who reads nothing but the text takes a shown id, fetches with it alone where the "
        "bare record would be ambiguous, and gets the document under that very id; the connection "
        "reaches the resource server exactly as it stood in the id.",
    ),
    Scenario(
        "A3",
        "A stream:record id still works: with a connection_id beside it where that is needed, and "
        "with the resource server's own 409 where it is missing.",
    ),
    Scenario(
        "A4",
        "An id and an argument that name different connections are refused by name, and the "
        "resource server hears nothing of it.",
    ),
    Scenario(
        "A5",
        "An id with an empty part, one separator too many or a path in it is refused by name before "
        "anything is read.",
    ),
    Scenario(
        "A6",
        "The text of a search shows each hit with its whole id and what is known of its stream, "
        "label, connector, title and match, and says to pass the id to fetch as it is.",
    ),
    Scenario(
        "A7",
        "Whatever the number of hits and the size of their snippets, the text stays small and "
        "structuredContent.data is the envelope of the resource server.",
    ),
    Scenario(
        "A8",
        "What is not a record handle, and a connection id that the grammar cannot carry, are never "
        "wrapped: the connection is then shown beside the id. An id that has a slash already is "
        "passed on untouched.",
    ),
    Scenario(
        "A9",
        "The connection is not repeated beside an id that holds it, and a shown id is cut only "
        "where a key is beyond anything a record may be called.",
    ),
)
