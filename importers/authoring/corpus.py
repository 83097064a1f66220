"""Read samples of exports and compare them with what a person or another program reads in them.

A sample is a file or folder with the expected result beside it, ``NAME.expected.json``::

    {"kind": "csv", "records": {"transactions": [{"date": "2026-01-13", "amount": -12.5}]}}

``records`` are all records of each stream, with the fields to compare. ``options`` are those of an
import, such as ``{"date_order": "mdy", "columns": {"date": "1"}}``.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from importers.authoring.test_kit import ReadResult, read_export
from importers.core.importer import ChoiceNeeded, Options

SUFFIX = ".expected.json"
RIGHT, REFUSED, WRONG = "right", "refused", "wrong"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a sample; ``detail`` says why it is not right."""

    sample: Path
    kind: str
    result: str
    detail: str = ""


def check_samples(folder: Path) -> Iterator[Outcome]:
    """Yield the outcome of each sample in a folder, in order. Raises ``ValueError`` and ``KeyError``."""
    for path in sorted(folder.rglob(f"*{SUFFIX}")):
        expected = orjson.loads(path.read_bytes())
        yield check_sample(path.with_name(path.name.removesuffix(SUFFIX)), expected)


def check_sample(sample: Path, expected: Mapping[str, Any]) -> Outcome:
    """Return the outcome of a sample. Raises ``TypeError`` for unknown options."""
    kind = expected["kind"]
    try:
        result = read_export(kind, sample, Options(**expected.get("options", {})))
    except ChoiceNeeded as choice:
        return Outcome(sample, kind, REFUSED, choice.question)
    except LookupError as error:
        return Outcome(sample, kind, REFUSED, str(error))
    for stream, wanted in expected["records"].items():
        found = _of_stream(result, stream)
        if not found and wanted and (result.issues or not result.records):
            reason = str(result.issues[0].code) if result.issues else "the importer declines it"
            return Outcome(sample, kind, REFUSED, reason)
        if detail := _difference(found, wanted):
            return Outcome(sample, kind, WRONG, f"{stream}: {detail}")
    return Outcome(sample, kind, RIGHT)


def _of_stream(result: ReadResult, stream: str) -> list[dict[str, Any]]:
    pairs = zip(result.streams, result.records, strict=True)
    return [record for each, record in pairs if each == stream]


def _difference(found: Sequence[Mapping[str, Any]], wanted: Sequence[Mapping[str, Any]]) -> str:
    """Return what distinguishes the records from the expected ones; nothing if they are equal."""
    left = list(found)
    for each in wanted:
        match = next((r for r in left if all(r.get(k) == v for k, v in each.items())), None)
        if match is None:
            return f"{dict(each)} is missing"
        left.remove(match)
    return f"{len(left):,} more than expected, such as {left[0]}" if left else ""


def summary_lines(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """Yield a line for each kind, and one for each sample that is not right."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for each in outcomes:
        counts[each.kind][each.result] += 1
    for kind, found in sorted(counts.items()):
        yield f"{kind}: " + ", ".join(f"{found[name]:,} {name}" for name in (RIGHT, REFUSED, WRONG))
    for each in outcomes:
        if each.result != RIGHT:
            yield f"  {each.sample.name}: {each.result}: {each.detail}"[:300]
