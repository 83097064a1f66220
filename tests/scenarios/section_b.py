"""B: from a hint to the evidence and on to the whole."""

from tests.scenarios.entry import Scenario

SCENARIOS = (
    Scenario(
        "B1",
        "The text alone shows, for a hit whose match is proven, a piece of the matched field and "
        "enough to read that field around it.",
    ),
    Scenario(
        "B2",
        "Such a piece has words before and after the marked match, unless the field holds nothing "
        "more.",
    ),
    Scenario(
        "B3",
        "A hit without a proven match shows no piece of a body, and still says how to read on.",
    ),
    Scenario(
        "B4",
        "Every pdpp://record URI that is shown can be read as a resource and is accepted by fetch "
        "and read_record_field.",
    ),
    Scenario(
        "B5",
        "Every pdpp://field-window URI can be read as a resource and is accepted by "
        "read_record_field, so that no failing resource reader is the only way on.",
    ),
    Scenario(
        "B6",
        "An ordinary window gives its text, offsets, truncation, match and the arguments of the "
        "next and previous read, and shows no field-window URI.",
    ),
    Scenario(
        "B7",
        "A small field comes back whole and inline, with its size, range and completeness.",
    ),
    Scenario(
        "B8",
        "A large or binary field is described with size and type, previewed where that is safe, and "
        "names the call that reads on; nothing is cut as if it were complete.",
    ),
    Scenario(
        "B9",
        "A proven hit of the REST search carries its evidence: field, preview, truncation and how "
        "to read on.",
    ),
    Scenario(
        "B10",
        "On the command line a search shows evidence and the command that reads that field window.",
    ),
    Scenario(
        "B11",
        "Every handle that is shown, of a record, field, window, page or export, is accepted by a "
        "call.",
    ),
)
