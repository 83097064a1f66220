"""Result of a diagnostic step: outcome, responsible side and fix."""

from dataclasses import dataclass
from enum import StrEnum


class Outcome(StrEnum):
    """The outcome of a step."""

    WORKS = "works"
    WARNS = "warns"
    FAILS = "fails"
    SKIPPED = "skipped"


class Side(StrEnum):
    """The side that can fix a problem."""

    SERVER = "server"
    PROXY = "proxy"
    CLIENT = "client"
    NETWORK = "network"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The result of one step: what it tried and saw, which side must act, and what to change.

    `code` names the diagnosis for programs and is empty when the step works.
    """

    step: str
    outcome: Outcome
    tried: str
    seen: str
    code: str = ""
    side: Side | None = None
    change: str = ""


class StepFailedError(Exception):
    """A step found a problem that stops a host."""

    def __init__(
        self, code: str, side: Side, *, seen: str, change: str, outcome: Outcome = Outcome.FAILS
    ) -> None:
        super().__init__(code)
        self.code = code
        self.side = side
        self.seen = seen
        self.change = change
        self.outcome = outcome


class StepSkippedError(Exception):
    """A step that cannot run from here. The message says why."""


def failure(code: str, side: Side, *, seen: str, change: str) -> StepFailedError:
    """Return the error of a step that fails for every host."""
    return StepFailedError(code, side, seen=seen, change=change)


def warning(code: str, side: Side, *, seen: str, change: str) -> StepFailedError:
    """Return the error of a step that fails for some hosts only."""
    return StepFailedError(code, side, seen=seen, change=change, outcome=Outcome.WARNS)
