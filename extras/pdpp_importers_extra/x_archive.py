"""Import posts, likes and followers of an X (Twitter) archive, and its direct messages."""

import html
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any

import orjson

from importers.chat import records as chat_records
from importers.core.dates import to_utc
from importers.core.export_files import ExportFile, iter_items
from importers.core.importer import ExportFiles, Importer, Options
from importers.core.readers import (
    ITEM,
    Json,
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
from importers.core.results import ExportItem, ExportItems, ParsedItem, ReceiptCode, UnreadableError
from importers.core.text import one_line
from pdpp_importers_extra import social_records as records

SERVICE = "x"
_PART = re.compile(rb"\s*(?:\xef\xbb\xbf)?\s*window\.YTD\.(\w{1,60})\.part\d+\s*=")
_MEDIA_FOLDERS = ("tweets_media", "tweet_media", "community_tweet_media")
_MEMBER = re.compile(
    rb'"(accountId|userName|username|displayName|accountDisplayName)"\s*:\s*"((?:[^"\\]|\\.){0,400})"'
)
_ID = re.compile(r"\d{1,25}")


@dataclass(frozen=True, slots=True)
class Account:
    """The owner of an archive."""

    id: str | None = None
    username: str | None = None
    name: str | None = None


Context = tuple[Account, Mapping[str, list[ExportFile]]]
ParseEntry = Callable[[Context, Json], ParsedItem]


def part_name(file: ExportFile) -> str | None:
    """Return which part of an archive a script is, such as ``tweets``."""
    match = _PART.match(file.head) if file.suffix == ".js" else None
    return match[1].decode("ascii", "replace") if match else None


def read_account(files: ExportFiles) -> Account:
    """Return the owner, whom the manifest and the account name; both may be missing."""
    for file in files:
        if part_name(file) == "account" or b"__THAR_CONFIG" in file.head[:200]:
            found = {match[1]: _unescape(match[2]) for match in _MEMBER.finditer(file.head)}
            names = (b"accountId", b"userName", b"username", b"displayName", b"accountDisplayName")
            account_id, user_name, username, name, account_name = map(found.get, names)
            return Account(account_id, user_name or username, name or account_name)
    return Account()


def _unescape(value: bytes) -> str | None:
    try:
        return one_line(str(orjson.loads(b'"%s"' % value))) or None
    except orjson.JSONDecodeError:
        return None


def group_media(files: ExportFiles, folders: Collection[str]) -> dict[str, list[ExportFile]]:
    """Return the files of media folders by the id of their post or message."""
    media: dict[str, list[ExportFile]] = {}
    for file in files:
        if file.path.parent.name in folders:
            media.setdefault(file.path.name.partition("-")[0], []).append(file)
    return media


def _claim(files: ExportFiles) -> list[ExportFile]:
    claimed = _parts_and_media(files, _PARSERS, _MEDIA_FOLDERS)
    manifests = (file for file in files if file.path.name == "manifest.js")
    return claimed and [*claimed, *(f for f in manifests if b"__THAR_CONFIG" in f.head[:200])]


def _parts_and_media(
    files: ExportFiles, names: Collection[str], folders: Collection[str]
) -> list[ExportFile]:
    """Return the parts of these names, their media and the account; nothing if there is no part."""
    if not any(part_name(file) in names for file in files):
        return []
    return [
        file
        for file in files
        if (name := part_name(file)) in names
        or name == "account"
        or file.path.parent.name in folders
    ]


def _read(files: ExportFiles, _options: Options) -> ExportItems:
    context = read_account(files), group_media(files, _MEDIA_FOLDERS)
    parts = [file for file in files if part_name(file) in _PARSERS]
    return iter_items(parts, partial(_read_part, context=context))


def _read_part(file: ExportFile, *, context: Context) -> ExportItems:
    name = part_name(file) or ""
    for number, (node, size, _) in enumerate(iter_nodes(file, ("item",)), 1):
        parse = partial(parse_node, node, partial(_PARSERS[name], context))
        yield ExportItem(file.name, f"entry {number:,}", size, parse)


def _require_id(node: Json, *names: str) -> str:
    """Raises ``UnreadableError`` for a missing id."""
    found = json_line(node, *names)
    if found is None or not _ID.fullmatch(found):
        raise UnreadableError(ReceiptCode.NO_IDENTITY)
    return found


def _tweet(context: Context, entry: Json) -> ParsedItem:
    node = json_object(entry, "tweet") or entry
    account, media = context
    item, post_id = ParsedItem(), _require_id(node, "id_str", "id")
    entities = json_object(node, "entities")
    text = json_text(node, "full_text", "text")
    reply_to = json_line(node, "in_reply_to_status_id_str", "in_reply_to_status_id")
    is_repost = text.startswith("RT @")
    written = node.get("created_at")
    records.add_post(
        item,
        key=f"x_{post_id}",
        service=SERVICE,
        kind="repost" if is_repost else "reply" if reply_to else "post",
        text=_expand(text, entities),
        author=account.name or account.username,
        posted_at=item.require_date(_moment(written), written),
        url=f"https://x.com/{account.username or 'i/web'}/status/{post_id}",
        in_reply_to=f"x_{reply_to}" if reply_to else None,
        to=json_line(node, "in_reply_to_screen_name"),
        links=list(_members(entities, "urls", "expanded_url")),
        mentions=list(_members(entities, "user_mentions", "screen_name")),
        tags=list(_members(entities, "hashtags", "text")),
        language=json_line(node, "lang"),
        likes=json_integer(node, "favorite_count"),
        reposts=json_integer(node, "retweet_count"),
        files=_files(node, media.get(post_id, [])),
    )
    return item


def _members(entities: Json, name: str, member: str) -> Iterator[str]:
    found = (json_line(each, member) for each in json_objects(entities, name)[: records.MAX_LISTED])
    yield from filter(None, found)


def _expand(text: str, entities: Json) -> str:
    """Replace short addresses, and the signs that HTML escapes."""
    for each in json_objects(entities, "urls")[: records.MAX_LISTED]:
        short, long = json_line(each, "url"), json_line(each, "expanded_url")
        if short and long:
            text = text.replace(short, long)
    return html.unescape(text)


def _files(node: Json, found: list[ExportFile]) -> list[tuple[str, ExportFile | None]]:
    """Return the media in the archive, or the addresses of media that it lacks."""
    if found:
        return [(file.path.name, file) for file in found]
    media = json_objects(json_object(node, "extended_entities"), "media")
    media = media or json_objects(json_object(node, "entities"), "media")
    urls = (json_line(each, "media_url_https", "media_url") for each in media)
    return [(url, None) for url in urls if url]


def _moment(written: object) -> str | None:
    """Parse a time such as ``Wed Oct 10 20:19:24 +0000 2018``."""
    if not isinstance(written, str):
        return None
    try:
        moment = datetime.strptime(written, "%a %b %d %H:%M:%S %z %Y").astimezone(UTC)
    except (ValueError, OverflowError):
        return to_utc(written)
    return moment.isoformat().replace("+00:00", "Z")


def _note(context: Context, entry: Json) -> ParsedItem:
    """Parse a long post, of which the list of posts has the beginning only."""
    node, item = json_object(entry, "noteTweet"), ParsedItem()
    note_id, core = _require_id(node, "noteTweetId"), json_object(node, "core")
    written = node.get("createdAt")
    records.add_post(
        item,
        key=f"x_note_{note_id}",
        service=SERVICE,
        kind="long post",
        text=html.unescape(json_text(core, "text")),
        author=context[0].name or context[0].username,
        posted_at=item.require_date(_moment(written), written),
        links=list(_members(core, "urls", "expandedUrl")),
    )
    return item


def _like(context: Context, entry: Json) -> ParsedItem:
    """Parse a like. The archive does not say when it was."""
    node = json_object(entry, "like")
    post_id, text = _require_id(node, "tweetId"), html.unescape(json_text(node, "fullText"))
    record = records.like(
        key=f"x_like_{post_id}",
        service=SERVICE,
        title=text[:100] or None,
        text=text or None,
        url=json_line(node, "expandedUrl"),
    )
    return ParsedItem([record])


def _person(context: Context, entry: Json, *, member: str, relation: str) -> ParsedItem:
    """Parse a person, of whom the archive has the id only."""
    node = json_object(entry, member)
    account_id = _require_id(node, "accountId")
    url = json_line(node, "userLink")
    return ParsedItem(
        [records.person(SERVICE, relation, name=account_id, identity=account_id, url=url)]
    )


_PARSERS: dict[str, ParseEntry] = {
    "tweets": _tweet,
    "tweet": _tweet,
    "community_tweet": _tweet,
    "note_tweet": _note,
    "like": _like,
    "follower": partial(_person, member="follower", relation="follower"),
    "following": partial(_person, member="following", relation="following"),
    "block": partial(_person, member="blocking", relation="blocked"),
    "mute": partial(_person, member="muting", relation="muted"),
}

X = Importer(claim=_claim, read=_read)


_PARTS = ("direct_messages", "direct_messages_group")
_MESSAGE_MEDIA_FOLDERS = ("direct_messages_media", "direct_messages_group_media")
_CONVERSATION = "item.dmConversation"
_EVENTS = f"{_CONVERSATION}.messages.item"


@dataclass(frozen=True, slots=True)
class _Archive:
    """The owner, the media by the id of their message, and the names of groups by id."""

    account: Account
    media: Mapping[str, list[ExportFile]]
    names: Mapping[str, str]


def _claim_messages(files: ExportFiles) -> list[ExportFile]:
    """Return the messages, their media, and the account. Posts know it from the manifest."""
    return _parts_and_media(files, _PARTS, _MESSAGE_MEDIA_FOLDERS)


def _read_messages(files: ExportFiles, _options: Options) -> ExportItems:
    parts = [file for file in files if part_name(file) in _PARTS]
    names = {name: title for file in parts for name, title in _group_names(file)}
    archive = _Archive(read_account(files), group_media(files, _MESSAGE_MEDIA_FOLDERS), names)
    return iter_items(parts, partial(_read_conversations, archive=archive))


def _events(file: ExportFile) -> Iterator[tuple[str, Any, int]]:
    """Yield (id of the conversation, event, bytes so far), and an event of None for its start."""
    conversation_id, is_known = "", False
    with open_json(file) as stream:
        for prefix, event, value in iter_json_events(stream, is_item=_EVENTS.__eq__):
            if prefix == f"{_CONVERSATION}.conversationId" and isinstance(value, str):
                conversation_id = value
                yield conversation_id, None, stream.tell()
            elif event == ITEM:
                yield conversation_id, value, stream.tell()
            is_known = is_known or prefix == "item" or (prefix == "" and event == "start_array")
    if not is_known:
        raise UnreadableError(ReceiptCode.MALFORMED)


def _group_names(file: ExportFile) -> Iterator[tuple[str, str]]:
    """Yield the names of groups, the newest last."""
    found: list[tuple[str, str]] = []
    try:
        for conversation_id, event, _ in _events(file):
            update = json_object(event, "conversationNameUpdate") if isinstance(event, dict) else {}
            if name := json_line(update, "name"):
                found.append((conversation_id, name))
    except UnreadableError:
        pass  # reading the messages reports it
    yield from reversed(found)


def _read_conversations(file: ExportFile, *, archive: _Archive) -> ExportItems:
    kind = "group" if part_name(file) == "direct_messages_group" else "direct"
    position = 0
    for number, (conversation_id, event, at) in enumerate(_events(file), 1):
        size, position = max(0, at - position), at
        conversation = _conversation(conversation_id, kind, archive)
        if event is None:
            described = conversation.record(members=_participants(conversation_id, kind, archive))
            parse = partial(ParsedItem, [described])
        else:
            parse = partial(
                parse_node, event, partial(_event, conversation=conversation, archive=archive)
            )
        yield ExportItem(file.name, f"event {number:,}", size, parse)


def _conversation(conversation_id: str, kind: str, archive: _Archive) -> chat_records.Conversation:
    others = [
        each for each in _participants(conversation_id, kind, archive) if each != _owner(archive)
    ]
    name = archive.names.get(conversation_id) or ", ".join(others) or conversation_id
    return chat_records.Conversation(
        id=f"x_{one_line(conversation_id, max_chars=100)}",
        name=name,
        service=SERVICE,
        kind=kind,
    )


def _owner(archive: _Archive) -> str | None:
    return archive.account.name or archive.account.username or archive.account.id


def _participants(conversation_id: str, kind: str, archive: _Archive) -> list[str]:
    """Return the people of a direct conversation, which its id names."""
    ids = conversation_id.split("-") if kind == "direct" else []
    return [_correspondent(each, archive) for each in ids[:2] if each]


def _correspondent(person_id: str, archive: _Archive) -> str:
    """Return the name of the owner, or the id of another person: the archive has no names."""
    return (
        (_owner(archive) or person_id) if person_id == archive.account.id else f"user {person_id}"
    )


def _event(node: Json, *, conversation: chat_records.Conversation, archive: _Archive) -> ParsedItem:
    message = json_object(node, "messageCreate")
    if not message:
        # People who join or leave, and names, which the conversation has already.
        raise UnreadableError(ReceiptCode.NOT_SUPPORTED, detail=", ".join(list(node)[:3])[:80])
    message_id = json_line(message, "id")
    if message_id is None:
        raise UnreadableError(ReceiptCode.NO_IDENTITY)
    item, sender = ParsedItem(), json_line(message, "senderId")
    written = message.get("createdAt")
    text = json_text(message, "text")
    for link in json_objects(message, "urls")[:200]:
        short, long = json_line(link, "url"), json_line(link, "expanded")
        text = text.replace(short, long) if short and long else text
    chat_records.add_message(
        item,
        conversation,
        key=f"x_{message_id}",
        text=html.unescape(text),
        sent_at=item.require_date(to_utc(written), written),
        author=_correspondent(sender, archive) if sender else None,
        author_id=sender,
        reactions=[
            " ".join(
                filter(
                    None,
                    (
                        json_line(each, "reactionKey"),
                        _correspondent(json_line(each, "senderId") or "", archive),
                    ),
                )
            )
            for each in json_objects(message, "reactions")
        ],
        files=list(_message_files(message, archive.media.get(message_id, []))),
    )
    return item


def _message_files(message: Json, found: list[ExportFile]) -> Iterator[chat_records.MessageFile]:
    urls = message.get("mediaUrls")
    if not found and isinstance(urls, list):
        for url in urls:
            yield chat_records.MessageFile(name=str(url).rpartition("/")[2])
    for file in found:
        yield chat_records.MessageFile(name=file.path.name, size=file.size, content=file)


X_MESSAGES = Importer(claim=_claim_messages, read=_read_messages)
