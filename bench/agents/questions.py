"""The demo questions, and when somebody has seen enough to answer one."""

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
    """A record that proves the answer, by words of it."""

    record_key: str
    quote: str


@dataclass(frozen=True, slots=True)
class Question:
    """`searches` is what a sensible agent would type; `aggregate` its REST form where one answers."""

    id: str
    kind: str
    searches: tuple[str, ...]
    evidence: tuple[Evidence, ...]
    aggregate: Mapping[str, Any]

    def answered(self, seen: str) -> bool:
        """Whether the text shown so far holds the answer.

        One proof is enough, but for a question of several hops, which needs all of them. A proof
        counts where both its words and the key of its record were shown.
        """
        if self.aggregate:
            return re.search(rf'"value":\s?{self.aggregate["number"]}(\.0)?\b', seen) is not None
        shown = readable(seen)
        proofs = [_shown(each, shown) for each in self.evidence]
        return all(proofs) if self.kind == "multi-hop" else any(proofs)


def _shown(evidence: Evidence, text: str) -> bool:
    return evidence.record_key in text and readable(evidence.quote) in text


def readable(text: str) -> str:
    """JSON as a reader takes it: without marks and escapes, white space as one blank."""
    plain = _ESCAPED_QUOTE.sub(r"\1", _ESCAPED_BREAK.sub(" ", _MARK.sub("", text)))
    return _SPACE.sub(" ", plain)


def load() -> list[Question]:
    """Every question of `demo/questions.toml`."""
    document = tomllib.loads((ROOT / "demo" / "questions.toml").read_text())
    return [
        Question(
            id=each["id"],
            kind=each["kind"],
            searches=tuple(each["search"]),
            evidence=tuple(
                Evidence(proof["record_key"], proof["quote"]) for proof in each["evidence"]
            ),
            aggregate=each.get("aggregate", {}),
        )
        for each in document["question"]
    ]
