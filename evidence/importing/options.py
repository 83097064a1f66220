"""What a person may have to say about an export, and the refusal that asks for it."""

from dataclasses import dataclass, field
from datetime import tzinfo
from zoneinfo import ZoneInfo

from evidence.refusals import InvalidRequest

UTC_ZONE = ZoneInfo("UTC")
YEARS_BACK = 10
YEARS_AHEAD = 2
"""Whole calendar years before and after the current one in which repeating events are expanded.

Whole years, so that the same export twice in a year writes nothing the second time."""
DATE_ORDERS = ("dmy", "mdy", "ymd")


@dataclass(frozen=True, slots=True)
class Options:
    """``zone`` is where times without a zone are read, ``horizon_year`` the last year in which
    repeating events are expanded. ``columns`` maps ours to those of a CSV file."""

    zone: tzinfo = UTC_ZONE
    horizon_year: int = 2030
    date_order: str | None = None
    columns: dict[str, str] = field(default_factory=dict)

    @property
    def current_year(self) -> int:
        return self.horizon_year - YEARS_AHEAD

    @property
    def first_year(self) -> int:
        """The first year in which repeating events are expanded."""
        return self.current_year - YEARS_BACK


class ChoiceNeeded(InvalidRequest):
    """The export can be read in several ways, and only its owner knows which is right.

    ``evidence`` are the lines that leave it open, ``flag`` is what to say on the command line.
    """

    def __init__(self, question: str, *, evidence: list[str], flag: str) -> None:
        super().__init__(message=question, evidence=evidence, flag=flag)
        self.question = question
        self.evidence = evidence
        self.flag = flag


def zone_named(name: str) -> ZoneInfo:
    """Raises ``InvalidRequest`` for a zone that does not exist."""
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise InvalidRequest(
            message=f"{name!r} is no time zone; one is Europe/Berlin.", param="timezone"
        ) from None
