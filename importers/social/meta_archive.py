"""Read the lists of a Facebook or Instagram export: the name of each list tells its kind."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from importers.core.export_files import ExportFile, iter_items
from importers.core.importer import ExportFiles
from importers.core.json_nodes import Json, head_has, iter_nodes, parse_node
from importers.core.results import ExportItem, ExportItems, ParsedItem
from importers.social.meta_exports import claim_service
from importers.social.meta_text import repaired_object

_MEDIA = (".jpg", ".jpeg", ".png", ".gif", ".webp", ".heic", ".mp4", ".mov", ".webm", ".m4a")


_MEDIA_FOLDER = re.compile(
    r"(?:^|/)(?:posts|media|photos_and_videos|stories|reels|archived_posts|profile|comments)/"
)


def _is_media(file: ExportFile) -> bool:
    return file.suffix in _MEDIA and bool(_MEDIA_FOLDER.search(file.name))


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry of a list with repaired texts, its file, and the other files of the export."""

    node: Json
    item: ParsedItem
    file: ExportFile
    files: Mapping[str, ExportFile]


ParseEntry = Callable[[Entry], None]


@dataclass(frozen=True, slots=True)
class Archive:
    """The lists of a service, by prefix, and what finds the parser of a file that is one list."""

    service: str
    lists: Mapping[str, ParseEntry]
    find_parser: Callable[[ExportFile], ParseEntry | None]

    def claim(self, files: ExportFiles) -> list[ExportFile]:
        """Return the known lists and the media."""
        lists = {file.name for file in claim_service(files, self.service) if self._parsers(file)}
        return [file for file in files if file.name in lists or (lists and _is_media(file))]

    def read(self, files: ExportFiles) -> ExportItems:
        by_name = {file.name: file for file in files}
        lists = [file for file in files if file.suffix not in _MEDIA]
        return iter_items(lists, partial(self._read_file, files=by_name))

    def _parsers(self, file: ExportFile) -> dict[str, ParseEntry]:
        """Return the parsers for the lists in a file, by prefix."""
        if not head_has(file):
            return {}
        if file.head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] == b"[":
            parse = self.find_parser(file)
            return {"item": parse} if parse else {}
        return {
            prefix: parse
            for prefix, parse in self.lists.items()
            if b'"%s"' % prefix.partition(".")[0].encode() in file.head
        }

    def _read_file(self, file: ExportFile, *, files: Mapping[str, ExportFile]) -> ExportItems:
        parsers = self._parsers(file)
        for number, (node, size, prefix) in enumerate(iter_nodes(file, tuple(parsers)), 1):
            parse = partial(_parse, parse=parsers[prefix], file=file, files=files)
            yield ExportItem(file.name, f"entry {number:,}", size, partial(parse_node, node, parse))


def _parse(
    node: Json, *, parse: ParseEntry, file: ExportFile, files: Mapping[str, ExportFile]
) -> ParsedItem:
    item = ParsedItem()
    parse(Entry(repaired_object(node, item), item, file, files))
    return item
