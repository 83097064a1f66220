"""Write a year on social networks as Facebook, Instagram and X export it."""

import json
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

START = datetime(2025, 1, 1, 7, 30, 5, tzinfo=UTC)


def break_text(text: str) -> str:
    """Write a text as Meta does: each byte of UTF-8 as a character."""
    return text.encode().decode("latin-1")


def write_json(path: Path, value: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value), encoding="ascii")


def write_messages(folder: Path, *, days: int) -> Counter[str]:
    """Return how many messages each person wrote; the text has the number of its day."""
    truth: Counter[str] = Counter()
    for number, person in enumerate(("Zoë 🌻", "Łukasz")):
        messages = []
        for day in reversed(range(number, days, 2)):
            moment = START + timedelta(days=day)
            message: dict[str, Any] = {
                "sender_name": break_text(person),
                "timestamp_ms": int(moment.timestamp() * 1000) + 123,
                "content": break_text(f"Day {day} — café 🎉"),
                "reactions": [{"reaction": break_text("❤"), "actor": break_text("Ñora")}],
                "is_geoblocked_for_viewer": False,
            }
            if day % 10 == 0:
                name = f"{folder.parent.name}/{folder.name}/person{number}_1/photos/{day}.jpg"
                message["photos"] = [{"uri": name, "creation_timestamp": int(moment.timestamp())}]
                message["share"] = {"link": "https://example.org/", "share_text": "A page"}
                photo = folder.parent.parent / name
                photo.parent.mkdir(parents=True, exist_ok=True)
                photo.write_bytes(b"\xff\xd8%d" % day)
            messages.append(message)
            truth[person] += 1
        thread = {
            "participants": [{"name": break_text(person)}, {"name": break_text("Ñora")}],
            "messages": messages,
            "title": break_text(person),
            "thread_path": f"inbox/person{number}_1",
        }
        write_json(folder / f"person{number}_1" / "message_1.json", thread)
    return truth


def write_facebook(root: Path, *, days: int) -> dict[str, Any]:
    activity = root / "your_facebook_activity"
    people = write_messages(activity / "messages" / "inbox", days=days)
    posts, comments, reactions = [], [], []
    for day in range(0, days, 3):
        stamp = int((START + timedelta(days=day)).timestamp())
        uri = f"your_facebook_activity/posts/media/{day}.jpg"
        data: dict[str, Any] = {"media": {"uri": uri, "description": break_text("Ein Bild: grün")}}
        place = {"place": {"name": break_text("Köln")}}
        link = {"external_context": {"url": "https://example.org/"}}
        post = {"timestamp": stamp, "data": [{"post": break_text(f"Post {day}: schön")}, {"update_timestamp": stamp}],
                "title": "Ana updated her status.", "tags": [{"name": break_text("Zoë")}]}  # fmt: skip
        posts.append(
            post | ({"attachments": [{"data": [data, place, link]}]} if day % 9 == 0 else {})
        )
        comment = {"timestamp": stamp, "comment": break_text(f"Comment {day} ❤"), "author": "Ana"}
        comments.append(
            {"timestamp": stamp, "data": [{"comment": comment}], "title": "Ana commented."}
        )
        reaction = {"reaction": {"reaction": "LIKE", "actor": "Ana"}}
        reactions.append(
            {"timestamp": stamp, "data": [reaction], "title": f"Ana likes post {day}."}
        )
    write_json(activity / "posts" / "your_posts__check_ins__photos_and_videos_1.json", posts)
    (activity / "posts" / "media").mkdir()
    (activity / "posts" / "media" / "0.jpg").write_bytes(b"\xff\xd8")
    folder = activity / "comments_and_reactions"
    write_json(folder / "comments.json", {"comments_v2": comments})
    write_json(folder / "likes_and_reactions_1.json", reactions)
    friends = [{"name": break_text("Zoë"), "timestamp": int(START.timestamp())}]
    write_json(root / "connections" / "friends" / "your_friends.json", {"friends_v2": friends})
    return {"people": people, "posts": len(posts), "reactions": len(reactions)}


def write_instagram(root: Path, *, days: int) -> dict[str, Any]:
    activity = root / "your_instagram_activity"
    people = write_messages(activity / "messages" / "inbox", days=days)
    posts, stories, comments, likes = [], [], [], []
    for day in range(0, days, 3):
        stamp = int((START + timedelta(days=day)).timestamp())
        medium = {
            "uri": f"media/posts/{day}.jpg",
            "creation_timestamp": stamp,
            "title": break_text(f"Post {day} ☀"),
        }
        posts.append({"media": [medium]})
        stories.append(
            {"uri": f"media/stories/{day}.jpg", "creation_timestamp": stamp, "title": ""}
        )
        comments.append({"media_list_data": [{"uri": ""}], "string_map_data": {
            "Comment": {"value": break_text(f"Comment {day} ❤")}, "Media Owner": {"value": "zoe"},
            "Time": {"timestamp": stamp}}})  # fmt: skip
        href = f"https://www.instagram.com/p/{day}/"
        likes.append(
            {
                "title": "zoe",
                "string_list_data": [{"href": href, "value": break_text("👍"), "timestamp": stamp}],
            }
        )
    write_json(activity / "media" / "posts_1.json", posts)
    write_json(activity / "media" / "stories.json", {"ig_stories": stories})
    write_json(activity / "comments" / "post_comments_1.json", comments)
    write_json(activity / "likes" / "liked_posts.json", {"likes_media_likes": likes})
    person = {
        "href": "https://www.instagram.com/zoe",
        "value": "zoe",
        "timestamp": int(START.timestamp()),
    }
    folder = root / "connections" / "followers_and_following"
    write_json(
        folder / "followers_1.json",
        [{"title": "", "media_list_data": [], "string_list_data": [person]}],
    )
    following = {
        "title": "zoe",
        "string_list_data": [{name: person[name] for name in ("href", "timestamp")}],
    }
    write_json(folder / "following.json", {"relationships_following": [following]})
    return {"people": people, "posts": len(posts)}


def write_script(path: Path, part: str, value: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"window.YTD.{part}.part0 = {json.dumps(value, indent=1)}", encoding="utf-8")


def write_x(root: Path, *, days: int) -> dict[str, Any]:
    data = root / "data"
    tweets, messages, texts = [], [], {}
    for day in range(0, days, 2):
        moment = START + timedelta(days=day)
        tweet_id, text = str(10**18 + day), f"Post {day} <3 & ünï"
        urls = [{"url": "https://t.co/a", "expanded_url": "https://example.org/page"}]
        media = [{"url": "https://t.co/b", "media_url_https": "https://pbs.twimg.com/media/B.jpg"}]
        tweets.append({"tweet": {
            "id_str": tweet_id, "full_text": text.replace("&", "&amp;").replace("<", "&lt;") + " https://t.co/a",
            "created_at": f"{moment:%a %b %d %H:%M:%S +0000 %Y}", "favorite_count": "3", "retweet_count": "0",
            "entities": {"urls": urls, "user_mentions": [{"screen_name": "zoe"}], "hashtags": [{"text": "sun"}], "media": media},
            "lang": "en", **({"in_reply_to_status_id_str": "9"} if day % 4 else {})}})  # fmt: skip
        texts[tweet_id] = text + " https://example.org/page"
        messages.append({"messageCreate": {
            "id": str(2 * 10**18 + day), "senderId": "1" if day % 4 else "2", "recipientId": "2",
            "text": f"Message {day}", "createdAt": f"{moment:%Y-%m-%dT%H:%M:%S.000Z}", "mediaUrls": ["https://ton.x.com/a.jpg"],
            "urls": urls, "reactions": [{"reactionKey": "like", "senderId": "2"}]}})  # fmt: skip
    account = {"accountId": "1", "username": "ana", "accountDisplayName": "Ana \u2615"}
    write_script(data / "account.js", "account", [{"account": account}])
    config = {"userInfo": {"accountId": "1", "userName": "ana", "displayName": "Ana \u2615"}}
    (data / "manifest.js").write_text(f"window.__THAR_CONFIG = {json.dumps(config)}")
    write_script(data / "tweets.js", "tweets", tweets)
    write_script(
        data / "like.js",
        "like",
        [
            {
                "like": {
                    "tweetId": "5",
                    "fullText": "A &amp; B",
                    "expandedUrl": "https://x.com/i/web/status/5",
                }
            }
        ],
    )
    write_script(
        data / "follower.js",
        "follower",
        [{"follower": {"accountId": "7", "userLink": "https://x.com/intent/user?user_id=7"}}],
    )
    conversation = {"dmConversation": {"conversationId": "1-2", "messages": messages[::-1]}}
    write_script(data / "direct-messages.js", "direct_messages", [conversation])
    media_folder = data / "tweets_media"
    media_folder.mkdir()
    (media_folder / f"{10**18}-B.jpg").write_bytes(b"\xff\xd8")
    return {"texts": texts, "messages": len(messages)}
