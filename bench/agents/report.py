"""Format the results as lines for a terminal and as a Markdown table."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

TOKEN_BYTES = 4
"""A rough average, because tokenizers differ."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """The result of one question in one host."""

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
    """The results of one host: share of answered questions, and medians over all questions."""

    host: str
    share: float
    calls: float
    seen_bytes: float

    @property
    def meets_targets(self) -> bool:
        """Whether 95 % are answered with median 3 calls and 8,000 bytes or less."""
        return self.share >= 0.95 and self.calls <= 3 and self.seen_bytes <= 8_000


def summarize(host: str, attempts: Sequence[Attempt]) -> Summary:
    """Summarize the attempts of one host."""
    return Summary(
        host,
        sum(attempt.answered for attempt in attempts) / len(attempts),
        median(attempt.calls for attempt in attempts),
        median(attempt.seen_bytes for attempt in attempts),
    )


def attempt_line(attempt: Attempt) -> str:
    """Return one line about an attempt."""
    mark = "answered" if attempt.answered else "MISSED"
    return (
        f"{attempt.host:10}  {mark:8}  {attempt.question:36}  {attempt.calls:3} calls  "
        f"{attempt.seen_bytes:7,} bytes  {attempt.tokens:6,} tokens\n"
    )


def table(summaries: Sequence[Summary]) -> str:
    """Return the summaries as a Markdown table."""
    rows = [
        f"| {summary.host} | {summary.share:.0%} | {summary.calls:g} | {summary.seen_bytes:,.0f} "
        f"| {summary.seen_bytes / TOKEN_BYTES:,.0f} |"
        for summary in summaries
    ]
    head = "| host | answered | median calls | median bytes seen | approx. tokens |"
    return "\n".join([head, "|---|---|---|---|---|", *rows, ""])
