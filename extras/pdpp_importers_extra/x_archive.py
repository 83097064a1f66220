"""Import posts, likes and people of an X (Twitter) archive."""

import html
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

import orjson

from importers.core.dates import to_utc
from importers.core.export_files import ExportFile, iter_items
from importers.core.importer import ExportFiles, Importer, Options
from importers.core.readers import (
    Json,
    iter_nodes,
    json_integer,
    json_line,
    json_object,
    json_objects,
    json_text,
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
    names = {file.name for file in files if part_name(file) in _PARSERS}
    if not names:
        return []
    return [
        file
        for file in files
        if file.name in names
        or file.path.parent.name in _MEDIA_FOLDERS
        or part_name(file) == "account"
        or (file.path.name == "manifest.js" and b"__THAR_CONFIG" in file.head[:200])
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
