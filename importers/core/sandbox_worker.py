"""The program of the sandbox: runs the importers of one package over one export.

Arguments: the private folder, the top-level package and its folder, and the export. It reads requests
from standard input and answers each with one message, or several for ``read``. No importer is
imported before the process is confined. A message is the length of a JSON object, the object, and bytes.
"""

import importlib.util
import logging
import os
import pkgutil
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, replace
from functools import cached_property
from pathlib import Path
from typing import IO, Any, TypeVar

if __name__ == "__main__":  # isolated mode leaves out this folder
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))

import orjson

import evidence
import importers
from evidence import limits
from importers.core import isolation
from importers.core.dates import AS_WRITTEN, DATES, require_plausible
from importers.core.export_files import Export, ExportFile, fingerprint, open_export
from importers.core.importer import ChoiceNeeded, Importer, Options, extra_kind
from importers.core.results import (
    ITEM_MAX_BYTES,
    RECORD_MAX_BYTES,
    ExportItem,
    Issue,
    ParsedItem,
    ParsedRecord,
    ReceiptCode,
    UnreadableError,
    issue_item,
)
from importers.core.text import to_storable_json
from importers.core.text_recognition import SCAN_SUFFIXES

BATCH_BYTES = 1024 * 1024
BATCH_ITEMS = 500
BATCH_SECONDS = 1.0
MESSAGE_MAX_BYTES = 32 * 1024 * 1024
MESSAGE_MAX_VALUES = 1_000_000
"""A value takes up to thirty times the memory of its text, such as each list of `[[],[],[]]`."""

TOO_LONG = "sent too long a message"
_NUL = rb"\u0000"

logger = logging.getLogger(__name__)

T = TypeVar("T")
Ranges = list[list[int]]


def main() -> None:
    work_folder, package, package_folder, export = sys.argv[1:]
    responses = os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # an importer may print
    logging.disable(logging.CRITICAL)
    folders = [Path(module.__path__[0]) for module in (importers, evidence)]
    readable = (*folders, Path(package_folder), Path(export))
    enforced = [isolation.limit_memory()]
    enforced.append(isolation.restrict_files(readable=readable, writable=Path(work_folder)))
    worker = Worker(Path(export))

    def confine() -> list[bool]:
        size = sum(file.size for file in worker.export.files)
        scans = sum(file.suffix in SCAN_SUFFIXES for file in worker.export.files)
        enforced.append(isolation.limit_time(export_bytes=size, scans=scans))
        enforced.append(isolation.restrict_calls())
        if package != importers.__name__:
            load_package(package, Path(package_folder))
        return enforced

    worker.serve(sys.stdin.buffer, responses, confine)


def load_package(name: str, folder: Path) -> None:
    """Import a package from its folder: its parent folder cannot be listed here."""
    spec = importlib.util.spec_from_file_location(
        name, folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    if spec is None or spec.loader is None:
        raise ImportError(name)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)


def load_object(path: str, kind: type[T]) -> T:
    """Import an object such as ``pdpp_mood.importer:MOOD``. Raises ``TypeError`` for another kind."""
    found = pkgutil.resolve_name(path)
    if not isinstance(found, kind):
        raise TypeError(f"{path} is no {kind.__name__}")
    return found


class Worker:
    """Answers requests about one export."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @cached_property
    def export(self) -> Export:
        """Raises ``UnreadableError``."""
        return open_export(self._path)

    def serve(
        self, requests: IO[bytes], responses: IO[bytes], confine: Callable[[], list[bool]]
    ) -> None:
        """Answer requests until they end. ``confine`` runs before any importer."""
        try:
            enforced = confine()
        except UnreadableError as error:
            write_message(responses, {"unreadable": [error.issue.code, error.issue.detail]})
            return
        write_message(responses, {"enforced": enforced})
        while True:
            try:
                request = read_message(requests)
            except MessageError:
                return
            if request["do"] == "claim":
                write_message(responses, self._claim(request))
            elif request["do"] == "prepare":
                write_message(responses, self._prepare(request))
            elif request["do"] == "sample":
                write_message(responses, self._sample(request))
            else:
                self._read(request, responses)

    def _claim(self, request: dict[str, Any]) -> dict[str, Any]:
        """Return the files that each importer claims of those that nobody claimed before.

        An importer that the owner chose takes a single file without recognizing it. Importers are
        not asked about files that the extra package reads if the request ``lacks_extra``.
        """
        files = self.export.files
        positions = {id(file): position for position, file in enumerate(files)}
        taken = {position for first, last in request["claimed"] for position in range(first, last)}
        unclaimed = [file for file in files if positions[id(file)] not in taken]
        kinds = [extra_kind(file) if request["lacks_extra"] else None for file in unclaimed]
        reserved = [(file, kind) for file, kind in zip(unclaimed, kinds, strict=True) if kind]
        unclaimed = [file for file, kind in zip(unclaimed, kinds, strict=True) if not kind]
        claims, failed = [], []
        for name, object_path in request["importers"]:
            try:
                claimed = load_object(object_path, Importer).claim(unclaimed)
                chosen = {positions[id(file)] for file in claimed if id(file) in positions}
            except Exception as error:  # noqa: BLE001 - one importer must not stop the others
                failed.append([name, type(error).__name__])
                continue
            if request["is_chosen"] and not chosen and len(unclaimed) == 1:
                chosen = {positions[id(unclaimed[0])]}
            if chosen:
                found = [files[at] for at in sorted(chosen)]
                size, digest = sum(file.size for file in found), fingerprint(found)
                ranges = _ranges(sorted(chosen))
                claims.append(
                    {"importer": name, "files": ranges, "size": size, "fingerprint": digest}
                )
                unclaimed = [file for file in unclaimed if positions[id(file)] not in chosen]
        return {
            "name": self.export.name,
            "claims": claims,
            "failed": failed,
            "unreadable": [
                *([name, issue.code, issue.detail] for name, issue in self.export.unreadable),
                *([file.name, ReceiptCode.NEEDS_EXTRA, kind] for file, kind in reserved),
            ],
            "unclaimed": [[file.name, file.size] for file in unclaimed],
        }

    def _prepare(self, request: dict[str, Any]) -> dict[str, Any]:
        options = Options.from_json(request["options"])
        try:
            importer, files = load_object(request["object"], Importer), self._select(request)
            prepared = importer.prepare(files, options)
            if options.columns.get(DATES) != AS_WRITTEN:
                items = map(parse_item, importer.read(files, prepared))
                require_plausible(items, request["times"])
            return {"options": prepared.to_json()}
        except ChoiceNeeded as choice:
            return {"choice": [choice.question, *choice.evidence, choice.flag]}
        except UnreadableError as error:
            return {"failed": error.issue.code}
        except Exception as error:  # noqa: BLE001 - reading reports what is wrong with each file
            return {"failed": type(error).__name__}

    def _sample(self, request: dict[str, Any]) -> dict[str, Any]:
        try:
            options = Options.from_json(request["options"])
            importer = load_object(request["object"], Importer)
            samples = importer.sample(self._select(request), options)
            return {"samples": [to_storable_json(asdict(each)) for each in samples]}
        except Exception as error:  # noqa: BLE001 - the owner can decide without a sample
            return {"samples": [], "failed": type(error).__name__}

    def _read(self, request: dict[str, Any], responses: IO[bytes]) -> None:
        """Send the items from ``skip`` on; if ``careful``, announce and send one at a time.

        It then also announces each file before it is opened. Files in ``broken`` ended a process
        before their first item: they cannot be opened, and their only item reports that.
        """
        batch = _Batch(responses, is_careful=request["careful"], broken=request["broken"])
        skip = request["skip"]
        try:
            files = self._select(request)
            if fingerprint(files) != request["fingerprint"]:
                write_message(responses, {"changed": True})
                return
            importer = load_object(request["object"], Importer)
            watched = [batch.watch(file) for file in files]
            for number, item in enumerate(
                importer.read(watched, Options.from_json(request["options"]))
            ):
                if number >= skip:
                    batch.start(number, item)
                    batch.add(item, parse_item(item))
                else:
                    batch.flush_if_due()
                batch.next_number = number + 1
        except MemoryError:
            raise
        except Exception as error:
            logger.exception("an importer failed")
            item = issue_item("", "", ReceiptCode.UNREADABLE, type(error).__name__)
            batch.add(item, item.parse())
        batch.flush()
        write_message(responses, {"done": True})

    def _select(self, request: dict[str, Any]) -> Sequence[ExportFile]:
        return [file for first, last in request["files"] for file in self.export.files[first:last]]


def _ranges(positions: list[int]) -> Ranges:
    """Return [first, last + 1] of each run of consecutive positions."""
    ranges: Ranges = []
    for position in positions:
        if ranges and ranges[-1][1] == position:
            ranges[-1][1] += 1
        else:
            ranges.append([position, position + 1])
    return ranges


def parse_item(item: ExportItem) -> ParsedItem:
    """Parse an item, and convert every error to an issue."""
    try:
        parsed = item.parse()
        has_keys = all(isinstance(record.data.get("id"), str) for record in parsed.records)
        return parsed if has_keys else ParsedItem(issues=[Issue(ReceiptCode.NO_IDENTITY)])
    except UnreadableError as error:
        return ParsedItem(issues=[error.issue])
    except Exception as error:  # noqa: BLE001 - an error in one item must not stop the others
        logger.warning("an item could not be read: %s", type(error).__name__)
        return ParsedItem(issues=[Issue(ReceiptCode.UNREADABLE, type(error).__name__)])


class _Batch:
    """Collects items, and sends them together in one message."""

    def __init__(
        self, responses: IO[bytes], *, is_careful: bool, broken: dict[str, tuple[int, str]]
    ) -> None:
        self._responses = responses
        self._is_careful = is_careful
        self._broken = broken
        self._broken_items = {number: name for name, (number, _) in broken.items()}
        self.next_number = 0
        self._items: list[Any] = []
        self._payload: list[bytes] = []
        self._size = 0
        self._sent_at = time.monotonic()

    def watch(self, file: ExportFile) -> ExportFile:
        """Return a file that announces that it is opened, or cannot be opened if it is broken.

        Its head remains, by which importers know it.
        """
        if file.name in self._broken:
            _ = file.head

        def opener() -> AbstractContextManager[IO[bytes]]:
            if file.name in self._broken:
                raise UnreadableError(ReceiptCode.UNREADABLE, detail=self._broken[file.name][1])
            if self._is_careful:
                write_message(self._responses, {"open": [file.name, self.next_number]})
            return file.opener()

        return replace(file, opener=opener)

    def start(self, number: int, item: ExportItem) -> None:
        if self._broken_items.get(number, item.file) != item.file:
            raise MessageError("items have other numbers without the broken file")
        if self._is_careful:
            write_message(self._responses, {"start": [item.file, item.location]})

    def add(self, item: ExportItem, parsed: ParsedItem) -> None:
        header, payload = encode_item(item, parsed)
        self._items.append(header)
        self._payload += payload
        self._size += sum(map(len, payload))
        self.flush_if_due()

    def flush_if_due(self) -> None:
        is_full = self._size >= BATCH_BYTES or len(self._items) >= BATCH_ITEMS
        is_late = time.monotonic() - self._sent_at >= BATCH_SECONDS
        if is_full or is_late or (self._is_careful and self._items):
            self.flush()

    def flush(self) -> None:
        """Send the items; a message without items shows that the worker is at work."""
        write_message(self._responses, {"items": self._items}, self._payload)
        self._items, self._payload, self._size = [], [], 0
        self._sent_at = time.monotonic()


def encode_item(item: ExportItem, parsed: ParsedItem) -> tuple[list[Any], list[bytes]]:
    """Return the header of an item, and its payload: its files and then its records."""
    contents, issues = [], [*parsed.issues]
    left = ITEM_MAX_BYTES
    for record in parsed.records:
        content = _serialize(record)
        if content is None:
            issues.append(Issue(ReceiptCode.UNREADABLE, "nested too deeply"))
        elif len(content) > min(RECORD_MAX_BYTES, left):
            issues.append(Issue(ReceiptCode.TOO_LARGE, f"{len(content):,} bytes"))
        else:
            contents.append((record, content))
            left -= len(content)
    records = [
        [
            record.stream,
            record.data["id"],
            len(content),
            record.replaces,
            (*record.unknown, *["text"] * (record.data["id"] in parsed.unread_texts)),
        ]
        for record, content in contents
    ]
    files = [file for file in parsed.files if len(file.content) <= limits.BLOB_MAX_BYTES]
    heads = [
        [file.stream, file.key, file.blob_id, file.media_type, len(file.content)] for file in files
    ]
    stale = [[each.stream, each.key, each.keep, each.first] for each in parsed.stale]
    payload = [file.content for file in files]
    payload += [content for _, content in contents]
    noted = [[issue.code, issue.detail] for issue in issues]
    return [item.file, item.location, item.size, noted, heads, records, stale], payload


def _serialize(record: ParsedRecord) -> bytes | None:
    """Return the data as JSON, or None for a record that is nested too deeply."""
    try:
        content = orjson.dumps(record.data)
        if _NUL not in content:
            return content
    except TypeError:
        pass
    try:
        return orjson.dumps(to_storable_json(record.data))
    except (TypeError, RecursionError):
        return None


class MessageError(Exception):
    """The other side exited or sent something else than a message."""


def write_message(stream: IO[bytes], header: dict[str, Any], payload: Iterable[bytes] = ()) -> None:
    try:
        content = orjson.dumps(header)
    except TypeError:  # such as a lone surrogate
        content = orjson.dumps(to_storable_json(header))
    stream.write(b"%d\n" % len(content))
    stream.write(content)
    for part in payload:
        stream.write(part)
    stream.flush()


def read_message(stream: IO[bytes]) -> dict[str, Any]:
    """Return the object; the bytes that follow it remain in the stream. Raises ``MessageError``."""
    line = stream.readline(20)
    if not line.strip().isdigit():
        raise MessageError("exited" if not line else "sent something else than a message")
    if int(line) > MESSAGE_MAX_BYTES:
        raise MessageError(TOO_LONG)
    content = read_exactly(stream, int(line))
    if sum(map(content.count, (b",", b"[", b"{"))) > MESSAGE_MAX_VALUES:
        raise MessageError(TOO_LONG)
    try:
        header = orjson.loads(content)
    except orjson.JSONDecodeError:
        raise MessageError("sent something else than a message") from None
    if not isinstance(header, dict):
        raise MessageError("sent something else than a message")
    return header


def read_exactly(stream: IO[bytes], size: int) -> bytes:
    """Raises ``MessageError`` at the end of the stream."""
    content = stream.read(size)
    if len(content) < size:
        raise MessageError("exited")
    return content


if __name__ == "__main__":
    main()
