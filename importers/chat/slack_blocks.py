"""Convert the blocks of a Slack message to text, for messages without one."""

import html
from collections.abc import Mapping
from typing import Any

_LINE_TYPES = ("section", "header", "context", "rich_text", "rich_text_section", "rich_text_list",
               "rich_text_quote", "rich_text_preformatted", "markdown")  # fmt: skip
_MEMBERS = (
    "title",
    "text",
    "fields",
    "elements",
    "message",
    "message_blocks",
    "blocks",
    "alt_text",
)


def block_text(node: Any, users: Mapping[str, str]) -> str:
    """Return the text of a block, element or list of these, with a line for each block."""
    if isinstance(node, str):
        return node
    if isinstance(node, list):
        return "".join(block_text(child, users) for child in node).strip("\n")
    if not isinstance(node, dict):
        return ""
    kind = str(node.get("type") or "")
    inline = _inline_text(kind, node, users)
    if inline is not None:
        return inline
    texts = (block_text(node.get(name), users) for name in _MEMBERS)
    text = "\n".join(filter(None, texts))
    return f"{text}\n" if text and (kind in _LINE_TYPES or kind == "image") else text


def _inline_text(kind: str, node: Mapping[str, Any], users: Mapping[str, str]) -> str | None:
    """Return the text of an element within a line, or None for any other node."""
    if kind == "text":
        return html.escape(str(node.get("text") or ""), quote=False)  # slack.py unescapes all text
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
