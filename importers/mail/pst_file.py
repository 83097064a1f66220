"""Read data files of Outlook (.pst, .ost) with libpff, the extra ``outlook``."""

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import IO, Any

from importers.core.export_files import ExportFile, iter_items
from importers.core.importer import ExportFiles, Importer, Options
from importers.core.results import (
    ExportItem,
    ExportItems,
    Issue,
    ParsedItem,
    ReceiptCode,
    UnreadableError,
)
from importers.mail.outlook import (
    FILE_CONTENT,
    FILE_METHOD,
    FILE_NAMES,
    FILES_MAX_BYTES,
    MAX_FILES,
    USED_PROPERTIES,
    MapiFile,
    MapiMessage,
    MapiProperties,
    parse_outlook_message,
)
from importers.mail.twins import leave_out_twins

MAGIC = b"!BDN"
MAX_FOLDERS = 10_000
MAX_FOLDER_DEPTH = 50
MAX_RECIPIENTS = 500
_ROOT, _ATTACHED_MESSAGE, _BINARY = "IPM_SUBTREE", 5, 0x102


def _claim(files: ExportFiles) -> list[ExportFile]:
    return [file for file in files if file.head.startswith(MAGIC)]


def _read(files: ExportFiles, options: Options) -> ExportItems:
    return iter_items(files, _read_file)


def _read_file(file: ExportFile) -> ExportItems:
    try:
        import pypff
    except ImportError:
        raise UnreadableError(ReceiptCode.NEEDS_OUTLOOK) from None
    with _open_seekable(file) as stream:
        store = pypff.file()
        try:
            store.open_file_object(stream)
            folders = list(_folders(store.get_root_folder()))
        except (OSError, RuntimeError) as error:
            raise UnreadableError(ReceiptCode.DAMAGED, detail=str(error)[:80]) from error
        size = file.size // max(1, sum(count for _, _, count in folders))
        for path, folder, count in folders:
            for number in range(count):
                location = f"{path or '/'}, item {number + 1:,}"
                yield ExportItem(file.name, location, size, partial(_parse, folder, number, path))


@contextmanager
def _open_seekable(file: ExportFile) -> Iterator[IO[bytes]]:
    """Open a file, or a copy of one in an archive, where going back is slow."""
    with file.open() as stream:
        if not file.export.lower().endswith(".zip"):
            yield stream
            return
        with tempfile.TemporaryFile() as copy:
            shutil.copyfileobj(stream, copy, 1024 * 1024)
            yield copy


def _folders(root: Any) -> Iterator[tuple[str, Any, int]]:
    """Yield path, folder and number of items of all folders."""
    waiting: list[tuple[tuple[str, ...], Any]] = [((), root)]
    for _ in range(MAX_FOLDERS):
        if not waiting:
            return
        path, folder = waiting.pop()
        yield _displayed_path(path), folder, folder.number_of_sub_messages
        if len(path) <= MAX_FOLDER_DEPTH:
            below = [folder.get_sub_folder(each) for each in range(folder.number_of_sub_folders)]
            waiting += [((*path, each.name or "?"), each) for each in reversed(below)]


def _displayed_path(path: Sequence[str]) -> str:
    """Return the path below the folder that Outlook shows as the root."""
    start = path.index(_ROOT) + 1 if _ROOT in path else 1
    return "/".join(path[start:])


def _parse(folder: Any, number: int, path: str) -> ParsedItem:
    try:
        message = _message(folder.get_sub_message(number))
    except (OSError, RuntimeError, AttributeError) as error:
        raise UnreadableError(ReceiptCode.DAMAGED, detail=str(error)[:80]) from error
    return parse_outlook_message(message, path or None)


def _message(message: Any) -> MapiMessage:
    charset = _properties(message, None).charset_of_texts()
    issues: list[Issue] = []
    recipients = list[MapiProperties]()
    try:
        sets: Any = getattr(message, "recipients", None)
        count = 0 if sets is None else sets.number_of_record_sets
        for each in range(min(MAX_RECIPIENTS, count)):
            recipients.append(_set_properties(sets.get_record_set(each), charset))
    except OSError:
        issues.append(Issue(ReceiptCode.MALFORMED, "recipients"))
    files = list(_files(message, charset, issues))
    return MapiMessage(_properties(message, charset), recipients, files, issues)


def _files(message: Any, charset: str | None, issues: list[Issue]) -> Iterator[MapiFile]:
    """Yield the attached files, and add an issue for each that cannot be read.

    The library does not give the content of attached messages.
    """
    left = FILES_MAX_BYTES
    for number in range(min(MAX_FILES, getattr(message, "number_of_attachments", 0))):
        try:
            attachment = message.get_attachment(number)
            properties = _properties(attachment, charset)
            if properties.number(FILE_METHOD) == _ATTACHED_MESSAGE:
                detail = f"attached message {properties.text(*FILE_NAMES)}"
                issues.append(Issue(ReceiptCode.NOT_SUPPORTED, detail[:80]))
                continue
            size = _size(attachment)
            left -= size
            if left < 0:
                issues.append(Issue(ReceiptCode.FILE_TOO_LARGE, f"{size:,} bytes"))
                continue
            content = attachment.read_buffer(size) if size else b""
        except OSError as error:
            issues.append(Issue(ReceiptCode.FILE_MISSING, str(error)[:80]))
            continue
        values = {**properties.values, FILE_CONTENT: (_BINARY, content)}
        yield MapiFile(MapiProperties(values, charset))


def _size(attachment: Any) -> int:
    try:
        return int(attachment.size)
    except OSError:  # it has no content
        return 0


def _properties(item: Any, charset: str | None) -> MapiProperties:
    values: dict[int, tuple[int, bytes]] = {}
    for number in range(item.number_of_record_sets):
        values |= _set_properties(item.get_record_set(number), charset).values
    return MapiProperties(values, charset)


def _set_properties(record_set: Any, charset: str | None) -> MapiProperties:
    values: dict[int, tuple[int, bytes]] = {}
    for number in range(record_set.number_of_entries):
        entry = record_set.get_entry(number)
        if (each := entry.entry_type) in USED_PROPERTIES:
            values[each] = entry.value_type or 0, entry.data or b""
    return MapiProperties(values, charset)


PST = Importer(
    claim=_claim,
    read=leave_out_twins(_read),
)
