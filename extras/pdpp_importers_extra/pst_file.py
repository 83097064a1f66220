"""Read data files of Outlook (.pst, .ost) with libpff, the extra ``outlook``."""

import ctypes
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
from importers.mail.mailboxes import leave_out_twins
from pdpp_importers_extra.outlook import (
    FILE_CONTENT,
    FILE_METHOD,
    FILE_NAMES,
    FILES_MAX_BYTES,
    MAX_DEPTH,
    MAX_FILES,
    USED_PROPERTIES,
    MapiFile,
    MapiMessage,
    MapiProperties,
    find_categories_id,
    parse_outlook_message,
)

MAGIC = b"!BDN"
MAX_FOLDERS = 10_000
MAX_FOLDER_DEPTH = 50
MAX_RECIPIENTS = 500
CHECKED_VERSION = "20260926"
"""The release of libpff-python whose objects ``_attached_message`` knows."""
_ROOT, _ATTACHED_MESSAGE, _BINARY = "IPM_SUBTREE", 5, 0x102
_NAME_ENTRIES, _NAME_TEXTS = 3, 4
"""Properties of the map of named properties."""


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
            categories_id = _categories_id(store)
        except (OSError, RuntimeError) as error:
            raise UnreadableError(ReceiptCode.DAMAGED, detail=str(error)[:80]) from error
        size = file.size // max(1, sum(count for _, _, count in folders))
        for path, folder, count in folders:
            for number in range(count):
                location = f"{path or '/'}, item {number + 1:,}"
                parse = partial(_parse, folder, number, path, categories_id)
                yield ExportItem(file.name, location, size, parse)


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


def _categories_id(store: Any) -> int:
    found: dict[int, bytes] = {}
    item = store.get_name_to_id_map()
    for number in range(0 if item is None else item.number_of_record_sets):
        entries = item.get_record_set(number).entries
        found |= {each.entry_type: each.data or b"" for each in entries}
    return find_categories_id(found.get(_NAME_ENTRIES, b""), found.get(_NAME_TEXTS, b""))


def _displayed_path(path: Sequence[str]) -> str:
    """Return the path below the folder that Outlook shows as the root."""
    start = path.index(_ROOT) + 1 if _ROOT in path else 1
    return "/".join(path[start:])


def _parse(folder: Any, number: int, path: str, categories_id: int) -> ParsedItem:
    try:
        message = _MessageReader(categories_id).read(folder.get_sub_message(number))
    except (OSError, RuntimeError, AttributeError) as error:
        raise UnreadableError(ReceiptCode.DAMAGED, detail=str(error)[:80]) from error
    return parse_outlook_message(message, path or None)


class _MessageReader:
    """Reads a message, and those that are attached to it."""

    def __init__(self, categories_id: int) -> None:
        self._categories_id = categories_id
        self._left = FILES_MAX_BYTES

    def read(self, message: Any, *, depth: int = 0) -> MapiMessage:
        charset = _properties(message, None).charset_of_texts()
        issues = [Issue(ReceiptCode.NESTED_TOO_DEEPLY)] if depth > MAX_DEPTH else []
        recipients = list[MapiProperties]()
        try:
            sets: Any = getattr(message, "recipients", None)
            count = 0 if sets is None else sets.number_of_record_sets
            for each in range(min(MAX_RECIPIENTS, count)):
                recipients.append(_set_properties(sets.get_record_set(each), charset))
        except OSError:
            issues.append(Issue(ReceiptCode.MALFORMED, "recipients"))
        files = [] if depth > MAX_DEPTH else list(self._files(message, charset, issues, depth))
        properties = _properties(message, charset, self._categories_id)
        categories = properties.texts(self._categories_id)
        return MapiMessage(properties, recipients, files, issues, categories)

    def _files(
        self, message: Any, charset: str | None, issues: list[Issue], depth: int
    ) -> Iterator[MapiFile]:
        """Yield the attached files and messages, and add an issue for each that cannot be read."""
        for number in range(min(MAX_FILES, getattr(message, "number_of_attachments", 0))):
            try:
                attachment = message.get_attachment(number)
                properties = _properties(attachment, charset)
                if properties.number(FILE_METHOD) == _ATTACHED_MESSAGE:
                    if (attached := _attached_message(attachment)) is None:
                        detail = f"attached message {properties.text(*FILE_NAMES)}"
                        issues.append(Issue(ReceiptCode.NOT_SUPPORTED, detail[:80]))
                    else:
                        yield MapiFile(properties, self.read(attached, depth=depth + 1))
                    continue
                size = _size(attachment)
                self._left -= size
                if self._left < 0:
                    issues.append(Issue(ReceiptCode.FILE_TOO_LARGE, f"{size:,} bytes"))
                    continue
                content = attachment.read_buffer(size) if size else b""
            except OSError as error:
                issues.append(Issue(ReceiptCode.FILE_MISSING, str(error)[:80]))
                continue
            values = {**properties.values, FILE_CONTENT: (_BINARY, content)}
            yield MapiFile(MapiProperties(values, charset))


def _attached_message(attachment: Any) -> Any:
    """Return the message of an attachment, or None if the library does not find it.

    The module has no function for it. That of its library adds the message to the items of the
    attachment, where the module finds it, unless a message of the file has the same number. The
    object begins with the pointer that it takes.
    """
    import pypff

    if pypff.get_version() != CHECKED_VERSION:
        return None
    library = ctypes.CDLL(pypff.__file__)
    item, found = (
        ctypes.c_void_p.from_address(id(attachment) + object.__basicsize__),
        ctypes.c_void_p(),
    )
    if library.libpff_attachment_get_item(item, ctypes.byref(found), None) == 1:
        library.libpff_item_free(ctypes.byref(found), None)
    return attachment.get_sub_item(0) if attachment.number_of_sub_items == 1 else None


def _size(attachment: Any) -> int:
    try:
        return int(attachment.size)
    except OSError:  # it has no content
        return 0


def _properties(item: Any, charset: str | None, *named: int) -> MapiProperties:
    values: dict[int, tuple[int, bytes]] = {}
    for number in range(item.number_of_record_sets):
        values |= _set_properties(item.get_record_set(number), charset, *named).values
    return MapiProperties(values, charset)


def _set_properties(record_set: Any, charset: str | None, *named: int) -> MapiProperties:
    values: dict[int, tuple[int, bytes]] = {}
    for number in range(record_set.number_of_entries):
        entry = record_set.get_entry(number)
        if (each := entry.entry_type) in USED_PROPERTIES or each in named:
            values[each] = entry.value_type or 0, entry.data or b""
    return MapiProperties(values, charset)


PST = Importer(
    claim=_claim,
    read=leave_out_twins(_read),
)
