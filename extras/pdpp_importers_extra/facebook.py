"""Import posts, comments, reactions and people of Facebook (JSON)."""

from collections.abc import Iterator
from functools import partial

from importers.core.dates import unix_to_utc
from importers.core.export_files import ExportFile
from importers.core.importer import Importer
from importers.core.readers import Json, json_line, json_object, json_objects, json_text
from importers.core.results import ReceiptCode, UnreadableError
from pdpp_importers_extra import social_records as records
from pdpp_importers_extra.meta_archive import (
    Archive,
    Entry,
    ParseEntry,
    find_mentioned,
    labeled_values,
)

SERVICE = "facebook"


def _moment(entry: Entry) -> str | None:
    written = entry.node.get("timestamp")
    return entry.item.require_date(unix_to_utc(written), written)


def _attached(node: Json, name: str) -> Iterator[Json]:
    """Yield objects of this name in the attachments of a post."""
    for attachment in json_objects(node, "attachments"):
        for data in json_objects(attachment, "data"):
            if found := json_object(data, name):
                yield found


def _post(entry: Entry) -> None:
    node, moment = entry.node, _moment(entry)
    data = json_objects(node, "data")
    texts = [text for each in data if (text := json_text(each, "post"))]
    title = json_line(node, "title")
    media = list(_attached(node, "media"))
    texts += [text for each in media if (text := json_text(each, "description"))]
    links = [url for each in _attached(node, "external_context") if (url := json_line(each, "url"))]
    uris = [uri for each in media if (uri := json_line(each, "uri"))]
    if not (title or texts or links or uris):
        raise UnreadableError(ReceiptCode.MALFORMED)
    records.add_post(
        entry.item,
        key=records.key(
            SERVICE, "post", moment, uris[0].rpartition("/")[2] if uris else texts[:1] or title
        ),
        service=SERVICE,
        kind="post",
        title=title,
        text="\n".join(dict.fromkeys(texts)),
        posted_at=moment,
        edited_at=next(
            filter(None, (unix_to_utc(each.get("update_timestamp")) for each in data)), None
        ),
        links=links[: records.MAX_LISTED],
        mentions=[name for each in json_objects(node, "tags") if (name := json_line(each, "name"))],
        place=next(
            filter(None, (json_line(each, "name") for each in _attached(node, "place"))), None
        ),
        files=[(uri, find_mentioned(uri, entry.file, entry.files)) for uri in uris],
    )


def _comment(entry: Entry) -> None:
    node = entry.node
    found = next(
        (each for data in json_objects(node, "data") if (each := json_object(data, "comment"))), {}
    )
    text, moment = json_text(found, "comment"), _moment(entry)
    media = [uri for each in _attached(node, "media") if (uri := json_line(each, "uri"))]
    if not (text or media or json_line(node, "title")):
        raise UnreadableError(ReceiptCode.MALFORMED)
    records.add_post(
        entry.item,
        key=records.key(SERVICE, "comment", moment, text or media or json_line(node, "title")),
        service=SERVICE,
        kind="comment",
        title=json_line(node, "title"),
        author=json_line(found, "author"),
        group=json_line(found, "group"),
        text=text,
        posted_at=moment,
        files=[(uri, find_mentioned(uri, entry.file, entry.files)) for uri in media],
    )


def _reaction(entry: Entry) -> None:
    node, moment = entry.node, _moment(entry)
    found = next(
        (each for data in json_objects(node, "data") if (each := json_object(data, "reaction"))), {}
    )
    title = json_line(node, "title")
    if not (found or title):
        raise UnreadableError(ReceiptCode.MALFORMED)
    record = records.like(
        key=records.key(SERVICE, "reaction", moment, title),
        service=SERVICE,
        kind="reaction",
        title=title,
        reaction=json_line(found, "reaction"),
        liked_at=moment,
    )
    entry.item.records.append(record)


def _labeled_reaction(entry: Entry) -> None:
    """Add a reaction of an export since 2025: its first label says which, another has the address."""
    found, moment = labeled_values(entry.node), _moment(entry)
    if not found:
        raise UnreadableError(ReceiptCode.MALFORMED)
    url = next((text for text in found.values() if text.startswith("https://")), None)
    texts = [text for text in found.values() if text != url]
    reaction, names = next(iter(texts), None), texts[1:]
    entry.item.records.append(
        records.like(
            key=records.key(SERVICE, "reaction", moment, url or names),
            service=SERVICE,
            kind="reaction",
            title=names[0] if names else None,
            reaction=reaction,
            liked_at=moment,
            url=url,
        )
    )


def _page_like(entry: Entry) -> None:
    name, moment = json_line(entry.node, "name"), _moment(entry)
    if name is None:
        raise UnreadableError(ReceiptCode.NO_IDENTITY)
    key = records.key(SERVICE, "page", name)
    entry.item.records.append(
        records.like(key=key, service=SERVICE, kind="page", title=name, liked_at=moment)
    )


def _person(entry: Entry, *, relation: str) -> None:
    name, since = json_line(entry.node, "name"), _moment(entry)
    if name is None:
        raise UnreadableError(ReceiptCode.NO_IDENTITY)
    # Two friends may have one name; they were not added in one second.
    identity = f"{name}\0{since}"
    entry.item.records.append(
        records.person(SERVICE, relation, name=name, identity=identity, since=since)
    )


_LISTS: dict[str, ParseEntry] = {
    "comments_v2.item": _comment,
    "group_comments_v2.item": _comment,
    "group_posts_v2.item": _post,
    "reactions_v2.item": _reaction,
    "page_likes_v2.item": _page_like,
    "friends_v2.item": partial(_person, relation="friend"),
    "followers_v2.item": partial(_person, relation="follower"),
    "followers_v3.item": partial(_person, relation="follower"),
    "following_v2.item": partial(_person, relation="following"),
    "following_v3.item": partial(_person, relation="following"),
    "blocked_users_v2.item": partial(_person, relation="blocked"),
}


def _find_parser(file: ExportFile) -> ParseEntry | None:
    head = file.head
    if b'"timestamp"' not in head:
        return None
    if b'"label_values"' in head:
        return _labeled_reaction if "reaction" in file.path.name else None
    if b'"reaction"' in head:
        return _reaction
    return _post if b'"post"' in head or b'"attachments"' in head else None


ARCHIVE = Archive(SERVICE, _LISTS, _find_parser)
FACEBOOK = Importer(
    claim=ARCHIVE.claim,
    read=lambda files, _options: ARCHIVE.read(files),
)
