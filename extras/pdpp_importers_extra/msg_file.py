"""Read .msg files of Outlook: a container of MAPI properties (MS-OXMSG)."""

import io
import struct
from functools import partial

import olefile

from importers.core.export_files import ExportFile
from importers.core.importer import ExportFiles, Importer, Options
from importers.core.results import (
    ExportItem,
    ExportItems,
    Issue,
    ParsedItem,
    ReceiptCode,
    UnreadableError,
)
from importers.mail.mailboxes import MESSAGE_MAX_BYTES, leave_out_twins
from pdpp_importers_extra.outlook import (
    MAX_CATEGORIES,
    MAX_DEPTH,
    MapiFile,
    MapiMessage,
    MapiProperties,
    decode_text,
    find_categories_id,
    parse_outlook_message,
)

_PROPERTIES = "__properties_version1.0"
_STREAM = "__substg1.0_"
_RECIPIENT, _ATTACHMENT, _ATTACHED_MESSAGE = "__recip_", "__attach_", "__substg1.0_3701000D"
_NAME_MAP = tuple(("__nameid_version1.0", f"{_STREAM}{each}0102") for each in ("0003", "0004"))
_ROOT_HEADER_BYTES, _MESSAGE_HEADER_BYTES, _PART_HEADER_BYTES = 32, 24, 8
_FIXED = struct.Struct("<HHI8s")
"""Type, id, flags and value of a property."""
_VARIABLE_TYPES = (0x001E, 0x001F, 0x0102, 0x000D)


class _Container:
    """The streams of a .msg file, by the storage that has them."""

    def __init__(self, ole: olefile.OleFileIO) -> None:
        self._ole = ole
        self._names: dict[tuple[str, ...], list[str]] = {}
        for *storage, name in ole.listdir(streams=True, storages=True):
            self._names.setdefault(tuple(storage), []).append(name)
        self._categories_id = find_categories_id(*map(self._read, _NAME_MAP))

    def message(self, storage: tuple[str, ...] = (), *, depth: int = 0) -> MapiMessage:
        header_bytes = _MESSAGE_HEADER_BYTES if storage else _ROOT_HEADER_BYTES
        properties = self._properties(storage, header_bytes, None)
        charset = properties.charset_of_texts()
        names = self._names.get(storage, ())
        issues = [Issue(ReceiptCode.NESTED_TOO_DEEPLY)] if depth > MAX_DEPTH else []
        return MapiMessage(
            MapiProperties(properties.values, charset),
            [
                self._properties((*storage, name), _PART_HEADER_BYTES, charset)
                for name in names
                if name.startswith(_RECIPIENT)
            ],
            [
                self._file((*storage, name), charset, depth)
                for name in names
                if name.startswith(_ATTACHMENT) and not issues
            ],
            issues,
            self._categories(storage, charset),
        )

    def _categories(self, storage: tuple[str, ...], charset: str | None) -> list[str]:
        """Return the texts of the property, each of which has a stream: 8000101F-00000000."""
        start = f"{_STREAM}{self._categories_id:04X}"
        names = sorted(name for name in self._names.get(storage, ()) if name.startswith(start))
        return [
            decode_text(int(name[len(start) :][:4], 16), self._read((*storage, name)), charset)
            for name in names[:MAX_CATEGORIES]
            if "-" in name
        ]

    def _file(self, storage: tuple[str, ...], charset: str | None, depth: int) -> MapiFile:
        is_message = _ATTACHED_MESSAGE in self._names.get(storage, ())
        return MapiFile(
            self._properties(storage, _PART_HEADER_BYTES, charset),
            self.message((*storage, _ATTACHED_MESSAGE), depth=depth + 1) if is_message else None,
        )

    def _properties(
        self, storage: tuple[str, ...], header_bytes: int, charset: str | None
    ) -> MapiProperties:
        values: dict[int, tuple[int, bytes]] = {}
        names = self._names.get(storage, ())
        content = self._read((*storage, _PROPERTIES))[header_bytes:]
        whole = len(content) - len(content) % _FIXED.size
        for kind, each, _flags, value in _FIXED.iter_unpack(content[:whole]):
            if kind not in _VARIABLE_TYPES:
                values[each] = kind, value
        for name in names:
            tag = name.removeprefix(_STREAM)
            if tag != name and len(tag) == 8 and name != _ATTACHED_MESSAGE:
                values[int(tag[:4], 16)] = int(tag[4:], 16), self._read((*storage, name))
        return MapiProperties(values, charset)

    def _read(self, path: tuple[str, ...]) -> bytes:
        if self._ole.get_type(list(path)) != olefile.STGTY_STREAM:
            return b""
        return bytes(self._ole.openstream(list(path)).read())


def _claim(files: ExportFiles) -> list[ExportFile]:
    return [file for file in files if file.suffix == ".msg" and file.head.startswith(olefile.MAGIC)]


def _read(files: ExportFiles, options: Options) -> ExportItems:
    for file in files:
        yield ExportItem(file.name, "", file.size, partial(_parse_file, file))


def _parse_file(file: ExportFile) -> ParsedItem:
    content = file.read(max_bytes=MESSAGE_MAX_BYTES)
    try:
        with olefile.OleFileIO(io.BytesIO(content)) as ole:
            message = _Container(ole).message()
    except MemoryError:
        raise
    except Exception as error:  # olefile raises arbitrary errors
        raise UnreadableError(ReceiptCode.DAMAGED, detail=str(error)[:80]) from error
    if not message.properties.values:
        raise UnreadableError(ReceiptCode.MALFORMED)
    return parse_outlook_message(message, file.path.parent.name or None)


MSG = Importer(
    claim=_claim,
    read=leave_out_twins(_read),
)
