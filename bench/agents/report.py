"""The figures, as lines for a terminal and as a table for the documentation."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

TOKEN_BYTES = 4
"""A rough measure, the same for every host: model vocabularies differ."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One question put to one host."""

    host: str
    question: str
    answered: bool
    calls: int
    seen_bytes: int

    @property
    def tokens(self) -> int:
        return self.seen_bytes // TOKEN_BYTES


@dataclass(frozen=True, slots=True)
class Summary:
    """All questions of one host; medians are over all of them, answered or not."""

    host: str
    share: float
    calls: float
    seen_bytes: float

    @property
    def on_target(self) -> bool:
        """At least 95 % answered, by 3 calls and 8,000 bytes in the median."""
        return self.share >= 0.95 and self.calls <= 3 and self.seen_bytes <= 8_000


def summarised(host: str, attempts: Sequence[Attempt]) -> Summary:
    """The figures of one host."""
    return Summary(
        host,
        sum(each.answered for each in attempts) / len(attempts),
        median(each.calls for each in attempts),
        median(each.seen_bytes for each in attempts),
    )


def line(attempt: Attempt) -> str:
    """One question on a line of its own."""
    mark = "answered" if attempt.answered else "MISSED"
    return (
        f"{attempt.host:10}  {mark:8}  {attempt.question:36}  {attempt.calls:3} calls  "
        f"{attempt.seen_bytes:7,} bytes  {attempt.tokens:6,} tokens\n"
    )


def table(summaries: Sequence[Summary]) -> str:
    """The summaries as Markdown."""
    rows = [
        f"| {each.host} | {each.share:.0%} | {each.calls:g} | {each.seen_bytes:,.0f} "
        f"| {each.seen_bytes / TOKEN_BYTES:,.0f} |"
        for each in summaries
    ]
    head = "| host | answered | median calls | median bytes seen | about tokens |"
    return "\n".join([head, "|---|---|---|---|---|", *rows, ""])
