"""Import the zip export of a Slack workspace, which has a file for each channel and day."""

import contextlib
import html
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from importers.chat import records
from importers.core.dates import unix_to_iso
from importers.core.export_files import ExportFile, iter_items
from importers.core.importer import ExportFiles, Importer, Options
from importers.core.readers import iter_json_items, json_object, json_objects
from importers.core.results import ExportItem, ExportItems, ParsedItem, ReceiptCode, UnreadableError
from importers.core.text import one_line

SERVICE = "slack"
_DAY_FILE = re.compile(r"\d{4}-\d{2}-\d{2}\.json")
_CONVERSATION_LISTS = {
    "channels.json": "channel",
    "groups.json": "private channel",
    "mpims.json": "group",
    "dms.json": "direct",
}
_OTHER_FILES = ("users.json", "integration_logs.json", "canvases.json", "huddle_transcripts.json",
                "org_users.json", "lists.json", "file_conversations.json")  # fmt: skip
_LINE_TYPES = ("section", "header", "context", "rich_text", "rich_text_section", "rich_text_list",
               "rich_text_quote", "rich_text_preformatted", "markdown")  # fmt: skip
_MEMBERS = ("title", "text", "fields", "elements", "message", "message_blocks", "blocks",
            "alt_text")  # fmt: skip
_REFERENCE = re.compile(r"<([@#!]?)([^<>|]+)(?:\|([^<>]*))?>")

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Workspace:
    """User names by id, and conversations with their JSON by folder name."""

    users: dict[str, str]
    conversations: dict[str, tuple[records.Conversation, Json]]


def _claim(files: ExportFiles) -> list[ExportFile]:
    roots = {file.path.parent for file in files if file.path.name == "users.json"}
    lists = {file.path.parent for file in files if file.path.name in _CONVERSATION_LISTS}
    days = {file.path.parent.parent for file in files if _DAY_FILE.fullmatch(file.path.name)}
    roots &= lists | days  # exports of other services have users too
    root_names = (*_CONVERSATION_LISTS, *_OTHER_FILES)
    return [
        file
        for file in files
        if (file.path.parent in roots and file.path.name in root_names)
        or (file.path.parent.parent in roots and _DAY_FILE.fullmatch(file.path.name))
    ]


def _read(files: ExportFiles, options: Options) -> ExportItems:
    users = _users(files)
    workspace = Workspace(users, _conversations(files, users))
    for conversation, node in workspace.conversations.values():
        parse = partial(_conversation, conversation, node, workspace)
        yield ExportItem("", conversation.name, 0, parse)
    days = [file for file in files if _DAY_FILE.fullmatch(file.path.name)]
    yield from iter_items(days, partial(_read_day, workspace=workspace))


def _conversation(
    conversation: records.Conversation, node: Json, workspace: Workspace
) -> ParsedItem:
    topic = json_object(node, "topic").get("value") or json_object(node, "purpose").get("value")
    members = _people(node, workspace.users)
    return ParsedItem([conversation.record(topic=topic, members=members)])


def _users(files: ExportFiles) -> dict[str, str]:
    names = {}
    for user in _list(files, "users.json"):
        profile = json_object(user, "profile")
        names[user["id"]] = str(
            profile.get("display_name")
            or profile.get("real_name")
            or user.get("name")
            or user["id"]
        )
    return names


def _people(node: Json, users: Mapping[str, str]) -> list[str]:
    """Return the names of the people in a conversation."""
    listed = node.get("members")
    members = map(str, listed) if isinstance(listed, list) else ()
    return [users.get(member, member) for member in members]


def _conversations(
    files: ExportFiles, users: Mapping[str, str]
) -> dict[str, tuple[records.Conversation, Json]]:
    conversations = {}
    for list_name, kind in _CONVERSATION_LISTS.items():
        for node in _list(files, list_name):
            name = folder_name = str(node.get("name") or node["id"])
            if kind in ("direct", "group"):
                name = one_line(", ".join(_people(node, users)), max_chars=200) or name
            conversation = records.Conversation(
                id=f"s_{node['id']}", name=name, service=SERVICE, kind=kind
            )
            # Folders of direct conversations are named by id.
            folder = node["id"] if kind == "direct" else folder_name
            conversations[folder] = (conversation, node)
    return conversations


def _list(files: ExportFiles, name: str) -> list[Json]:
    """Return the objects of a list file; messages are imported without it if it is damaged."""
    nodes: list[Any] = []
    with contextlib.suppress(UnreadableError):
        for file in files:
            if file.path.name == name:
                with file.open() as stream:
                    nodes += [node for node, _ in iter_json_items(stream, prefix="item")]
    return [node for node in nodes if isinstance(node, dict) and isinstance(node.get("id"), str)]


def _read_day(file: ExportFile, *, workspace: Workspace) -> ExportItems:
    folder = file.path.parent.name
    listed = workspace.conversations.get(folder)
    conversation = listed[0] if listed else records.Conversation(
        id=records.conversation_id(SERVICE, folder), name=folder, service=SERVICE, kind="channel"
    )  # fmt: skip
    number = 0
    with file.open() as stream:
        for number, (message, size) in enumerate(iter_json_items(stream, prefix="item"), 1):
            parse = partial(_message, message, conversation, workspace)
            yield ExportItem(file.name, f"message {number:,}", size, parse)
    if not number and file.head.lstrip()[:1] != b"[":
        raise UnreadableError(ReceiptCode.MALFORMED)


def _message(message: Any, conversation: records.Conversation, workspace: Workspace) -> ParsedItem:
    item = ParsedItem()
    if not isinstance(message, dict) or not isinstance(message.get("ts"), str):
        raise UnreadableError(ReceiptCode.NO_IDENTITY)
    timestamp = message["ts"]
    sent_at = item.require_date(unix_to_iso(timestamp), timestamp)
    text, files = _text(message, workspace), _files(message)
    if not text and not files:
        item.add_issue(ReceiptCode.PARTLY_IMPORTED, detail=str(message.get("subtype") or "")[:80])
    thread = message.get("thread_ts")
    thread_id = f"{conversation.id}.{thread}" if thread else None
    records.add_message(
        item,
        conversation,
        key=f"{conversation.id}.{timestamp}",
        text=text,
        sent_at=sent_at,
        author=_author(message, workspace),
        author_id=message.get("user") or message.get("bot_id"),
        edited_at=unix_to_iso(json_object(message, "edited").get("ts")),
        kind=message.get("subtype") or "message",
        thread_id=thread_id,
        reply_to=thread_id if thread != timestamp else None,
        reactions=[
            f"{reaction.get('name')} {reaction.get('count', 1)}"
            for reaction in json_objects(message, "reactions")
        ],
        files=[
            records.MessageFile(
                name=file.get("name") or "", media_type=file.get("mimetype"), size=file.get("size")
            )
            for file in files
            if file.get("mode") != "tombstone"
        ],
    )
    return item


def _author(message: Json, workspace: Workspace) -> str | None:
    user = message.get("user")
    name = json_object(message, "user_profile").get("real_name") or message.get("username")
    return workspace.users.get(str(user)) or name or user


_SOURCE = ("pretext", "service_name", "author_name", "author_subname")
"""Where the quoted part of a message is from."""


def _files(message: Json) -> list[Json]:
    """Return the files of a message; exports before 2018 have a single one."""
    return json_objects(message, "files") or list(filter(None, [json_object(message, "file")]))


def _text(message: Json, workspace: Workspace) -> str:
    written, shown = message.get("text"), _block_text(message.get("blocks"), workspace.users)
    # What people write is in both; of what an app shows, such as a poll, the text is only a part.
    is_of_app = any(each.get("type") != "rich_text" for each in json_objects(message, "blocks"))
    texts: list[Any] = [shown, written] if is_of_app else [written or shown]
    texts.append(json_object(message, "message").get("text"))  # of one that was changed
    for file in _files(message):
        comment = json_object(file, "initial_comment").get("comment")
        texts += [comment, file.get("plain_text") or file.get("preview")]
    for attachment in json_objects(message, "attachments"):
        fields = json_objects(attachment, "fields")
        named = (f"{each.get('title')}: {each.get('value')}" for each in fields)
        texts += [attachment.get(name) for name in _SOURCE]
        texts += named
        text = attachment.get("text") or _block_text(
            attachment.get("blocks") or attachment.get("message_blocks"), workspace.users
        )
        texts += [attachment.get("title"), text or attachment.get("fallback")]
        texts.append(attachment.get("footer"))
    kept = list[str]()
    for each in map(str, filter(None, texts)):
        if not any(each in other for other in kept):  # old exports repeat a file's comment
            kept.append(each)
    text = "\n".join(kept)
    return html.unescape(_REFERENCE.sub(partial(_expand_reference, workspace), text))


def _expand_reference(workspace: Workspace, match: re.Match[str]) -> str:
    """Convert ``<@U1>`` (user), ``<#C1|general>`` (channel), ``<!here>`` (all) or a link to text."""
    sign, target, label = match.groups()
    if sign == "@":
        return "@" + (label or workspace.users.get(target, target))
    if sign:
        is_named = target.startswith("date^") or (label or "").startswith("@")
        return ("" if is_named else sign.replace("!", "@")) + (label or target)
    return f"{label} ({target})" if label and label != target else target


def _block_text(node: Any, users: Mapping[str, str]) -> str:
    """Return the text of a block, element or list of these, with a line for each block."""
    if isinstance(node, str):
        return node
    if isinstance(node, list):
        return "".join(_block_text(child, users) for child in node).strip("\n")
    if not isinstance(node, dict):
        return ""
    kind = str(node.get("type") or "")
    inline = _inline_text(kind, node, users)
    if inline is not None:
        return inline
    texts = (_block_text(node.get(name), users) for name in _MEMBERS)
    text = "\n".join(filter(None, texts))
    return f"{text}\n" if text and (kind in _LINE_TYPES or kind == "image") else text


def _inline_text(kind: str, node: Mapping[str, Any], users: Mapping[str, str]) -> str | None:
    """Return the text of an element within a line, or None for any other node."""
    if kind == "text":
        return html.escape(str(node.get("text") or ""), quote=False)  # all text is unescaped later
    if kind in ("mrkdwn", "plain_text"):
        return f"{node.get('text') or ''}\n"
    if kind == "link":
        label, url = node.get("text"), str(node.get("url") or "")
        return f"{label} ({url})" if label and label != url else url
    if kind == "user":
        user = str(node.get("user_id"))
        return f"@{users.get(user, user)}"
    if kind == "emoji":
        return f":{node.get('name')}:"
    named = {"channel": ("#", "channel_id"), "broadcast": ("@", "range"),
             "usergroup": ("@", "usergroup_id"), "date": ("", "fallback")}.get(kind)  # fmt: skip
    return None if named is None else f"{named[0]}{node.get(named[1]) or ''}"


SLACK = Importer(claim=_claim, read=_read)
