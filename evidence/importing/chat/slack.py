"""Slack: the zip that a workspace's owner downloads, a file for each channel and day."""

import html
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import orjson

from evidence.importing.chat import rows
from evidence.importing.codes import Code
from evidence.importing.exports import Entry, each
from evidence.importing.items import Item, Piece, Pieces, UnreadableError
from evidence.importing.kinds import Entries, Kind
from evidence.importing.options import Options

SERVICE = "slack"
FILE_BYTES = 128 * 1024 * 1024
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
    conversations: dict[str, tuple[rows.Conversation, Json]]


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
        members = [workspace.users.get(each_id, each_id) for each_id in about.get("members", [])]
        topic = (about.get("topic") or {}).get("value") or (about.get("purpose") or {}).get("value")
        row = conversation.row(topic=topic, members=members)
        yield Piece("", conversation.name, 0, partial(Item, [row]))
    days = [entry for entry in entries if _DAY.fullmatch(entry.path.name)]
    yield from each(days, partial(_day, workspace=workspace))


def _users(entries: Entries) -> dict[str, str]:
    names = {}
    for user in _list(entries, "users.json"):
        profile = user.get("profile") or {}
        names[user["id"]] = (
            profile.get("display_name")
            or profile.get("real_name")
            or user.get("name")
            or user["id"]
        )
    return names


def _conversations(entries: Entries) -> dict[str, tuple[rows.Conversation, Json]]:
    found = {}
    for file, kind in _LISTS.items():
        for about in _list(entries, file):
            name = about.get("name") or about["id"]
            conversation = rows.Conversation(
                id=f"s_{about['id']}", name=name, service=SERVICE, kind=kind
            )
            # The folder of a direct conversation is called by its id.
            found[about["id"] if kind == "direct" else name] = (conversation, about)
    return found


def _list(entries: Entries, name: str) -> list[Json]:
    """What a list of the export holds; nothing where it cannot be read, for the days are the point."""
    for entry in entries:
        if entry.path.name == name:
            try:
                listed = orjson.loads(entry.read(most=FILE_BYTES))
            except (UnreadableError, orjson.JSONDecodeError):
                return []
            return [each for each in listed if isinstance(each, dict) and "id" in each]
    return []


def _day(entry: Entry, *, workspace: Workspace) -> Pieces:
    folder = entry.path.parent.name
    known = workspace.conversations.get(folder)
    conversation = known[0] if known else rows.Conversation(
        id=rows.conversation_id(SERVICE, folder), name=folder, service=SERVICE, kind="channel"
    )  # fmt: skip
    try:
        listed = orjson.loads(entry.read(most=FILE_BYTES))
    except orjson.JSONDecodeError as error:
        raise UnreadableError(Code.MALFORMED, detail=error.msg) from error
    if not isinstance(listed, list):
        raise UnreadableError(Code.MALFORMED)
    size = entry.size // max(1, len(listed))
    for number, said in enumerate(listed, 1):
        make = partial(_message, said, conversation, workspace)
        yield Piece(entry.name, f"message {number:,}", size, make)


def _message(said: Any, conversation: rows.Conversation, workspace: Workspace) -> Item:
    item = Item()
    if not isinstance(said, dict) or not isinstance(said.get("ts"), str):
        raise UnreadableError(Code.NO_IDENTITY)
    key = f"{conversation.id}.{said['ts']}"
    sent_at = rows.moment(said["ts"])
    if sent_at is None:
        item.remark(Code.BAD_DATE, detail=said["ts"][:40])
    author_id = said.get("user") or said.get("bot_id")
    thread = said.get("thread_ts")
    rows.message(
        item,
        conversation,
        key=key,
        text=_text(said, workspace),
        sent_at=sent_at,
        author=_author(said, workspace),
        author_id=author_id,
        edited_at=rows.moment((said.get("edited") or {}).get("ts")),
        kind=said.get("subtype") or "message",
        thread_id=f"{conversation.id}.{thread}" if thread else None,
        reply_to=f"{conversation.id}.{thread}" if thread and thread != said["ts"] else None,
        reactions=[f"{each['name']} {each.get('count', 1)}" for each in said.get("reactions", [])],
        sent=[
            rows.Sent(
                name=file.get("name") or "", media_type=file.get("mimetype"), size=file.get("size")
            )
            for file in said.get("files", [])
            if isinstance(file, dict) and file.get("mode") != "tombstone"
        ],
    )
    return item


def _author(said: Json, workspace: Workspace) -> str | None:
    user = said.get("user")
    named = (said.get("user_profile") or {}).get("real_name") or said.get("username")
    return workspace.users.get(str(user)) or named or user


def _text(said: Json, workspace: Workspace) -> str:
    texts = [said.get("text") or ""]
    texts += [
        part
        for attached in said.get("attachments", [])
        for part in (attached.get("title"), attached.get("text") or attached.get("fallback"))
        if part
    ]
    return html.unescape(_REFERENCE.sub(partial(_shown, workspace), "\n".join(texts)))


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
