"""What a step found."""

from dataclasses import dataclass
from enum import StrEnum


class Outcome(StrEnum):
    """How a step ended."""

    WORKS = "works"
    WARNS = "warns"
    FAILS = "fails"
    SKIPPED = "skipped"


class Side(StrEnum):
    """Who can do something about it."""

    SERVER = "server"
    PROXY = "proxy"
    CLIENT = "client"
    NETWORK = "network"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One step: what was tried, what was seen, whose side it is on, what to change.

    `code` names the diagnosis for programs; it is empty where all is well.
    """

    step: str
    outcome: Outcome
    tried: str
    seen: str
    code: str = ""
    side: Side | None = None
    change: str = ""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What is wrong, before it is known in which step."""

    code: str
    side: Side
    seen: str
    change: str
    outcome: Outcome = Outcome.FAILS


class Wrong(Exception):  # noqa: N818 - named for what was found
    """A step met something that a host would stumble over."""

    def __init__(self, diagnosis: Diagnosis) -> None:
        super().__init__(diagnosis.code)
        self.diagnosis = diagnosis


class Unseen(Exception):  # noqa: N818 - likewise
    """A step that cannot be taken from here; its words say why."""


def wrong(code: str, side: Side, *, seen: str, change: str) -> Wrong:
    """To raise: the step fails."""
    return Wrong(Diagnosis(code, side, seen, change))


def doubtful(code: str, side: Side, *, seen: str, change: str) -> Wrong:
    """To raise: some hosts will stumble, most will not."""
    return Wrong(Diagnosis(code, side, seen, change, Outcome.WARNS))
