"""Stream the notes of an Evernote export (ENEX) in bounded memory."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import IO
from xml.parsers import expat

from evidence import limits
from importers.core.results import ReceiptCode, UnreadableError
from importers.core.streaming import ELEMENT_MAX_DEPTH, READ_SIZE, remove_doctype

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
    block = remove_doctype(stream.read(READ_SIZE))
    while True:
        next_block = stream.read(READ_SIZE)
        failure: UnreadableError | None = None
        try:
            collector.parser.Parse(block, not next_block)
        except expat.ExpatError as error:
            failure = UnreadableError(ReceiptCode.DAMAGED, detail=str(error))
        except UnreadableError as error:
            failure = error
        yield from collector.notes
        collector.notes.clear()
        if failure is not None:
            raise failure
        if not next_block:
            return
        block = next_block
