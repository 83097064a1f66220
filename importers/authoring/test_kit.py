"""Tests that every importer passes: subclass ``ImporterTests`` in a test module.

They run the importer in its sandbox, without a database or a server.
"""

import functools
import random
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import jsonschema_rs
import orjson

from evidence.declarations.validation import parse_valid
from importers.core import sandbox
from importers.core.importer import ChoiceNeeded, InstalledImporter, Options
from importers.core.results import Issue, ReceiptCode
from importers.registry import installed_importers

HOSTILE_VARIANTS = 12
MAX_DAMAGE_BYTES = 20_000_000
_PATCHES = (b"\0", b"\xff\xfe", b"<", b"\n\n", b'"', b"9" * 40, b"", b",", b"{" * 400)


@dataclass(slots=True)
class ReadResult:
    """What an importer yields for an export."""

    streams: list[str] = field(default_factory=list)
    records: list[dict[str, Any]] = field(default_factory=list)
    issues: list[Issue] = field(default_factory=list)
    silent_items: list[str] = field(default_factory=list)

    def by_key(self) -> dict[tuple[str, str], dict[str, Any]]:
        pairs = zip(self.streams, self.records, strict=True)
        return {(stream, record["id"]): record for stream, record in pairs}


def find_importer(name: str) -> InstalledImporter:
    """Return an installed importer. Raises ``LookupError``: ``pip install -e .`` installs it."""
    for importer in installed_importers():
        if importer.name == name:
            return importer
    raise LookupError(f"No importer is named {name}. Install its package: pip install -e .")


def read_export(name: str, path: Path, options: Options | None = None) -> ReadResult:
    """Read an export as the server does. Raises ``LookupError`` if the importer claims no file."""
    importer, result = find_importer(name), ReadResult()
    with sandbox.open_session(importer, path) as session:
        files = sandbox.claim(session, [importer]).files.get(name)
        if files is None:
            raise LookupError(f"{name} claims no file of {path}.")
        options = sandbox.prepare(session, importer, files, options or Options())
    for item in sandbox.read(importer, files, options, skip=0):
        for file in item.files:
            item.read(file.size)
        for record in item.records:
            result.streams.append(record.stream)
            result.records.append(orjson.loads(item.read(record.size)))
        result.issues += item.issues
        if not item.records and not item.issues and not item.stale:
            result.silent_items.append(f"{item.file}, {item.location}")
    return result


_read_once = functools.cache(read_export)
"""Read an export that no test changes, at the first call. Starting the sandbox takes most of the time."""


class ImporterTests:
    """Give ``importer_name`` and an ``export``; a ``newer_export`` has all of it and more."""

    importer_name: ClassVar[str]
    export: ClassVar[Path]
    newer_export: ClassVar[Path | None] = None

    def test_declaration_is_valid(self) -> None:
        parse_valid(orjson.loads(find_importer(self.importer_name).declaration))

    def test_export_has_records(self) -> None:
        assert read_export(self.importer_name, self.export).records

    def test_reading_again_gives_the_same_records(self) -> None:
        first = _read_once(self.importer_name, self.export)
        assert read_export(self.importer_name, self.export).by_key() == first.by_key()

    def test_different_records_have_different_keys(self) -> None:
        result = _read_once(self.importer_name, self.export)
        records = result.by_key()
        for stream, record in zip(result.streams, result.records, strict=True):
            assert records[stream, record["id"]] == record

    def test_newer_export_adds_records_and_keeps_keys(self) -> None:
        if self.newer_export is None:
            return
        old = _read_once(self.importer_name, self.export).by_key()
        new = _read_once(self.importer_name, self.newer_export).by_key()
        assert old.keys() < new.keys()

    def test_records_have_declared_fields_only(self) -> None:
        declaration = orjson.loads(find_importer(self.importer_name).declaration)
        schemas = {stream["name"]: stream["schema"] for stream in declaration["streams"]}
        result = _read_once(self.importer_name, self.export)
        for stream, record in zip(result.streams, result.records, strict=True):
            # A file that no declaration names is for the owner alone, such as a mail's HTML.
            assert record.keys() - {"blob_ref"} <= schemas[stream]["properties"].keys()
            jsonschema_rs.validate(schemas[stream], record)

    def test_no_item_is_left_out_without_a_receipt(self) -> None:
        assert _read_once(self.importer_name, self.export).silent_items == []

    def test_damaged_exports_end_with_receipts(self, tmp_path: Path) -> None:
        """An unexpected error, too much memory or time is a bug, and has this receipt."""
        for variant in write_damaged_exports(self.export, tmp_path):
            try:
                result = read_export(self.importer_name, variant)
            except (LookupError, ChoiceNeeded):  # the damage hides the format, or is asked about
                continue
            bugs = [issue for issue in result.issues if issue.code == ReceiptCode.UNREADABLE]
            assert bugs == [], variant


def write_damaged_exports(export: Path, folder: Path) -> Iterator[Path]:
    """Write copies of an export, each with damage in one file; the same damage in every run."""
    rng = random.Random(1)  # noqa: S311 - not a secret
    for number in range(HOSTILE_VARIANTS):
        copy = folder / str(number) / export.name
        copy.parent.mkdir()
        if export.is_dir():
            shutil.copytree(export, copy)
        else:
            shutil.copy(export, copy)
        files = sorted(path for path in copy.rglob("*") if path.is_file()) or [copy]
        damaged = rng.choice(files)
        damaged.write_bytes(_damage(damaged.read_bytes(), rng, number))
        yield copy


def _damage(content: bytes, rng: random.Random, number: int) -> bytes:
    at = rng.randrange(len(content) + 1)
    if number == 0:
        return content[: len(content) // 2]
    if number == 1:
        return content + b"x" * MAX_DAMAGE_BYTES
    if number == 2:
        last_line = content.splitlines(keepends=True)[-1]
        return content + last_line * min(20_000, MAX_DAMAGE_BYTES // len(last_line))
    return (
        content[:at] + rng.choice(_PATCHES) * rng.randint(1, 3) + content[at + rng.randint(0, 40) :]
    )
