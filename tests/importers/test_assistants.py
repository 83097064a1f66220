"""Conversation exports of ChatGPT and Claude."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from evidence.models.connections import Connection
from tests.importers.imports import TORTURE, latest, one, receipts, records, run

pytestmark = pytest.mark.django_db


def chatgpt_message(
    message_id: str, parent: str | None, role: str, content: dict[str, Any], **metadata: Any
) -> dict[str, Any]:
    message = {
        "id": message_id,
        "author": {"role": role, "name": None, "metadata": {}},
        "create_time": 1768000000.25,
        "content": content,
        "metadata": metadata,
    }
    return {"id": message_id, "message": message, "parent": parent, "children": []}


def text(*parts: Any) -> dict[str, Any]:
    return {"content_type": "text", "parts": list(parts)}


CHATGPT = [
    {
        "title": "Leaking tap",
        "create_time": 1768000000.0,
        "mapping": {
            "root": {"id": "root", "message": None, "parent": None, "children": ["s"]},
            "s": chatgpt_message("s", "root", "system", text("")),
            "h": chatgpt_message(
                "h", "s", "user", text("Profile"), is_visually_hidden_from_conversation=True
            ),
            "u": chatgpt_message(
                "u",
                "h",
                "user",
                {
                    "content_type": "multimodal_text",
                    "parts": [{"content_type": "image_asset_pointer"}, "My tap leaks."],
                },
                attachments=[{"name": "tap.jpg", "mime_type": "image/jpeg", "size": 12}],
            ),
            "a": chatgpt_message("a", "u", "assistant", text("Close the valve.")),
            "c": chatgpt_message(
                "c", "a", "assistant", {"content_type": "code", "text": "print(1)"}
            ),
        },
        "conversation_id": "c-1",
    },
    {"title": "Broken"},
]
CLAUDE = [
    {
        "uuid": "c-2",
        "name": "Trip to Rome",
        "created_at": "2026-01-05T08:30:00.000000Z",
        "chat_messages": [
            {
                "uuid": "m-1",
                "text": "Plan it",
                "content": [{"type": "text", "text": "Plan it"}],
                "sender": "human",
                "created_at": "2026-01-05T08:30:00.123456Z",
                "attachments": [
                    {"file_name": "a.txt", "file_size": 4, "extracted_content": "Rome"}
                ],
                "files": [],
            },
            {
                "uuid": "m-2",
                "text": "",
                "content": [
                    {"type": "thinking", "thinking": "hm"},
                    {"type": "text", "text": "Day one"},
                    {"type": "text", "text": "Day two"},
                ],
                "sender": "assistant",
                "created_at": "2026-01-05T08:31:00Z",
            },
        ],
    }
]


def export(path: Path, value: Any) -> Path:
    path.mkdir()
    (path / "conversations.json").write_text(json.dumps(value))
    return path


def test_conversations_with_chatgpt_are_imported(tmp_path: Path) -> None:
    path = export(tmp_path / "chatgpt", CHATGPT)

    run(path)

    messages = {record["text"]: record for record in records("messages")}
    assert messages.keys() == {"My tap leaks.", "Close the valve.", "print(1)"}
    answer = messages["Close the valve."]
    assert (answer["author"], answer["conversation"]) == ("ChatGPT", "Leaking tap")
    assert answer["sent_at"] == "2026-01-09T23:06:40.250000Z"
    assert answer["reply_to"] == messages["My tap leaks."]["id"]
    assert one("attachments", filename="tap.jpg")["size_bytes"] == 12
    assert receipts() == {("no_identity", "conversation 2")}
    run(path)
    assert (latest().created, latest().updated) == (0, 0)


def test_conversations_with_claude_are_imported(tmp_path: Path) -> None:
    run(export(tmp_path / "claude", CLAUDE))

    first, second, thought = records("messages")
    assert (thought["text"], thought["kind"]) == ("hm", "thinking")
    assert (first["author"], first["text"]) == ("User", "Plan it\n\na.txt:\nRome")
    assert (second["author"], second["text"]) == ("Claude", "Day one\n\nDay two")
    assert second["sent_at"] == "2026-01-05T08:31:00Z"
    assert one("conversations", name="Trip to Rome")["service"] == "claude"
    assert receipts() == set()


MARK = "\ue200cite\ue202turn0search0\ue201"
SITE = {"matched_text": MARK, "alt": "([Site](https://s.org))"}
POINTER = {"content_type": "image_asset_pointer", "asset_pointer": "file-service://file-X"}
SPOKEN = {"audio_asset_pointer": {"asset_pointer": "sediment://file_1"}}


@pytest.mark.parametrize(
    ("content", "metadata", "message", "files"),
    [
        (text(POINTER), {}, None, ["file-X"]),
        (text(POINTER | {"metadata": {"dalle": {"prompt": "a cat"}}}), {}, "a cat", ["file-X"]),
        (text(POINTER, "see"), {"attachments": [{"id": "file-X", "name": "a.png"}]}, "see", ["a.png"]),
        (text(SPOKEN), {}, None, ["file_1"]),
        (text(f"x {MARK}"), {"content_references": [SITE]}, "x ([Site](https://s.org))", []),
        (text(f"x{MARK} y"), {}, "x y", []),
        ({"content_type": "user_editable_context", "user_profile": "P", "user_instructions": "I"}, {}, "P\nI", []),
    ],
)  # fmt: skip
def test_chatgpt_pictures_recordings_and_sources(
    tmp_path: Path,
    content: dict[str, Any],
    metadata: dict[str, Any],
    message: str | None,
    files: list[str],
) -> None:
    mapping = {"m": chatgpt_message("m", None, "user", content, **metadata)}
    export = [{"title": "T", "mapping": mapping, "conversation_id": "c"}]
    (tmp_path / "conversations.json").write_text(json.dumps(export))

    run(tmp_path / "conversations.json")

    assert [each["text"] for each in records("messages")] == [message]
    assert [each["filename"] for each in records("attachments")] == files
    assert receipts() == set()


@pytest.mark.parametrize(
    ("blocks", "expected"),
    [
        (
            [{"type": "tool_use", "name": "artifacts", "input": {"title": "Doc", "content": "BODY"}}],
            [("artifacts:\nDoc\nBODY", "tool"), (None, "message")],
        ),
        (
            [{"type": "text", "text": "A"},
             {"type": "tool_result", "name": "web_search", "content": [{"type": "text", "text": "R"}]},
             {"type": "text", "text": "B"}],
            [("A\n\nB", "message"), ("web_search:\nR", "tool")],
        ),
        ([{"type": "thinking", "thinking": "Hm"}, {"type": "text", "text": "A"}],
         [("A", "message"), ("Hm", "thinking")]),
        ([{"type": "voice_note", "text": "spoken"}], [("spoken", "message")]),
        ([{"type": "text", "text": "A", "citations": [{"url": "https://s.org"}]}],
         [("A (https://s.org)", "message")]),
    ],
)  # fmt: skip
def test_claude_documents_tools_and_sources(
    tmp_path: Path, blocks: list[dict[str, Any]], expected: list[tuple[str | None, str]]
) -> None:
    message = {"uuid": "m", "sender": "assistant", "text": "", "content": blocks,
               "created_at": "2026-01-05T08:00:00Z"}  # fmt: skip
    export = [{"uuid": "c", "name": "T", "chat_messages": [message]}]
    (tmp_path / "conversations.json").write_text(json.dumps(export))

    run(tmp_path / "conversations.json")
    run(tmp_path / "conversations.json")

    found = [(each["text"], each["kind"]) for each in records("messages")]
    assert sorted(found, key=str) == sorted(expected, key=str)
    assert (latest().created, receipts()) == (0, set())


@pytest.mark.django_db
def test_users_of_a_claude_export_make_no_slack_connection(tmp_path: Path) -> None:
    shutil.copytree(TORTURE / "claude", tmp_path / "claude")

    run(tmp_path / "claude")

    names = set(Connection.unscoped.values_list("display_name", flat=True))
    assert "Claude" in names
    assert "Slack" not in names
