"""Import posts, stories, comments, likes and people of Instagram (JSON)."""

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

SERVICE = "instagram"


def _post(entry: Entry, *, kind: str) -> None:
    """Add a post; a list of stories has its only medium in place of a list of media."""
    node = entry.node
    media = json_objects(node, "media") or ([node] if json_line(node, "uri") else [])
    if not media:
        raise UnreadableError(ReceiptCode.MALFORMED)
    times = (node.get("creation_timestamp"), *(each.get("creation_timestamp") for each in media))
    moment = next((found for each in times if (found := unix_to_utc(each))), None)
    uris = [uri for each in media if (uri := json_line(each, "uri"))]
    captions = dict.fromkeys(json_text(each, "title") for each in (node, *media))
    records.add_post(
        entry.item,
        # The name of a file is the id of its medium; the folders differ between exports.
        key=records.key(SERVICE, kind, moment, uris[0].rpartition("/")[2] if uris else ""),
        service=SERVICE,
        kind=kind,
        text="\n".join(filter(None, captions)),
        posted_at=entry.item.require_date(moment, times[0]),
        files=[(uri, find_mentioned(uri, entry.file, entry.files)) for uri in uris],
    )


def _values(node: Json) -> Iterator[Json]:
    """Yield the values of an entry. Their names are in the language of the account."""
    yield from (
        each for each in json_object(node, "string_map_data").values() if isinstance(each, dict)
    )
    yield from json_objects(node, "string_list_data")


def _moment(entry: Entry) -> str | None:
    written = [each.get("timestamp") for each in _values(entry.node)]
    found = next((moment for each in written if (moment := unix_to_utc(each))), None)
    return entry.item.require_date(found, written)


def _comment(entry: Entry) -> None:
    """Add a comment: its first text is what was written, the next who wrote the post."""
    texts = [text for each in _values(entry.node) if (text := json_text(each, "value"))]
    named = json_object(entry.node, "string_map_data")
    text = json_text(json_object(named, "Comment"), "value") or (texts[0] if texts else "")
    owner = json_line(json_object(named, "Media Owner"), "value")
    others = [each for each in texts if each != text]
    moment = _moment(entry)
    if not text:
        raise UnreadableError(ReceiptCode.MALFORMED)
    records.add_post(
        entry.item,
        key=records.key(SERVICE, "comment", moment, text),
        service=SERVICE,
        kind="comment",
        text=text,
        posted_at=moment,
        to=owner or (others[0][:200] if len(others) == 1 else None),
    )


def _like(entry: Entry, *, kind: str) -> None:
    author, moment = json_line(entry.node, "title"), _moment(entry)
    values = list(_values(entry.node))
    url = next((url for each in values if (url := json_line(each, "href"))), None)
    reaction = next((text for each in values if (text := json_line(each, "value"))), None)
    record = records.like(
        key=records.key(SERVICE, kind, url or author, moment),
        service=SERVICE,
        kind=kind,
        title=f"{author}'s post" if author else None,
        author=author,
        reaction=reaction,
        liked_at=moment,
        url=url,
    )
    entry.item.records.append(record)


def _labeled_like(entry: Entry, *, kind: str) -> None:
    """Add a like of an export since 2025, whose labels are in the language of the account."""
    found = labeled_values(entry.node)
    url = next((text for text in found.values() if text.startswith("https://")), None)
    author = next((found[name] for name in _USER_NAMES if name in found), None)
    moment = unix_to_utc(entry.node.get("timestamp"))
    caption = next((found[name] for name in _CAPTIONS if name in found), None)
    if not found:
        raise UnreadableError(ReceiptCode.MALFORMED)
    entry.item.records.append(
        records.like(
            key=records.key(SERVICE, kind, url or author, moment),
            service=SERVICE,
            kind=kind,
            title=f"{author}'s post" if author else None,
            text=caption,
            author=author,
            liked_at=entry.item.require_date(moment, entry.node.get("timestamp")),
            url=url,
        )
    )


_USER_NAMES = ("Username", "Benutzername", "Nom d’utilisateur", "Nombre de usuario", "Nome utente",  # noqa: RUF001
               "Gebruikersnaam", "Nome de usuário")  # fmt: skip
_CAPTIONS = ("Caption", "Bildunterschrift", "Légende", "Pie de foto", "Didascalia", "Bijschrift",
             "Legenda")  # fmt: skip
_LABELED = {"liked_posts": "like", "liked_comments": "comment like", "saved_posts": "saved"}
"""Kinds by the name of a file with labels."""


def _person(entry: Entry, *, relation: str) -> None:
    values = list(_values(entry.node))
    url = next((url for each in values if (url := json_line(each, "href"))), None)
    name = next((name for each in values if (name := json_line(each, "value"))), None)
    name = name or json_line(entry.node, "title") or (url or "").rstrip("/").rpartition("/")[2]
    if not name:
        raise UnreadableError(ReceiptCode.NO_IDENTITY)
    since = _moment(entry)
    entry.item.records.append(
        records.person(SERVICE, relation, name=name, identity=name.lower(), url=url, since=since)
    )


_LISTS: dict[str, ParseEntry] = {
    "ig_stories.item": partial(_post, kind="story"),
    "ig_reels_media.item": partial(_post, kind="reel"),
    "ig_igtv_media.item": partial(_post, kind="video"),
    "ig_archived_post_media.item": partial(_post, kind="archived post"),
    "ig_profile_picture.item": partial(_post, kind="profile picture"),
    "comments_media_comments.item": _comment,
    "comments_reels_comments.item": _comment,
    "comments_story_comments.item": _comment,
    "likes_media_likes.item": partial(_like, kind="like"),
    "likes_comment_likes.item": partial(_like, kind="comment like"),
    "saved_saved_media.item": partial(_like, kind="saved"),
    "relationships_followers.item": partial(_person, relation="follower"),
    "relationships_following.item": partial(_person, relation="following"),
    "relationships_close_friends.item": partial(_person, relation="close friend"),
    "relationships_blocked_users.item": partial(_person, relation="blocked"),
}


def _find_parser(file: ExportFile) -> ParseEntry | None:
    head, name = file.head, file.path.name
    if b'"label_values"' in head:
        kind = next((kind for start, kind in _LABELED.items() if name.startswith(start)), None)
        return partial(_labeled_like, kind=kind) if kind else None
    if b'"string_map_data"' in head and "comment" in name:
        return _comment
    if b'"string_list_data"' in head and name.startswith("followers"):
        return partial(_person, relation="follower")
    if b'"uri"' in head and b'"creation_timestamp"' in head and b'"participants"' not in head:
        return partial(_post, kind="post")
    return None


ARCHIVE = Archive(SERVICE, _LISTS, _find_parser)
INSTAGRAM = Importer(
    claim=ARCHIVE.claim,
    read=lambda files, _options: ARCHIVE.read(files),
)
