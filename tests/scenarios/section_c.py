"""C: one way in for agents."""

from tests.scenarios.entry import Scenario

SCENARIOS = (
    Scenario(
        "C1",
        "The set-up page shows one recommended way for each client first, without event tools, "
        "owner tokens or profiles.",
    ),
    Scenario(
        "C2",
        "The stdio adapter starts from the environment without any profile and serves the very "
        "tools that the hosted endpoint serves.",
    ),
    Scenario(
        "C3", "The tools are exactly the six read tools; no older or event tool is among them."
    ),
    Scenario(
        "C4",
        "Every tool takes an optional connection_id, and none the deprecated "
        "connector_instance_id.",
    ),
    Scenario(
        "C5",
        "A call goes to the REST reads on the caller's own authority and no other, whatever the "
        "answer.",
    ),
    Scenario("C6", "An owner's token is refused over HTTP and over stdio."),
    Scenario("C7", "A test holds the names of the tools and the bytes of their list."),
    Scenario(
        "C8",
        "schema without a stream is an index within a budget that names every stream by connector "
        "in the text.",
    ),
    Scenario(
        "C9",
        "schema of a shared stream name shows fields and aggregations of every match; the text is "
        "enough to write a valid query.",
    ),
    Scenario(
        "C10",
        "schema of a stream and a connection shows that one alone, with everything the next read "
        "needs in the text.",
    ),
    Scenario("C11", "Abbreviated flags come with a legend in the text."),
    Scenario(
        "C12",
        "The full schema of everything is refused before it is read, and the refusal says how to ask "
        "for one stream.",
    ),
    Scenario(
        "C13",
        "The full schema of a stream holds only its rows, asks which connection where there are "
        "several sources, lies directly under data, is paged, and repeats no row.",
    ),
    Scenario("C14", "Cursors, bookmarks and counts of the envelope are in the text."),
    Scenario(
        "C15",
        "A search over everything merges at most limit hits, each labelled with its source, with a "
        "source mix, balanced marks and titles that prefer the time of writing.",
    ),
    Scenario("C16", "A search of one connection finds only there, and limit counts those hits."),
    Scenario(
        "C17",
        "A fetched document has id, title, text, url and metadata and nothing else, the text is the "
        "same as JSON, and its source is in the metadata.",
    ),
    Scenario(
        "C18",
        "A fetch with fields shows no other field anywhere, and still the source.",
    ),
    Scenario("C19", "A query with fields returns those fields and identity members alone."),
    Scenario(
        "C20",
        "A read that has to know the source says so with candidates that can be passed on, at once "
        "and bounded, and names schema where there are more.",
    ),
)
