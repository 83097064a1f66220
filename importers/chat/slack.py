"""Slack: the zip that a workspace's owner downloads, a file for each channel and day."""

import contextlib
import html
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from importers.chat import records
from importers.core.dates import moment
from importers.core.export_files import Entry, each
from importers.core.importer import Entries, Kind, Options
from importers.core.results import Code, Item, Piece, Pieces, UnreadableError
from importers.core.streaming import ITEM, walk

SERVICE = "slack"
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}\.json")
_LISTS = {
    "channels.json": "channel",
    "groups.json": "private channel",
    "mpims.json": "group",
    "dms.json": "direct",
}
_OTHERS = ("users.json", "integration_logs.json", "canvases.json", "huddle_transcripts.json",
           "org_users.json", "lists.json", "file_conversations.json")  # fmt: skip
_REFERENCE = re.compile(r"<([@#!]?)([^<>|]+)(?:\|([^<>]*))?>")

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Workspace:
    """``users`` maps ids to names, ``conversations`` the names of folders to what they hold."""

    users: dict[str, str]
    conversations: dict[str, tuple[records.Conversation, Json]]


def _claim(entries: Entries) -> list[Entry]:
    roots = {entry.path.parent for entry in entries if entry.path.name == "users.json"}
    return [
        entry
        for entry in entries
        if (entry.path.parent in roots and entry.path.name in (*_LISTS, *_OTHERS))
        or (entry.path.parent.parent in roots and _DAY.fullmatch(entry.path.name))
    ]


def _read(entries: Entries, options: Options) -> Pieces:
    workspace = Workspace(_users(entries), _conversations(entries))
    for conversation, about in workspace.conversations.values():
        make = partial(_announced, conversation, about, workspace)
        yield Piece("", conversation.name, 0, make)
    days = [entry for entry in entries if _DAY.fullmatch(entry.path.name)]
    yield from each(days, partial(_day, workspace=workspace))


def _announced(conversation: records.Conversation, about: Json, workspace: Workspace) -> Item:
    stated = about.get("members")
    members = [str(member) for member in stated] if isinstance(stated, list) else []
    topic = _object(about, "topic").get("value") or _object(about, "purpose").get("value")
    named = [workspace.users.get(member, member) for member in members]
    return Item([conversation.row(topic=topic, members=named)])


def _object(about: Json, name: str) -> Json:
    """A member that is an object; none where it is anything else."""
    found = about.get(name)
    return found if isinstance(found, dict) else {}


def _users(entries: Entries) -> dict[str, str]:
    names = {}
    for user in _list(entries, "users.json"):
        profile = _object(user, "profile")
        names[user["id"]] = str(
            profile.get("display_name")
            or profile.get("real_name")
            or user.get("name")
            or user["id"]
        )
    return names


def _conversations(entries: Entries) -> dict[str, tuple[records.Conversation, Json]]:
    found = {}
    for file, kind in _LISTS.items():
        for about in _list(entries, file):
            name = str(about.get("name") or about["id"])
            conversation = records.Conversation(
                id=f"s_{about['id']}", name=name, service=SERVICE, kind=kind
            )
            # The folder of a direct conversation is called by its id.
            found[about["id"] if kind == "direct" else name] = (conversation, about)
    return found


def _list(entries: Entries, name: str) -> list[Json]:
    """What a list of the export holds; nothing where it cannot be read, for the days are the point."""
    listed: list[Json] = []
    with contextlib.suppress(UnreadableError):
        for entry in entries:
            if entry.path.name == name:
                listed += [about for about, _ in _items(entry) if isinstance(about, dict)]
    return [about for about in listed if isinstance(about.get("id"), str)]


def _items(entry: Entry) -> Iterator[tuple[Any, int]]:
    """Each of a list, with its size."""
    with entry.open() as stream:
        at = 0
        for _, event, value in walk(stream, is_item="item".__eq__):
            if event == ITEM:
                size, at = max(0, stream.tell() - at), max(at, stream.tell())
                yield value, size


def _day(entry: Entry, *, workspace: Workspace) -> Pieces:
    folder = entry.path.parent.name
    known = workspace.conversations.get(folder)
    conversation = known[0] if known else records.Conversation(
        id=records.conversation_id(SERVICE, folder), name=folder, service=SERVICE, kind="channel"
    )  # fmt: skip
    number = 0
    for number, (said, size) in enumerate(_items(entry), 1):
        make = partial(_message, said, conversation, workspace)
        yield Piece(entry.name, f"message {number:,}", size, make)
    if not number and entry.head.lstrip()[:1] != b"[":
        raise UnreadableError(Code.MALFORMED)


def _message(said: Any, conversation: records.Conversation, workspace: Workspace) -> Item:
    item = Item()
    if not isinstance(said, dict) or not isinstance(said.get("ts"), str):
        raise UnreadableError(Code.NO_IDENTITY)
    key = f"{conversation.id}.{said['ts']}"
    sent_at = moment(said["ts"])
    if sent_at is None:
        item.remark(Code.BAD_DATE, detail=said["ts"][:40])
    author_id = said.get("user") or said.get("bot_id")
    thread = said.get("thread_ts")
    records.message(
        item,
        conversation,
        key=key,
        text=_text(said, workspace),
        sent_at=sent_at,
        author=_author(said, workspace),
        author_id=author_id,
        edited_at=moment(_object(said, "edited").get("ts")),
        kind=said.get("subtype") or "message",
        thread_id=f"{conversation.id}.{thread}" if thread else None,
        reply_to=f"{conversation.id}.{thread}" if thread and thread != said["ts"] else None,
        reactions=[
            f"{each.get('name')} {each.get('count', 1)}"
            for each in records.objects(said.get("reactions"))
        ],
        sent=[
            records.Sent(
                name=file.get("name") or "", media_type=file.get("mimetype"), size=file.get("size")
            )
            for file in records.objects(said.get("files"))
            if file.get("mode") != "tombstone"
        ],
    )
    return item


def _author(said: Json, workspace: Workspace) -> str | None:
    user = said.get("user")
    named = _object(said, "user_profile").get("real_name") or said.get("username")
    return workspace.users.get(str(user)) or named or user


def _text(said: Json, workspace: Workspace) -> str:
    texts = [said.get("text")]
    for attached in records.objects(said.get("attachments")):
        texts += [attached.get("title"), attached.get("text") or attached.get("fallback")]
    return html.unescape(
        _REFERENCE.sub(partial(_shown, workspace), "\n".join(map(str, filter(None, texts))))
    )


def _shown(workspace: Workspace, found: re.Match[str]) -> str:
    """``<@U1>`` is a person, ``<#C1|general>`` a channel, ``<!here>`` everybody, else a link."""
    sign, target, label = found.groups()
    if sign == "@":
        return "@" + (label or workspace.users.get(target, target))
    if sign:
        return sign.replace("!", "@") + (label or target)
    return f"{label} ({target})" if label and label != target else target


SLACK = Kind(
    name="slack",
    title="a Slack workspace",
    source="chat",
    label="Slack",
    claim=_claim,
    read=_read,
)
