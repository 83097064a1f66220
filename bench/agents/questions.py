"""The demo questions, and the check whether a text contains the answer."""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bench.served import ROOT

_MARK = re.compile(r"</?mark>")
_ESCAPED_BREAK = re.compile(r"\\+[nrt]")
_ESCAPED_QUOTE = re.compile(r'\\+(["/\\])')
_SPACE = re.compile(r"\s+")


@dataclass(frozen=True, slots=True)
class Evidence:
    """A record that proves the answer, and the quote that does."""

    record_key: str
    quote: str


@dataclass(frozen=True, slots=True)
class Question:
    """A question, its search words, and the aggregate that answers it, if one does."""

    id: str
    kind: str
    searches: tuple[str, ...]
    evidence: tuple[Evidence, ...]
    aggregate: Mapping[str, Any]
    call: tuple[str, Mapping[str, Any]] | None = None
    """The call that answers the question, with its next pages."""
    seen: tuple[str, ...] = ()
    """Patterns that the results of `call` match."""

    def answered(self, seen: str) -> bool:
        """Return whether the text contains the answer: quote and record key of an evidence.

        A multi-hop question needs all of its evidence, any other question one.
        """
        if self.call:
            plain = _ESCAPED_QUOTE.sub(r"\1", seen)
            return all(re.search(pattern, plain) for pattern in self.seen)
        if self.aggregate:
            return re.search(rf'"value":\s?{self.aggregate["number"]}(\.0)?\b', seen) is not None
        text = readable(seen)
        proofs = [
            proof.record_key in text and readable(proof.quote) in text for proof in self.evidence
        ]
        return all(proofs) if self.kind == "multi-hop" else any(proofs)


def readable(text: str) -> str:
    """Return JSON text without marks and escapes, and with single spaces."""
    plain = _ESCAPED_QUOTE.sub(r"\1", _ESCAPED_BREAK.sub(" ", _MARK.sub("", text)))
    return _SPACE.sub(" ", plain)


def load() -> list[Question]:
    """Return the questions of `demo/questions.toml`, then those of `questions.toml` here."""
    document = tomllib.loads((ROOT / "demo" / "questions.toml").read_text())
    return [
        Question(
            id=entry["id"],
            kind=entry["kind"],
            searches=tuple(entry["search"]),
            evidence=tuple(
                Evidence(proof["record_key"], proof["quote"]) for proof in entry["evidence"]
            ),
            aggregate=entry.get("aggregate", {}),
        )
        for entry in document["question"]
    ] + [
        Question(
            id=entry["id"],
            kind=entry["kind"],
            searches=(),
            evidence=(),
            aggregate={},
            call=(entry["tool"], entry["arguments"]),
            seen=tuple(entry["seen"]),
        )
        for entry in tomllib.loads((ROOT / "bench/agents/questions.toml").read_text())["question"]
    ]
