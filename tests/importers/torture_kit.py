"""Damage an export in every way that its JSON, tables and pages allow, and read it in this process.

Unlike the sandbox, reading here does not turn an unexpected exception into a receipt.
"""

import copy
import importlib
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest

from importers.authoring.test_kit import ImporterTests, ReadResult, find_importer
from importers.core.export_files import open_export
from importers.core.importer import ChoiceNeeded, Importer, Options
from importers.core.results import Issue, ReceiptCode, UnreadableError

WRONG_VALUES: tuple[Any, ...] = (
    None, True, -(10**30), "", "\0\ud800../<b>", [None, 7, "x", {}, []], {"": None}
)  # fmt: skip
HOSTILE_BYTES = (
    b"", b"\0" * 100, b"\xff\xfe\x00", b"[" * 10_000, b'{"a":' * 10_000, b"[1,2,3]", b"[[[]]]", b"{}",
    b'"text"', b"null", b"\xef\xbb\xbf[]", b"<" * 10_000, b"<div>" * 5_000, b'"', b"a,b\n" * 10, b",,,\n",
)  # fmt: skip


def read_directly(name: str, path: Path, **options: Any) -> ReadResult:
    """Read an export in this process. Raises every exception that is not ``UnreadableError``."""
    module, _, attribute = find_importer(name).object_path.partition(":")
    importer: Importer = getattr(importlib.import_module(module), attribute)
    result = ReadResult()
    files = importer.claim(open_export(path).files)
    prepared = importer.prepare(files, Options(**options))
    for item in importer.read(files, prepared):
        try:
            parsed = item.parse()
        except UnreadableError as error:
            result.issues.append(error.issue)
            continue
        result.issues += parsed.issues
        result.streams += [record.stream for record in parsed.records]
        result.records += [record.data for record in parsed.records]
        if not parsed.records and not parsed.issues and not parsed.stale:
            result.silent_items.append(f"{item.file}, {item.location}")
    return result


def read_stream(name: str, path: Path, stream: str) -> list[dict[str, Any]]:
    """Read an export that has no issue in this process, and return the records of a stream."""
    result = read_directly(name, path)
    assert result.issues == []
    return [
        record
        for each, record in zip(result.streams, result.records, strict=True)
        if each == stream
    ]


def require_bounded(name: str, path: Path, *, what: object) -> None:
    """Fail for an unexpected error, and for records that cannot be stored."""
    try:
        result = read_directly(name, path)
    except (ChoiceNeeded, UnreadableError):
        return
    bugs = [issue for issue in result.issues if issue.code == ReceiptCode.UNREADABLE]
    assert bugs == [], what
    assert all(isinstance(record["id"], str) for record in result.records), what


def torture(name: str, export: Path, folder: Path) -> None:
    """Read an export with each value of its JSON wrong, each file hostile, and each file cut."""
    shutil.copytree(export, folder)
    for file in sorted(path for path in folder.rglob("*") if path.is_file()):
        original = file.read_bytes()
        for what, content in _damaged(original):
            file.write_bytes(content)
            require_bounded(name, folder, what=(file, what))
        file.write_bytes(original)


def _damaged(content: bytes) -> Iterator[tuple[object, bytes]]:
    yield from ((hostile[:20], hostile) for hostile in HOSTILE_BYTES)
    for share in (0.1, 0.5, 0.9, 0.99):
        yield f"cut at {share}", content[: int(len(content) * share)]
    text = content.decode("utf-8", "replace")
    for charset in ("utf-16", "cp1252", "utf-8-sig"):
        yield charset, text.encode(charset, "replace")
    yield "twice", content + content
    start = min((at for at in (content.find(b"["), content.find(b"{")) if at >= 0), default=0)
    try:
        value = json.loads(content[start:])
    except ValueError:
        return
    for path in _paths(value):
        for wrong in WRONG_VALUES:
            yield (
                (path, wrong),
                content[:start] + json.dumps(_replaced(value, path, wrong)).encode(),
            )


def _paths(value: Any) -> list[tuple[str | int, ...]]:
    """Return the path of each value, of equal places in a list only the first."""
    found: dict[tuple[str | int, ...], tuple[str | int, ...]] = {}

    def visit(node: Any, path: tuple[str | int, ...]) -> None:
        found.setdefault(tuple("*" if isinstance(part, int) else part for part in path), path)
        members = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()  # fmt: skip
        for name, member in members:
            visit(member, (*path, name))

    visit(value, ())
    return list(found.values())


def _replaced(value: Any, path: tuple[str | int, ...], wrong: Any) -> Any:
    if not path:
        return wrong
    changed = copy.deepcopy(value)
    node = changed
    for part in path[:-1]:
        node = node[part]
    node[path[-1]] = wrong
    return changed


def issue_codes(issues: list[Issue]) -> set[str]:
    return {issue.code.value for issue in issues}


Writer = Callable[..., object]


class GeneratedExportTests(ImporterTests):
    """Runs the tests of every importer on an export of a month, and on one of two months."""

    export: ClassVar[Path]
    writer: ClassVar[Writer]
    file_name: ClassVar[str] = ""
    damaged_days: ClassVar[int] = 1

    @pytest.fixture(autouse=True, scope="class")
    @classmethod
    def _exports(cls, tmp_path_factory: pytest.TempPathFactory) -> None:
        for name, days in (("export", 30), ("newer_export", 60)):
            folder = tmp_path_factory.mktemp(name) / "export"
            cls.writer(folder / cls.file_name, days=days)
            setattr(cls, name, folder)

    @pytest.mark.slow
    def test_wrong_values_and_damaged_files_end_with_receipts(self, tmp_path: Path) -> None:
        type(self).writer(tmp_path / "export" / self.file_name, days=self.damaged_days)
        torture(self.importer_name, tmp_path / "export", tmp_path / "copy")
