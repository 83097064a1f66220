"""Import notes and lists of Google Keep from Takeout."""

from collections.abc import Mapping
from functools import partial

import orjson

from importers.core.dates import unix_to_utc
from importers.core.export_files import ExportFile, iter_items
from importers.core.importer import ExportFiles, Importer, Options
from importers.core.readers import (
    Json,
    head_has,
    json_line,
    json_objects,
    json_text,
)
from importers.core.results import ExportItem, ExportItems, ParsedItem, ReceiptCode, UnreadableError
from importers.core.text import decode, html_to_text
from importers.notes import records

NOTE_MAX_BYTES = 8 * 1024 * 1024
_EDITED, _CREATED = "userEditedTimestampUsec", "createdTimestampUsec"

Media = Mapping[str, ExportFile]


def _is_note(file: ExportFile) -> bool:
    return file.suffix == ".json" and (
        head_has(file, b"isTrashed", b"isArchived")
        or (head_has(file) and file.path.parent.name == "Keep" and _EDITED.encode() in file.head)
    )


def _claim(files: ExportFiles) -> list[ExportFile]:
    """Return the notes and everything beside them: pages of the same notes, labels and media."""
    folders = {file.path.parent for file in files if _is_note(file)}
    folders = {folder for folder in folders if folder.name == "Keep"}
    return [file for file in files if _is_note(file) or file.path.parent in folders]


def _read(files: ExportFiles, _options: Options) -> ExportItems:
    media = {file.name: file for file in files if not _is_note(file)}
    notes = [file for file in files if file.suffix == ".json"]
    return iter_items(notes, partial(_read_file, media=media))


def _read_file(file: ExportFile, *, media: Media) -> ExportItems:
    yield ExportItem(file.name, "", file.size, partial(_note, file, media))


def _note(file: ExportFile, media: Media) -> ParsedItem:
    node = _parse(file)
    item = ParsedItem()
    created_at = unix_to_utc(node.get(_CREATED), per_second=1_000_000)
    edited_at = unix_to_utc(node.get(_EDITED), per_second=1_000_000) or created_at
    # Exports before 2021 have no creation time. The file is named by the title, or by the time of creation.
    note = records.Note(
        key=records.note_key("keep", node.get(_CREATED) or file.path.name),
        path=f"Keep/{file.path.stem}",
        title=json_line(node, "title") or _first_line(node) or file.path.stem,
        text=_text(node),
        service="keep",
        modified_at=item.require_date(edited_at, node.get(_EDITED)),
        details={
            "created_at": created_at,
            "tags": records.clean_tags(label.get("name") for label in json_objects(node, "labels")),
            "state": _state(node),
            "url": next(
                (
                    url
                    for link in json_objects(node, "annotations")
                    if (url := json_line(link, "url"))
                ),
                None,
            ),
        },
    )
    records.add_note(item, note)
    for attachment in json_objects(node, "attachments"):
        _add_attachment(item, note, attachment, file, media)
    return item


def _parse(file: ExportFile) -> Json:
    """Raises ``UnreadableError``."""
    try:
        node = orjson.loads(decode(file.read(max_bytes=NOTE_MAX_BYTES)))
    except orjson.JSONDecodeError as error:
        raise UnreadableError(ReceiptCode.DAMAGED, detail=str(error)[:80]) from error
    if not isinstance(node, dict):
        raise UnreadableError(ReceiptCode.MALFORMED)
    return node


def _first_line(node: Json) -> str | None:
    return next((line.strip() for line in _text(node).splitlines() if line.strip()), "")[:100]


def _text(node: Json) -> str:
    text = json_text(node, "textContent") or html_to_text(json_text(node, "textContentHtml"))
    lines = [text] if text else []
    for entry in json_objects(node, "listContent"):
        sign = "x" if entry.get("isChecked") is True else " "
        shown = json_text(entry, "text") or html_to_text(json_text(entry, "textHtml"))
        lines.append(f"[{sign}] {shown}")
    for link in json_objects(node, "annotations"):
        lines += filter(None, (json_line(link, "title"), json_line(link, "url")))
    return "\n".join(lines)


def _state(node: Json) -> str | None:
    if node.get("isTrashed") is True:
        return "trashed"
    return "archived" if node.get("isArchived") is True else None


def _add_attachment(
    item: ParsedItem, note: records.Note, attachment: Json, file: ExportFile, media: Media
) -> None:
    name = (json_line(attachment, "filePath") or "").rpartition("/")[2]
    # Takeout writes .jpeg where the archive has .jpg.
    stem = name.rpartition(".")[0] or name
    paths = (f"{file.path.parent}/{each}" for each in (name, f"{stem}.jpg", f"{stem}.png"))
    found = next((media[path] for path in paths if path in media), None)
    records.add_export_file(
        item, note, found, name=name, media_type=json_line(attachment, "mimetype")
    )


KEEP = Importer(claim=_claim, read=_read)
