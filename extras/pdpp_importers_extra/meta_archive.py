"""Find the files of Facebook and Instagram archives, and import their messages."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from importers.chat import records
from importers.core.dates import unix_to_utc
from importers.core.export_files import ExportFile, iter_items
from importers.core.importer import ExportFiles, Importer, Options
from importers.core.readers import (
    ITEM,
    Json,
    head_has,
    iter_json_events,
    iter_nodes,
    json_integer,
    json_line,
    json_object,
    json_objects,
    json_text,
    open_json,
    parse_node,
)
from importers.core.results import (
    ContentKeys,
    ExportItem,
    ExportItems,
    ParsedItem,
    ReceiptCode,
    UnreadableError,
)

_FACEBOOK = re.compile(
    r"(?:^|/)(?:your_facebook_activity|friends_and_followers|connections/friends|posts/your_posts"
    r"|profile_information|posts/album|comments_and_reactions|likes_and_reactions)",
)
_INSTAGRAM = re.compile(
    r"(?:^|/)(?:your_instagram_activity|followers_and_following|connections/followers_and_following"
    r"|content/posts_|media/(?:posts|stories|reels)/|account_information|instagram_)"
)


def find_service(file: ExportFile, files: Sequence[ExportFile]) -> str | None:
    """Return the service of an export by the path of the file, the export's name or other paths."""
    for text in (file.name, file.head.decode("utf-8", "replace"), file.export.lower()):
        if found := _service_of(text):
            return found
    if "facebook" in file.export.lower() or "instagram" in file.export.lower():
        return "facebook" if "facebook" in file.export.lower() else "instagram"
    found_services = {found for each in files if (found := _service_of(each.name))}
    return found_services.pop() if len(found_services) == 1 else None


def _service_of(text: str) -> str | None:
    is_facebook, is_instagram = bool(_FACEBOOK.search(text)), bool(_INSTAGRAM.search(text))
    if is_facebook == is_instagram:
        return None
    return "facebook" if is_facebook else "instagram"


def claim_service(files: Sequence[ExportFile], service: str) -> list[ExportFile]:
    """Return the JSON files of this service."""
    # The paths of an export decide for all its files without evidence of their own.
    by_export: dict[str, str | None] = {}
    claimed = []
    for file in files:
        if file.suffix != ".json":
            continue
        found = _service_of(file.name)
        if found is None:
            if file.export not in by_export:
                by_export[file.export] = find_service(file, files)
            found = by_export[file.export]
        if found == service:
            claimed.append(file)
    return claimed


def find_mentioned(
    uri: str | None, file: ExportFile, files: Mapping[str, ExportFile]
) -> ExportFile | None:
    """Return the file with this path in the export that contains ``file``, at any depth."""
    if not uri:
        return None
    for folder in file.path.parents:
        name = uri if str(folder) == "." else f"{folder}/{uri}"
        if name in files:
            return files[name]
    return None


_SEQUENCE = re.compile(
    "[\u00c2-\u00df][\u0080-\u00bf]|[\u00e0-\u00ef][\u0080-\u00bf]{2}|[\u00f0-\u00f4][\u0080-\u00bf]{3}"
)
"""The bytes of a character, read as Latin-1."""
_CONTROL = re.compile("[\u0080-\u009f]")
_CUT_TAIL = re.compile(
    "(?:[\u00c2-\u00f4]|[\u00e0-\u00f4][\u0080-\u00bf]|[\u00f0-\u00f4][\u0080-\u00bf]{2})$"
)


def repair_text(text: str) -> tuple[str, bool]:
    """Return the text, repaired if it is broken, and whether that is certain.

    A text whose characters are all the bytes of valid UTF-8 is broken: no language writes so. One with
    other characters is right, unless it also has such bytes, which leaves a doubt.
    """
    if text.isascii():
        return text, True
    has_sequences = bool(_SEQUENCE.search(text))
    if has_sequences:
        for candidate in (text, _CUT_TAIL.sub("", text)):
            try:
                return candidate.encode("latin-1").decode("utf-8"), True
            except UnicodeError:
                continue
    return text, not (has_sequences or _CONTROL.search(text))


def repair_node(node: Any, item: ParsedItem) -> Any:
    """Return a JSON value with all its texts repaired; a doubt has one receipt."""
    doubts: list[str] = []
    repaired = _repair(node, doubts)
    if doubts:
        item.add_issue(ReceiptCode.UNSURE_CHARSET, detail=doubts[0][:40])
    return repaired


def _repair(node: Any, doubts: list[str]) -> Any:
    if isinstance(node, str):
        text, is_sure = repair_text(node)
        if not is_sure:
            doubts.append(node)
        return text
    if isinstance(node, dict):
        return {_repair(name, doubts): _repair(value, doubts) for name, value in node.items()}
    if isinstance(node, list):
        return [_repair(value, doubts) for value in node]
    return node


def repaired_object(node: Json, item: ParsedItem) -> Json:
    """Return an object with all its texts repaired."""
    repaired = repair_node(node, item)
    return repaired if isinstance(repaired, dict) else {}


def labeled_values(node: Json) -> dict[str, str]:
    """Return the texts of an entry with ``label_values`` by label, also of what it contains."""
    found: dict[str, str] = {}
    for each in json_objects(node, "label_values") + json_objects(node, "dict"):
        label, text = json_line(each, "label", "title"), json_text(each, "value", "href")
        if label and text:
            found.setdefault(label, text)
        for name, value in labeled_values(each).items():
            found.setdefault(name, value)
    return found


_MEDIA = (".jpg", ".jpeg", ".png", ".gif", ".webp", ".heic", ".mp4", ".mov", ".webm", ".m4a")


_MEDIA_FOLDER = re.compile(
    r"(?:^|/)(?:posts|media|photos_and_videos|stories|reels|archived_posts|profile|comments)/"
)


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
        return [
            file
            for file in files
            if file.name in lists
            or (lists and file.suffix in _MEDIA and _MEDIA_FOLDER.search(file.name))
        ]

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


_NAME = re.compile(r"message_\d+\.json")
_FILES = ("photos", "videos", "audio_files", "files", "gifs")
_HEADER = ("participants", "title", "thread_path", "is_still_participant", "threadName")
_ENCRYPTED = {"senderName": "sender_name", "timestamp": "timestamp_ms", "text": "content",
              "media": "files", "isUnsent": "is_unsent"}  # fmt: skip
"""Members of messages with end-to-end encryption, which Messenger exports from each device."""
_COPY = re.compile(r"_\d+$")


@dataclass(frozen=True, slots=True)
class _Thread:
    """A file of messages, its conversation and the files of the export."""

    conversation: records.Conversation
    file: ExportFile
    files: Mapping[str, ExportFile]


def _claim(files: ExportFiles, *, service: str) -> list[ExportFile]:
    """Return the messages, and the media in their folders."""
    messages = [
        file
        for file in claim_service(files, service)
        if _NAME.fullmatch(file.path.name) and head_has(file, b"participants", b"messages")
    ]
    if service == "facebook":
        messages += [file for file in files if _is_encrypted(file)]
    names, folders = {file.name for file in messages}, {file.path.parent for file in messages}
    return [
        file
        for file in files
        if file.name in names
        or (file.suffix != ".json" and not folders.isdisjoint(file.path.parents))
    ]


def _is_encrypted(file: ExportFile) -> bool:
    """Return whether a file is a conversation that was encrypted end to end."""
    return file.suffix == ".json" and head_has(file, b"participants", b"threadName")


def _read(files: ExportFiles, options: Options, *, service: str) -> ExportItems:
    by_name = {file.name: file for file in files}
    messages = [file for file in files if _NAME.fullmatch(file.path.name) or _is_encrypted(file)]
    return iter_items(messages, partial(_read_file, files=by_name, service=service))


def _read_file(file: ExportFile, *, files: Mapping[str, ExportFile], service: str) -> ExportItems:
    described = ParsedItem()
    header = repair_node(dict(_header(file)), described)
    listed = header.get("participants")
    people = [
        name
        for each in (listed if isinstance(listed, list) else [])
        if (name := json_line(each if isinstance(each, dict) else {"name": each}, "name"))
    ]
    is_encrypted = "threadName" in header
    folder = file.path.stem if is_encrypted else file.path.parent.name
    title = json_line(header, "title") or _COPY.sub("", json_line(header, "threadName") or "")
    conversation = records.Conversation(
        id=f"{service}_{folder}",
        name=title or ", ".join(people)[:200] or folder,
        service=service,
        kind="direct" if len(people) <= 2 else "group",
    )
    described.records.append(conversation.record(members=people))
    yield ExportItem(file.name, conversation.name, 0, lambda: described)
    thread, keys = _Thread(conversation, file, files), ContentKeys("")
    for number, (node, size, _) in enumerate(iter_nodes(file, ("messages.item",)), 1):
        if is_encrypted and isinstance(node, dict):
            node = {_ENCRYPTED.get(name, name): value for name, value in node.items()}
        written = node.get("timestamp_ms") if isinstance(node, dict) else None
        keys.start_group(written)
        # Names change when an account is deleted, so the time alone makes the key.
        key = f"{conversation.id}.{keys.key(written)}"
        parse = partial(parse_node, node, partial(_message, thread=thread, key=key))
        yield ExportItem(file.name, f"message {number:,}", size, parse)


def _header(file: ExportFile) -> Iterator[tuple[str, Any]]:
    """Yield what is known of a conversation; it stands before or behind the messages."""
    with open_json(file) as stream:
        try:
            for prefix, event, value in iter_json_events(
                stream, is_item=lambda prefix: prefix in _HEADER or prefix == "messages.item"
            ):
                if event == ITEM and prefix in _HEADER:
                    yield prefix, value
        except UnreadableError:
            return  # reading the messages reports it


def _message(written: Json, *, thread: _Thread, key: str) -> ParsedItem:
    item = ParsedItem()
    node = repaired_object(written, item)
    if node.get("is_unsent") is True:
        raise UnreadableError(ReceiptCode.DELETED)
    moment = unix_to_utc(node.get("timestamp_ms"), per_second=1000)
    files = list(_files(node, thread))
    text = "\n".join(filter(None, _texts(node)))
    if not text and not files and not set(written) - {"sender_name", "timestamp_ms"}:
        raise UnreadableError(ReceiptCode.MALFORMED)
    if not text and not files:
        unread = ", ".join(sorted(set(node) - {"sender_name", "timestamp_ms"}))
        item.add_issue(ReceiptCode.PARTLY_IMPORTED, detail=unread[:80])
    records.add_message(
        item,
        thread.conversation,
        key=key,
        text=text,
        sent_at=item.require_date(moment, node.get("timestamp_ms")),
        author=json_line(node, "sender_name"),
        kind="call" if "call_duration" in node else "message",
        reactions=[
            " ".join(filter(None, (json_line(each, "reaction"), json_line(each, "actor"))))
            for each in json_objects(node, "reactions")
        ],
        files=files,
    )
    return item


def _texts(node: Json) -> Iterator[str | None]:
    yield json_text(node, "content")
    poll = json_object(node, "poll")
    yield json_text(poll, "question")
    yield from (json_line(each, "option") for each in json_objects(poll, "options"))
    yield json_line(json_object(node, "plan"), "title")
    yield ", ".join(
        name for each in json_objects(node, "users") if (name := json_line(each, "name"))
    )
    share = json_object(node, "share")
    yield from (json_text(share, name) for name in ("share_text", "link"))
    if (seconds := json_integer(node, "call_duration")) is not None:
        yield f"Call of {seconds} s"


def _files(node: Json, thread: _Thread) -> Iterator[records.MessageFile]:
    sticker = json_object(node, "sticker")
    listed = [each for name in _FILES for each in json_objects(node, name)]
    for each in (*listed, *([sticker] if sticker else [])):
        uri = (json_line(each, "uri") or "").removeprefix("./")
        found = find_mentioned(uri, thread.file, thread.files)
        yield records.MessageFile(
            name=uri.rpartition("/")[2], size=found.size if found else None, content=found
        )


FACEBOOK_MESSAGES = Importer(
    claim=partial(_claim, service="facebook"),
    read=partial(_read, service="facebook"),
)
INSTAGRAM_MESSAGES = Importer(
    claim=partial(_claim, service="instagram"),
    read=partial(_read, service="instagram"),
)
