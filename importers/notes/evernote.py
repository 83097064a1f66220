"""Import notebooks of Evernote (ENEX)."""

import base64
import binascii
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import IO
from xml.parsers import expat

from evidence import limits
from importers.core.dates import to_utc
from importers.core.export_files import ExportFile, iter_items
from importers.core.importer import ExportFiles, Importer, Options, claim_each
from importers.core.readers import ELEMENT_MAX_DEPTH, iter_collected
from importers.core.results import (
    ContentKeys,
    ExportItem,
    ExportItems,
    ParsedItem,
    ReceiptCode,
    UnreadableError,
)
from importers.core.text import html_to_text, one_line
from importers.notes import records

TEXT_MAX_CHARS = 8 * 1024 * 1024
FILE_MAX_CHARS = limits.BLOB_MAX_BYTES * 3 // 2
"""Base64 takes four characters for three bytes, and line ends."""
FILES_MAX_CHARS = 2 * FILE_MAX_CHARS
_NOTE = "note"
_RESOURCE = "resource"
_TEXTS = frozenset(
    (
        "title",
        "content",
        "created",
        "updated",
        "tag",
        "source-url",
        "author",
        "mime",
        "file-name",
        "taskStatus",
    )
)
_DATA = "data"
_TODO = re.compile(
    r"<en-todo\b([^<>]{0,200})>|<li\b[^<>]{0,300}--en-checked:\s*(true|false)[^<>]{0,300}>", re.I
)
_CHECKED = re.compile(r"checked\s*=\s*[\"']true", re.I)
_ENCRYPTED = re.compile(r"<en-crypt\b[^<>]*>[^<]*</en-crypt>", re.I)
_PROLOG = re.compile(r"\s*(?:<\?xml[^<>]*\?>\s*)?(?:<!DOCTYPE[^<>]*>)?", re.I)


@dataclass(slots=True)
class EnexResource:
    """A file of a note. ``data`` is Base64, and None where it is too large."""

    fields: dict[str, str] = field(default_factory=dict)
    data: list[str] | None = field(default_factory=list)
    encoding: str = ""


@dataclass(slots=True)
class EnexNote:
    """A note as it is written; ``tasks`` are those beside its text, with their titles."""

    line: int
    position: int
    size: int = 0
    is_cut: bool = False
    fields: dict[str, str] = field(default_factory=dict)
    tags: list[str] = field(default_factory=list)
    tasks: list[dict[str, str]] = field(default_factory=list)
    resources: list[EnexResource] = field(default_factory=list)


class _NoteCollector:
    """Collects notes. Texts beyond their limits are dropped while they are read."""

    def __init__(self) -> None:
        self.notes: list[EnexNote] = []
        self._path: list[str] = []
        self._note: EnexNote | None = None
        self._text: list[str] | None = None
        self._text_size = self._files_size = 0
        self.parser = expat.ParserCreate()
        self.parser.buffer_text = True
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._characters

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        self._path.append(name)
        if len(self._path) > ELEMENT_MAX_DEPTH:
            raise UnreadableError(ReceiptCode.MALFORMED, detail="nested too deeply")
        if self._path == ["en-export", _NOTE]:
            self._note = EnexNote(self.parser.CurrentLineNumber, self.parser.CurrentByteIndex)
            self._files_size = 0
        if self._note is None:
            return
        if name == _RESOURCE:
            self._note.resources.append(EnexResource())
        elif name == "task":
            self._note.tasks.append({})
        if name == _DATA and self._note.resources:
            self._note.resources[-1].encoding = attributes.get("encoding", "")
            self._text_size = 0
        self._text, self._text_size = ([], 0) if name in _TEXTS else (None, 0)

    def _characters(self, text: str) -> None:
        if self._note is None:
            return
        if self._path[-1] == _DATA and self._note.resources:
            self._add_data(self._note.resources[-1], text)
        elif self._text is not None:
            self._text_size += len(text)
            if self._text_size <= TEXT_MAX_CHARS:
                self._text.append(text)
            else:
                self._note.is_cut = True

    def _add_data(self, resource: EnexResource, text: str) -> None:
        self._text_size += len(text)
        self._files_size += len(text)
        if self._text_size > FILE_MAX_CHARS or self._files_size > FILES_MAX_CHARS:
            resource.data = None
        elif resource.data is not None:
            resource.data.append(text)

    def _end(self, name: str) -> None:
        if self._note is not None and self._text is not None:
            self._add_text(self._note, name, "".join(self._text))
        self._text = None
        self._path.pop()
        if name == _NOTE and len(self._path) == 1 and self._note is not None:
            self._note.size = self.parser.CurrentByteIndex - self._note.position
            self.notes.append(self._note)
            self._note = None

    def _add_text(self, note: EnexNote, name: str, text: str) -> None:
        if _RESOURCE in self._path and note.resources:
            note.resources[-1].fields.setdefault(name, text)
        elif "task" in self._path and note.tasks:
            note.tasks[-1].setdefault(name, text)
        elif name == "tag":
            note.tags.append(text)
        else:
            note.fields.setdefault(name, text)


def iter_notes(stream: IO[bytes]) -> Iterator[EnexNote]:
    """Yield the notes. Raises ``UnreadableError`` at damage, after the notes before it."""
    collector = _NoteCollector()
    return iter_collected(stream, collector.parser.Parse, collector.notes)


def _read(files: ExportFiles, options: Options) -> ExportItems:
    return iter_items(files, partial(_read_file, keys=ContentKeys("n_")))


def _read_file(file: ExportFile, *, keys: ContentKeys) -> ExportItems:
    with file.open() as stream:
        for note in iter_notes(stream):
            # A note has no id. Its title and creation stay when its text is edited.
            key = keys.key("evernote", note.fields.get("created"), note.fields.get("title"))
            parse = partial(_parse, note, key, file.path.stem)
            yield ExportItem(file.name, f"line {note.line:,}", note.size, parse)


def _parse(written: EnexNote, key: str, notebook: str) -> ParsedItem:
    item = ParsedItem()
    fields = written.fields
    title = one_line(fields.get("title", "")) or "Untitled"
    created = fields.get("created", "").strip()
    created_at = to_utc(created)
    updated_at = to_utc(fields.get("updated", "").strip()) or created_at
    if written.is_cut:
        item.add_issue(ReceiptCode.TEXT_CUT)
    note = records.Note(
        key=key,
        path=f"{notebook}/{title.replace('/', '-')}",
        title=title,
        text=_text(written, item),
        service="evernote",
        modified_at=item.require_date(updated_at, created or "no date"),
        details={
            "created_at": created_at,
            "tags": records.clean_tags(written.tags),
            "url": one_line(fields.get("source-url", "")),
            "author": one_line(fields.get("author", "")),
        },
    )
    records.add_note(item, note)
    for number, resource in enumerate(written.resources, 1):
        _add_resource(item, note, resource, number)
    return item


def _text(note: EnexNote, item: ParsedItem) -> str:
    source = _PROLOG.sub("", note.fields.get("content", ""), count=1)
    source, encrypted = _ENCRYPTED.subn("[encrypted]", source)
    if encrypted:
        item.add_issue(ReceiptCode.PARTLY_ENCRYPTED)
    text = html_to_text(_TODO.sub(_checkbox, source))
    tasks = (
        f"[{'x' if task.get('taskStatus') == 'completed' else ' '}] {one_line(task.get('title', ''))}"
        for task in note.tasks
    )
    return "\n".join([text, *tasks])


def _checkbox(match: re.Match[str]) -> str:
    is_checked = match[2] == "true" if match[2] else bool(_CHECKED.search(match[1]))
    sign = "[x] " if is_checked else "[ ] "
    return f"{match[0]}{sign}" if match[2] else sign


def _add_resource(
    item: ParsedItem, note: records.Note, resource: EnexResource, number: int
) -> None:
    name = one_line(resource.fields.get("file-name", "")) or f"file {number}"
    try:
        content = base64.b64decode("".join("".join(resource.data or []).split()), validate=True)
    except (binascii.Error, ValueError):
        item.add_issue(ReceiptCode.FILE_MISSING, detail=f"{name[:60]}: damaged")
        return
    if resource.data is None or len(content) > limits.BLOB_MAX_BYTES:
        item.add_issue(ReceiptCode.FILE_TOO_LARGE, detail=name[:80])
    elif not content:
        item.add_issue(ReceiptCode.FILE_MISSING, detail=name[:80])
    else:
        media_type = one_line(resource.fields.get("mime", ""))
        records.add_file(item, note, content, name=name, media_type=media_type)


EVERNOTE = Importer(claim=claim_each(lambda file: b"<en-export" in file.head), read=_read)
