"""Archives of Facebook, Instagram and X."""

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pdpp_importers_extra.meta_archive import repair_text

from importers.authoring.test_kit import read_export
from tests.extras.year_of_networks import (
    break_text,
    write_facebook,
    write_instagram,
    write_json,
    write_script,
    write_x,
)
from tests.importers.imports import latest, one, receipts, records, run
from tests.importers.torture_kit import GeneratedExportTests, issue_codes


class TestFacebook(GeneratedExportTests):
    importer_name = "facebook"
    writer = staticmethod(write_facebook)


class TestFacebookMessages(GeneratedExportTests):
    importer_name = "facebook-messages"
    writer = staticmethod(write_facebook)


class TestInstagram(GeneratedExportTests):
    importer_name = "instagram"
    writer = staticmethod(write_instagram)


class TestInstagramMessages(GeneratedExportTests):
    importer_name = "instagram-messages"
    writer = staticmethod(write_instagram)


class TestX(GeneratedExportTests):
    importer_name = "x"
    writer = staticmethod(write_x)


class TestXMessages(GeneratedExportTests):
    importer_name = "x-messages"
    writer = staticmethod(write_x)


@pytest.mark.slow
@pytest.mark.django_db
@pytest.mark.parametrize("writer", [write_facebook, write_instagram])
def test_year_of_meta_is_imported_as_it_was(writer: Callable[..., Any], tmp_path: Path) -> None:
    truth = writer(tmp_path / "export", days=365)

    run(tmp_path / "export")

    messages = records("messages")
    assert Counter(record["author"] for record in messages) == truth["people"]
    assert {record["text"].splitlines()[0] for record in messages} == {
        f"Day {day} — café 🎉" for day in range(365)
    }
    assert {reaction for record in messages for reaction in record["reactions"]} == {"❤ Ñora"}
    assert all(record["sent_at"].endswith("05.123Z") for record in messages)
    posts = [record for record in records("posts") if record["kind"] == "post"]
    assert len(posts) == truth["posts"]
    comments = {record["text"] for record in records("posts") if record["kind"] == "comment"}
    assert comments == {f"Comment {day} ❤" for day in range(0, 365, 3)}
    assert len(records("likes")) == truth["posts"]
    assert {record["name"].lower() for record in records("people")} <= {"zoe", "zoë"}
    assert receipts() == set()
    run(tmp_path / "export")
    assert (latest().created, latest().updated) == (0, 0)


@pytest.mark.slow
@pytest.mark.django_db
def test_year_of_x_is_imported_as_it_was(tmp_path: Path) -> None:
    truth = write_x(tmp_path / "export", days=365)

    run(tmp_path / "export")

    posts = {record["id"].removeprefix("x_"): record for record in records("posts")}
    assert {post_id: post["text"] for post_id, post in posts.items()} == truth["texts"]
    assert {post["author"] for post in posts.values()} == {"Ana ☕"}
    first = posts[str(10**18)]
    assert (first["posted_at"], first["likes"], first["tags"]) == (
        "2025-01-01T07:30:05Z",
        3,
        ["sun"],
    )
    attached = {each["post_id"]: each for each in records("attachments") if "post_id" in each}
    assert attached[first["id"]]["blob_ref"] is not None
    assert one("likes", kind="like")["text"] == "A & B"
    messages = records("messages")
    assert len(messages) == truth["messages"]
    assert {message["author"] for message in messages} == {"Ana ☕", "user 2"}
    assert {message["conversation"] for message in messages} == {"user 2"}
    assert receipts() == set()


@pytest.mark.parametrize(
    ("written", "text", "is_sure"),
    [
        ("plain", "plain", True),
        (break_text("café"), "café", True),
        (break_text("❤️🎉 Ünï 陳"), "❤️🎉 Ünï 陳", True),
        (break_text("café é")[:-1], "café ", True),
        ("café", "café", True),
        ("São João, ça va?", "São João, ça va?", True),
        ("陳美 is right", "陳美 is right", True),
        (break_text("café") + " é!", break_text("café") + " é!", False),
        (break_text("café") + " 陳", break_text("café") + " 陳", False),
        ("a\u0085b", "a\u0085b", False),
    ],
)
def test_broken_texts_are_repaired_or_in_doubt(written: str, text: str, is_sure: bool) -> None:
    assert repair_text(written) == (text, is_sure)


def test_texts_in_doubt_and_unsent_messages_have_receipts(tmp_path: Path) -> None:
    doubt = {"sender_name": "Ana", "timestamp_ms": 1735716605123, "content": break_text("é") + "é!"}
    unsent = {"sender_name": "Ana", "timestamp_ms": 1735716605124, "is_unsent": True}
    undated = {"sender_name": "Ana", "timestamp_ms": 0, "content": "When?"}
    poll = {"sender_name": "Ana", "timestamp_ms": 1735716605125,
            "poll": {"question": "Tea?", "options": [{"option": "Yes"}]}}  # fmt: skip
    unread = {"sender_name": "Ana", "timestamp_ms": 1735716605126, "is_taken_down": True}
    thread = {
        "participants": [{"name": "Ana"}],
        "messages": [doubt, unsent, undated, poll, unread],
        "title": "Ana",
    }
    write_json(tmp_path / "your_instagram_activity/messages/inbox/a_1/message_1.json", thread)

    result = read_export("instagram-messages", tmp_path)

    codes = {"unsure_charset", "deleted", "bad_date", "partly_imported"}
    assert issue_codes(result.issues) == codes
    texts = [record["text"] for record in result.records if "author" in record]
    assert (len(texts), texts[2:]) == (4, ["Tea?\nYes", None])


def test_messages_of_unknown_service_are_not_claimed(tmp_path: Path) -> None:
    thread = {"participants": [{"name": "Ana"}], "messages": [], "title": "Ana"}
    write_json(tmp_path / "messages" / "inbox" / "a_1" / "message_1.json", thread)

    for name in ("facebook-messages", "instagram-messages"):
        with pytest.raises(LookupError):
            read_export(name, tmp_path)


def test_groups_of_x_have_their_newest_name_and_receipts_for_events(tmp_path: Path) -> None:
    events: list[dict[str, Any]] = [
        {
            "messageCreate": {
                "id": "3",
                "senderId": "4",
                "text": "Hi",
                "createdAt": "2025-01-02T00:00:00Z",
            }
        },
        {"conversationNameUpdate": {"name": "Hikers"}},
        {"messageCreate": {"id": "2", "senderId": "4", "text": "Yo", "createdAt": "Thursday"}},
        {"conversationNameUpdate": {"name": "Old name"}},
        {"participantsJoin": {"userIds": ["4"]}},
    ]
    conversation = {"dmConversation": {"conversationId": "77", "messages": events}}
    write_script(
        tmp_path / "data" / "direct-messages-group.js", "direct_messages_group", [conversation]
    )

    result = read_export("x-messages", tmp_path)

    messages = [record for record in result.records if "author" in record]
    assert {message["conversation"] for message in messages} == {"Hikers"}
    assert [issue.code.value for issue in result.issues] == [
        "not_supported", "bad_date", "not_supported", "not_supported"
    ]  # fmt: skip


@pytest.mark.django_db
def test_title_of_a_like_on_x_is_text(tmp_path: Path) -> None:
    like = {
        "like": {
            "tweetId": "7",
            "fullText": "Salt &amp; pepper",
            "expandedUrl": "https://x.com/i/7",
        }
    }
    write_script(tmp_path / "x" / "data" / "like.js", "like", [like])

    run(tmp_path / "x")

    assert one("likes", url="https://x.com/i/7")["title"] == "Salt & pepper"


@pytest.mark.django_db
def test_likes_with_labels_are_imported(tmp_path: Path) -> None:
    owner = {
        "title": "Owner",
        "dict": [{"title": "", "dict": [{"label": "Username", "value": "jo"}]}],
    }
    labels = [{"label": "URL", "value": "https://www.instagram.com/p/7/", "href": "https://x"},
              {"label": "Caption", "value": "caf\u00c3\u00a9"}, owner]  # fmt: skip
    entry = {"timestamp": 1768000000, "media": [], "label_values": labels, "fbid": "7"}
    write_json(tmp_path / "ig/your_instagram_activity/likes/liked_posts.json", [entry])
    reaction = [{"label": "Reaction", "value": "Like"}, {"label": "URL", "value": "https://facebook.com/7"},
                {"label": "Name", "value": "Ida"}]  # fmt: skip
    write_json(tmp_path / "ig/your_facebook_activity/comments_and_reactions/likes_and_reactions.json",
               [entry | {"label_values": reaction}])  # fmt: skip

    run(tmp_path / "ig")

    like = one("likes", url="https://www.instagram.com/p/7/")
    assert (like["author"], like["text"], like["liked_at"]) == (
        "jo",
        "café",
        "2026-01-09T23:06:40Z",
    )
    assert one("likes", url="https://facebook.com/7")["reaction"] == "Like"


@pytest.mark.django_db
def test_encrypted_messages_of_messenger_are_imported(tmp_path: Path) -> None:
    message = {"isUnsent": False, "media": [{"uri": "./media/a.jpg"}], "senderName": "Jö Wolf", "text": "Grüße",
               "reactions": [{"actor": "Ida", "reaction": "👍"}], "timestamp": 1768000000250, "type": "text"}  # fmt: skip
    thread = {"participants": ["Ida", "Jö Wolf"], "threadName": "Jö Wolf_1", "messages": [message]}
    path = tmp_path / "messages"
    (path / "media").mkdir(parents=True)
    (path / "media/a.jpg").write_bytes(b"a picture")
    (path / "Jö Wolf_1.json").write_text(json.dumps(thread, ensure_ascii=False))

    run(path)

    found = one("messages", text="Grüße")
    assert (found["author"], found["conversation"]) == ("Jö Wolf", "Jö Wolf")
    assert found["sent_at"] == "2026-01-09T23:06:40.250Z"
    assert found["reactions"] == ["👍 Ida"]
    assert one("attachments", filename="a.jpg")["size_bytes"] == 9
