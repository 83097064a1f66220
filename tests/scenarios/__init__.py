"""The scenarios of the specification, and how tests cite them.

`@scenario("A1")` above a test says that it proves A1. `test_manifest.py` holds both directions:
what is cited exists, and what exists is cited or says why not.
"""

from collections.abc import Callable
from typing import TypeVar

from tests.scenarios import section_a, section_b, section_c, section_d
from tests.scenarios.entry import Scenario

Test = TypeVar("Test", bound=Callable[..., object])

MANIFEST: dict[str, Scenario] = {
    entry.id: entry
    for section in (section_a, section_b, section_c, section_d)
    for entry in section.SCENARIOS
}


def scenario(*cited: str) -> Callable[[Test], Test]:
    """Cite scenarios by id; an id that the manifest lacks fails at import."""
    unknown = [each for each in cited if each not in MANIFEST]
    if unknown or not cited:
        message = f"no such scenario: {unknown}"
        raise LookupError(message)
    return lambda test: test
