"""Import notebooks of Evernote (ENEX)."""

import base64
import binascii
import re
from functools import partial

from evidence import limits
from importers.core.export_files import ExportFile, iter_items
from importers.core.importer import ExportFiles, Importer, Options
from importers.core.moments import require_moment, to_utc
from importers.core.results import ContentKeys, ExportItem, ExportItems, ParsedItem, ReceiptCode
from importers.core.text import html_to_text, one_line
from importers.notes import records
from importers.notes.enex_file import EnexNote, EnexResource, iter_notes

_TODO = re.compile(
    r"<en-todo\b([^<>]{0,200})>|<li\b[^<>]{0,300}--en-checked:\s*(true|false)[^<>]{0,300}>", re.I
)
_CHECKED = re.compile(r"checked\s*=\s*[\"']true", re.I)
_ENCRYPTED = re.compile(r"<en-crypt\b[^<>]*>[^<]*</en-crypt>", re.I)
_PROLOG = re.compile(r"\s*(?:<\?xml[^<>]*\?>\s*)?(?:<!DOCTYPE[^<>]*>)?", re.I)


def _claim(files: ExportFiles) -> list[ExportFile]:
    return [file for file in files if b"<en-export" in file.head]


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
        modified_at=require_moment(updated_at, item, written=created or "no date"),
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


EVERNOTE = Importer(
    claim=_claim,
    read=_read,
)
