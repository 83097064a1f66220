"""Format the results as lines for a terminal and as a Markdown table."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

TOKEN_BYTES = 4
"""A rough average, because tokenizers differ."""
STRUCTURED_BYTES = 12_000
MAX_BYTES = {"content": 4_000}
"""Targets of a whole conversation by host; the hosts that show structured output have the other."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """The result of one question in one host."""

    host: str
    question: str
    kind: str
    answered: bool
    calls: int
    seen_bytes: int

    @property
    def tokens(self) -> int:
        return self.seen_bytes // TOKEN_BYTES


@dataclass(frozen=True, slots=True)
class Summary:
    """The results of one host: share of answered questions, and medians over these questions."""

    host: str
    kind: str
    share: float
    calls: float
    seen_bytes: float

    @property
    def meets_targets(self) -> bool:
        """Whether 97 % are answered, with a median of 3 calls and the bytes of the host or less."""
        max_bytes = MAX_BYTES.get(self.host, STRUCTURED_BYTES)
        return self.share >= 0.97 and self.calls <= 3 and self.seen_bytes <= max_bytes


def summarize(host: str, attempts: Sequence[Attempt], *, kind: str = "all") -> Summary:
    """Summarize the attempts of one host, with questions of one kind or all."""
    attempts = [attempt for attempt in attempts if kind in ("all", attempt.kind)]
    return Summary(
        host,
        kind,
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
        f"| {summary.host} | {summary.kind} | {summary.share:.0%} | {summary.calls:g} | {summary.seen_bytes:,.0f} "
        f"| {summary.seen_bytes / TOKEN_BYTES:,.0f} |"
        for summary in summaries
    ]
    head = "| host | questions | answered | median calls | median bytes seen | approx. tokens |"
    return "\n".join([head, "|---|---|---|---|---|---|", *rows, ""])
