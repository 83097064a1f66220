"""Import the streaming history of Spotify: of the last year, and the extended one (JSON)."""

from functools import partial
from typing import Any

from importers.core.dates import to_utc
from importers.core.export_files import ExportFile, iter_items
from importers.core.importer import ExportFiles, Importer, Options
from importers.core.readers import (
    Json,
    head_has,
    iter_nodes,
    json_integer,
    json_line,
    parse_node,
)
from importers.core.results import ExportItem, ExportItems, ParsedItem, ReceiptCode, UnreadableError
from importers.takeout import activity as records
from importers.takeout.activity import Repeats

_KINDS = (
    ("listened", ("master_metadata_track_name", "trackName"), ("master_metadata_album_artist_name", "artistName")),
    ("podcast", ("episode_name", "episodeName"), ("episode_show_name", "podcastName")),
    ("audiobook", ("audiobook_chapter_title", "chapterName"), ("audiobook_title", "audiobookName")),
)  # fmt: skip
_URIS = ("spotify_track_uri", "spotify_episode_uri", "audiobook_chapter_uri", "audiobook_uri")


def _is_extended(file: ExportFile) -> bool:
    return head_has(file, b"ts", b"ms_played", b"master_metadata_track_name")


def _claim(files: ExportFiles) -> list[ExportFile]:
    return [
        file
        for file in files
        if file.suffix == ".json"
        and (_is_extended(file) or head_has(file, b"endTime", b"msPlayed"))
    ]


def _read(files: ExportFiles, _options: Options) -> ExportItems:
    # Of equal keys in one export the first counts, and the extended history has more.
    return iter_items(sorted(files, key=_is_extended, reverse=True), _read_file)


def _read_file(file: ExportFile) -> ExportItems:
    repeats = Repeats()
    for number, (node, size, _) in enumerate(iter_nodes(file, ("item",)), 1):
        identity = tuple(map(str, _identity(node))) if isinstance(node, dict) else number
        parse = partial(parse_node, node, partial(_play, number=repeats.number(identity)))
        yield ExportItem(file.name, f"entry {number:,}", size, parse)


def _identity(node: Json) -> tuple[Any, ...]:
    return (node.get("ts"), node.get("endTime"), _milliseconds(node), *_describe(node))


def _describe(node: Json) -> tuple[str, str | None, str | None]:
    """Return the kind, the title, and who made it. A private session may have neither."""
    for kind, titles, makers in _KINDS:
        if title := json_line(node, *titles):
            return kind, title, json_line(node, *makers)
    return "listened", None, None


def _milliseconds(node: Json) -> int | None:
    return json_integer(node, "ms_played" if "ms_played" in node else "msPlayed")


def _play(node: Json, *, number: int) -> ParsedItem:
    item = ParsedItem()
    kind, title, maker = _describe(node)
    written = node.get("ts") or node.get("endTime")
    if title is None and written is None:
        raise UnreadableError(ReceiptCode.MALFORMED)
    # Both histories are in UTC. That of the last year has no seconds.
    is_short = isinstance(written, str) and len(written) == 16
    moment = item.require_date(to_utc(f"{written}Z" if is_short else written), written)
    milliseconds = _milliseconds(node)
    repeat = [number] if number > 1 else []
    records.add_activity(
        item,
        key=records.key("spotify", (moment or "")[:16], title, maker, milliseconds, *repeat),
        service="Spotify",
        kind=kind,
        title=title,
        by=maker,
        collection=json_line(node, "master_metadata_album_album_name"),
        url=json_line(node, *_URIS),
        at=moment,
        duration_s=None if milliseconds is None else milliseconds / 1000,
        device=json_line(node, "platform"),
        place=json_line(node, "conn_country"),
    )
    return item


SPOTIFY = Importer(claim=_claim, read=_read)
