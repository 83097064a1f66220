"""Import notes of Markdown folders such as Obsidian, Notion and Evernote."""

import base64
import binascii
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, tzinfo
from functools import partial
from hashlib import sha256
from pathlib import PurePosixPath
from typing import Any
from xml.parsers import expat

import yaml
from typing_extensions import override

from evidence import limits
from importers.core.dates import local_to_utc, parse_local_moment, to_utc
from importers.core.export_files import ExportFile, iter_items
from importers.core.file_texts import add_attachment, detect_media_type, read_attached
from importers.core.importer import ExportFiles, Importer, Options, claim_each
from importers.core.readers import ELEMENT_MAX_DEPTH, iter_collected
from importers.core.results import (
    ContentKeys,
    ExportItem,
    ExportItems,
    ParsedItem,
    ParsedRecord,
    ReceiptCode,
    UnreadableError,
    record_key,
)
from importers.core.text import decode, html_to_text, one_line, text_prefix

MAX_TAGS = 200
TAG_MAX_CHARS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """A note; ``key`` is that of its record. Missing details are left out of the record."""

    key: str
    path: str
    title: str
    text: str
    service: str | None = None
    media_type: str = "text/plain"
    modified_at: str | None = None
    details: dict[str, Any] = field(default_factory=dict)


note_key = partial(record_key, "n_")
"""Return the key of a note of a service, by what it is."""


def add_note(item: ParsedItem, note: Note) -> None:
    text = item.cut_text(note.text)
    item.records.append(
        ParsedRecord(
            "documents",
            {
                "id": note.key,
                "path": note.path,
                "folder": note.path.rpartition("/")[0] or None,
                "title": one_line(note.title) or None,
                "media_type": note.media_type,
                "modified_at": note.modified_at,
                "text": text.strip() or None,
                **details(service=note.service, **note.details),
            },
        )
    )


def details(**values: Any) -> dict[str, Any]:
    """Return the values that exist: records of files without them stay as they were stored."""
    return {name: value for name, value in values.items() if value not in (None, "", [])}


def clean_tags(values: Iterable[object]) -> list[str]:
    """Return different tags without the sign # before them."""
    tags = (
        one_line(str(value), max_chars=TAG_MAX_CHARS).lstrip("#").strip()
        for value in values
        if isinstance(value, str | int | float) and not isinstance(value, bool)
    )
    return list(dict.fromkeys(filter(None, tags)))[:MAX_TAGS]


def add_file(
    item: ParsedItem, note: Note, content: bytes, *, name: str, media_type: str | None = None
) -> None:
    """Add a file of a note, as a document of its own that names the note."""
    shown = one_line(name.rpartition("/")[2], max_chars=255)
    digest = sha256(content).hexdigest()
    key = note_key("file", note.key, shown, digest)
    if any(record.data["id"] == key for record in item.records):
        return
    detected = detect_media_type(name, media_type)
    attachment = add_attachment(
        item, content, stream="documents", key=key, media_type=detected, name=shown
    )
    item.records.append(
        ParsedRecord(
            "documents",
            {
                "id": key,
                "path": f"{note.path}/{shown or digest[:12]}",
                "folder": note.path,
                "title": shown or None,
                "media_type": attachment.media_type,
                "size_bytes": len(content),
                "modified_at": note.modified_at,
                "pages": attachment.pages,
                "text": attachment.text,
                "blob_ref": attachment.blob_ref,
                "service": note.service,
                "parent_id": note.key,
            },
        )
    )


def add_export_file(
    item: ParsedItem,
    note: Note,
    file: ExportFile | None,
    *,
    name: str,
    media_type: str | None = None,
) -> None:
    """Add a file of the export; a missing or too large one has a receipt."""
    content = read_attached(file, item, name=name)
    if content is not None:
        add_file(item, note, content, name=name, media_type=media_type)


FRONT_MATTER_MAX_CHARS = 64 * 1024
MAX_PROPERTIES = 200
_FENCE = re.compile(r"\A\ufeff?---[ \t]*\r?\n(.*?)^---[ \t]*(?:\r?\n|\Z)", re.S | re.M)
_CODE = re.compile(r"```.*?(?:```|\Z)|`[^`\n]*`", re.S)
_TAG = re.compile(r"(?:^|(?<=\s))#([\w/-]*[^\W\d_][\w/-]*)")
_TEMPLATE = re.compile(r"\{\{[^{}\n]*\}\}")


class _Loader(yaml.BaseLoader):
    """Reads every value as text. Refuses references, which can repeat a value very often."""

    @override
    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("references are not supported")
        return super().compose_node(parent, index)


def split_front_matter(text: str) -> tuple[dict[str, Any] | None, str]:
    """Return the properties and the rest of the text; None for properties that cannot be read."""
    match = _FENCE.match(text[:FRONT_MATTER_MAX_CHARS])
    if match is None:
        return {}, text
    try:
        properties = yaml.load(match[1].replace("\t", "  "), _Loader)  # noqa: S506 - all texts
    except (yaml.YAMLError, RecursionError, ValueError):
        return None, text
    if properties in (None, ""):
        properties = {}
    if not isinstance(properties, dict):
        return None, text
    return {str(name): value for name, value in properties.items()}, text[match.end() :]


def property_lines(properties: dict[str, Any]) -> list[str]:
    """Return a line such as ``status: done`` for each property."""
    lines = (f"{name}: {', '.join(_texts(value))}" for name, value in properties.items())
    return [one_line(line) for line in lines][:MAX_PROPERTIES]


def _texts(value: Any, depth: int = 0) -> Iterator[str]:
    if isinstance(value, dict):
        for name, member in value.items():
            yield f"{name} {' '.join(_texts(member, depth + 1))}" if depth < 20 else str(name)
    elif isinstance(value, list):
        for member in value if depth < 20 else ():
            yield from _texts(member, depth + 1)
    elif value:
        yield str(value)


def find_property(properties: dict[str, Any], *names: str) -> str | None:
    """Return the text of the first of these properties, whatever the case of its name."""
    by_name = {name.lower().strip(): value for name, value in properties.items()}
    values = (by_name.get(name) for name in names)
    found = (value for value in values if isinstance(value, str) and value.strip())
    return next((one_line(value) for value in found), None)


def listed_tags(properties: dict[str, Any]) -> list[str]:
    """Return the tags of the properties, which may be a list or one text."""
    tags: list[str] = []
    for name, value in properties.items():
        if name.lower().strip() in ("tags", "tag", "keywords"):
            for text in _texts(value):
                is_list = isinstance(value, list)
                tags += [text] if is_list else re.split(r"[,;]" if "," in text else r"\s+", text)
    return tags


_TITLE_LINES = 40
_CREATED = ("created", "date created", "created_at", "created at", "creation date", "date")


def describe_note(
    text: str, zone: tzinfo, item: ParsedItem
) -> tuple[str, str | None, dict[str, Any]]:
    """Return the text without its properties, the title if the note has one, and the details."""
    properties, body = split_front_matter(text)
    if properties is None:
        item.add_issue(ReceiptCode.BAD_PROPERTIES)
        properties = {}
    url = find_property(properties, "url", "source", "link")
    found = details(
        created_at=_created_at(properties, zone),
        # Tags such as #home count, but not in code.
        tags=clean_tags(
            [
                *listed_tags(properties),
                *_TAG.findall(_TEMPLATE.sub(" ", _CODE.sub(" ", body))),
            ]
        ),
        properties=property_lines(properties),
        url=url if url and url.startswith(("http://", "https://")) else None,
        author=find_property(properties, "author"),
    )
    return body, find_property(properties, "title") or first_heading(body), found


def first_heading(text: str) -> str | None:
    for line in text.splitlines()[:_TITLE_LINES]:
        if line.startswith("# "):
            return one_line(line[2:]) or None
    return None


def _created_at(properties: dict[str, Any], zone: tzinfo) -> str | None:
    """Return the creation, in the zone of the import if none is written; a day begins at midnight."""
    for name in _CREATED:
        if written := find_property(properties, name):
            try:
                return local_to_utc(datetime.fromisoformat(written), zone)
            except ValueError:
                continue
    return None


_ID = re.compile(r"[ -]?([0-9a-f]{32})(?=(?:_all)?(?:\.[a-z]+)?$)")
_EXPORT = re.compile(r"^(?:Export-[0-9a-f-]{36}(?:-Part-\d+)?/)+")
_PAGES = {".md": "text/markdown", ".html": "text/html", ".htm": "text/html", ".csv": "text/csv"}
_PROPERTY = re.compile(r"([^\n:]{1,100}):[ \t]+(\S[^\n]{0,2000})")
_PAGE_TITLE = re.compile(r"<title>(.*?)</title>", re.S)
_NOTION_CREATED = ("Created time", "Created")
_EDITED = ("Last edited time", "Last edited", "Updated")
_TAGS = ("Tags", "Tag", "Labels")


@dataclass(frozen=True, slots=True)
class _Export:
    """Pages by the folder of what they contain, names of databases, and the zone of the import."""

    pages: Mapping[str, ExportFile]
    databases: frozenset[str]
    zone: tzinfo


def page_id(name: str) -> str | None:
    """Return the id in the name of a page, its folder or a database."""
    match = _ID.search(name)
    return match[1] if match else None


def _bare(path: PurePosixPath | str) -> str:
    """Return a path without the ids in its names, and without the folder that names the export."""
    return "/".join(_ID.sub("", name) for name in _EXPORT.sub("", str(path)).split("/"))


def _is_page(file: ExportFile) -> bool:
    return file.suffix in _PAGES and page_id(file.path.name) is not None


def _folders(pages: list[ExportFile]) -> dict[str, ExportFile]:
    """Return pages by the folder of their contents, which has its id only in older exports."""
    folders: dict[str, ExportFile] = {}
    for page in pages:
        stem = str(page.path.with_suffix("")).removesuffix("_all")
        folders |= {stem: page, _ID.sub("", stem): page}
    return folders


def _claim(files: ExportFiles) -> list[ExportFile]:
    """Return pages, databases, and the files in their folders."""
    pages = [file for file in files if _is_page(file)]
    if not any(page.suffix != ".csv" for page in pages):
        return []
    folders = _folders(pages)
    return [file for file in files if _is_page(file) or str(file.path.parent) in folders]


def _read(files: ExportFiles, options: Options) -> ExportItems:
    pages = [file for file in files if _is_page(file)]
    complete = {_bare(file.path) for file in pages if file.path.stem.endswith("_all")}
    databases = frozenset(
        str(file.path.with_suffix("")).removesuffix("_all")
        for file in pages
        if file.suffix == ".csv"
    )
    export = _Export(
        _folders(pages), databases | {_ID.sub("", name) for name in databases}, options.zone
    )
    for file in files:
        if _is_page(file):
            # A database has a table of the rows that its view shows, and one of all rows.
            is_view = file.suffix == ".csv" and not file.path.stem.endswith("_all")
            if not (
                is_view and _bare(file.path.with_name(f"{file.path.stem}_all.csv")) in complete
            ):
                yield ExportItem(file.name, "", file.size, partial(_page, file, export))
        else:
            yield ExportItem(file.name, "", file.size, partial(_file, file, export))


def _page(file: ExportFile, export: _Export) -> ParsedItem:
    item = ParsedItem()
    content = file.read(max_bytes=limits.BLOB_MAX_BYTES)
    text = decode(text_prefix(content))
    title = _ID.sub("", file.path.stem.removesuffix("_all"))
    properties: dict[str, str] = {}
    if file.suffix == ".md":
        title = first_heading(text) or title
        text, properties = _split_properties(text, is_row=str(file.path.parent) in export.databases)
    elif file.suffix != ".csv":
        match = _PAGE_TITLE.search(text)
        title = html_to_text(match[1]) if match else title
        text = html_to_text(text)
    created_at = _moment(properties, _NOTION_CREATED, export.zone)
    parent = export.pages.get(str(file.path.parent))
    note = Note(
        key=_key(file),
        path=f"Notion/{_bare(file.path.parent / title.replace('/', '-')).removeprefix('./')}",
        title=title,
        text=text,
        service="notion",
        media_type=_PAGES[file.suffix],
        modified_at=_moment(properties, _EDITED, export.zone) or created_at,
        details={
            "created_at": created_at,
            "tags": clean_tags(
                tag for name in _TAGS for tag in properties.get(name, "").split(",")
            ),
            "properties": [f"{name}: {value}" for name, value in properties.items()],
            "parent_id": _key(parent) if parent else None,
        },
    )
    add_note(item, note)
    return item


def _key(page: ExportFile) -> str:
    return note_key("notion", page_id(page.path.name))


def _split_properties(text: str, *, is_row: bool) -> tuple[str, dict[str, str]]:
    """Return the text behind the title and the properties, which a page of a database has."""
    lines = text.split("\n")
    at = 1 if lines and lines[0].startswith("# ") else 0
    properties: dict[str, str] = {}
    start = next((n for n, line in enumerate(lines[at:], at) if line.strip()), len(lines))
    end = start
    while is_row and end < len(lines) and (match := _PROPERTY.fullmatch(lines[end].strip())):
        properties.setdefault(match[1], match[2])
        end += 1
    return "\n".join(lines[end:]).strip(), properties


def _moment(properties: dict[str, str], names: tuple[str, ...], zone: tzinfo) -> str | None:
    """Return the time of a property. Notion writes the time of the account, without a zone."""
    written = next((properties[name] for name in names if name in properties), None)
    return parse_local_moment(written, zone) if written else None


def _file(file: ExportFile, export: _Export) -> ParsedItem:
    """Add a file in the folder of a page."""
    item = ParsedItem()
    page = export.pages[str(file.path.parent)]
    note = Note(
        key=_key(page),
        path=f"Notion/{_bare(file.path.parent)}",
        title="",
        text="",
        service="notion",
    )
    add_export_file(item, note, file, name=file.path.name)
    return item


NOTION = Importer(claim=_claim, read=_read)


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


def _read_file(file: ExportFile, *, keys: ContentKeys) -> ExportItems:
    collector = _NoteCollector()
    with file.open() as stream:
        for note in iter_collected(stream, collector.parser.Parse, collector.notes):
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
    note = Note(
        key=key,
        path=f"{notebook}/{title.replace('/', '-')}",
        title=title,
        text=_text(written, item),
        service="evernote",
        modified_at=item.require_date(updated_at, created or "no date"),
        details={
            "created_at": created_at,
            "tags": clean_tags(written.tags),
            "url": one_line(fields.get("source-url", "")),
            "author": one_line(fields.get("author", "")),
        },
    )
    add_note(item, note)
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


def _add_resource(item: ParsedItem, note: Note, resource: EnexResource, number: int) -> None:
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
        add_file(item, note, content, name=name, media_type=media_type)


EVERNOTE = Importer(
    claim=claim_each(lambda file: b"<en-export" in file.head),
    read=lambda files, _options: iter_items(files, partial(_read_file, keys=ContentKeys("n_"))),
)
