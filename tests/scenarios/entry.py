"""One entry of the manifest."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Scenario:
    """`untested` is empty, or the reason why no test cites the scenario yet."""

    id: str
    behaviour: str
    untested: str = ""
