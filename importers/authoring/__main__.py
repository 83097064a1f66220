"""``pdpp-importer new NAME`` writes a package with a working importer or live source, and its tests.

``pdpp-importer corpus DIR`` reads samples of exports and compares them with what a person or another
program reads in them. A sample is a file or folder with the expected result beside it,
``NAME.expected.json``::

    {"kind": "csv", "records": {"transactions": [{"date": "2026-01-13", "amount": -12.5}]}}

``records`` are all records of each stream, with the fields to compare. ``options`` are those of an
import, such as ``{"date_order": "mdy", "columns": {"date": "1"}}``.
"""

import argparse
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from importers.authoring.test_kit import read_export
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
        pairs = zip(result.streams, result.records, strict=True)
        found = [record for each, record in pairs if each == stream]
        if not found and wanted and (result.issues or not result.records):
            reason = str(result.issues[0].code) if result.issues else "the importer declines it"
            return Outcome(sample, kind, REFUSED, reason)
        if detail := _difference(found, wanted):
            return Outcome(sample, kind, WRONG, f"{stream}: {detail}")
    return Outcome(sample, kind, RIGHT)


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


_TEMPLATES = {"importer": "template", "source": "template_source"}
_SHARED = "package/declaration.json.tmpl"
_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="pdpp-importer", description=(__doc__ or "").partition("\n\n")[0]
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    new = commands.add_parser("new", help="write a package into a new folder pdpp-importer-NAME")
    new.add_argument("name", metavar="NAME", help="what it reads: small letters, digits, hyphens")
    new.add_argument(
        "--source", action="store_true", help="write a live source, into pdpp-source-NAME"
    )
    corpus = commands.add_parser(
        "corpus", help="read samples, and compare them with what is expected"
    )
    corpus.add_argument("folder", metavar="DIR", type=Path)
    parsed = parser.parse_args(arguments)
    if "folder" in parsed:
        outcomes = list(check_samples(parsed.folder))
        sys.stdout.writelines(f"{line}\n" for line in summary_lines(outcomes))
        return int(any(each.result == WRONG for each in outcomes))
    name, kind = parsed.name, "source" if parsed.source else "importer"
    folder = Path(f"pdpp-{kind}-{name}")
    if not _NAME.fullmatch(name) or len(name) > 40:
        parser.error(f"NAME takes up to 40 small letters, digits and hyphens; got {name!r}.")
    if folder.exists():
        parser.error(f"{folder} exists already. Choose another name, or remove it.")
    write_package(folder, name, kind)
    sys.stdout.write(
        f"{folder} has a working {kind} for a diary. Next:\n"
        f"  cd {folder}\n  pip install -e . pytest\n  pytest\n"
        f"Then change {kind}.py and declaration.json; docs/write-an-importer.md describes both.\n"
    )
    return 0


def write_package(folder: Path, name: str, kind: str) -> None:
    """Write the template of an importer or a source with the name filled in."""
    package = f"pdpp_{name.replace('-', '_')}"
    here = Path(__file__).parent
    template = here / _TEMPLATES[kind]
    files = {path.relative_to(template).as_posix(): path for path in template.rglob("*.tmpl")}
    files.setdefault(_SHARED, here / _TEMPLATES["importer"] / _SHARED)
    for relative, source in sorted(files.items()):
        target = folder / re.sub("^package/", f"{package}/", relative.removesuffix(".tmpl"))
        target.parent.mkdir(parents=True, exist_ok=True)
        text = source.read_text(encoding="utf-8")
        target.write_text(text.replace("PACKAGE", package).replace("NAME", name), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
