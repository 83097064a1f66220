"""Import the export of Notion: pages as Markdown or HTML, and databases as CSV."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import tzinfo
from functools import partial
from pathlib import PurePosixPath

from evidence import limits
from importers.core.dates import parse_local_moment
from importers.core.export_files import ExportFile
from importers.core.importer import ExportFiles, Importer, Options
from importers.core.results import ExportItem, ExportItems, ParsedItem
from importers.core.text import decode, html_to_text, text_prefix
from importers.notes import records
from importers.notes.markdown import first_heading

_ID = re.compile(r"[ -]?([0-9a-f]{32})(?=(?:_all)?(?:\.[a-z]+)?$)")
_EXPORT = re.compile(r"^(?:Export-[0-9a-f-]{36}(?:-Part-\d+)?/)+")
_PAGES = {".md": "text/markdown", ".html": "text/html", ".htm": "text/html", ".csv": "text/csv"}
_PROPERTY = re.compile(r"([^\n:]{1,100}):[ \t]+(\S[^\n]{0,2000})")
_PAGE_TITLE = re.compile(r"<title>(.*?)</title>", re.S)
_CREATED = ("Created time", "Created")
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
    created_at = _moment(properties, _CREATED, export.zone)
    parent = export.pages.get(str(file.path.parent))
    note = records.Note(
        key=_key(file),
        path=f"Notion/{_bare(file.path.parent / title.replace('/', '-')).removeprefix('./')}",
        title=title,
        text=text,
        service="notion",
        media_type=_PAGES[file.suffix],
        modified_at=_moment(properties, _EDITED, export.zone) or created_at,
        details={
            "created_at": created_at,
            "tags": records.clean_tags(
                tag for name in _TAGS for tag in properties.get(name, "").split(",")
            ),
            "properties": [f"{name}: {value}" for name, value in properties.items()],
            "parent_id": _key(parent) if parent else None,
        },
    )
    records.add_note(item, note)
    return item


def _key(page: ExportFile) -> str:
    return records.note_key("notion", page_id(page.path.name))


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
    note = records.Note(
        key=_key(page),
        path=f"Notion/{_bare(file.path.parent)}",
        title="",
        text="",
        service="notion",
    )
    records.add_export_file(item, note, file, name=file.path.name)
    return item


NOTION = Importer(claim=_claim, read=_read)
