"""Write a year of life as a Takeout archive, and return what is true about it."""

import json
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

START = datetime(2025, 1, 1, 7, 30, 5, tzinfo=UTC)
WRAPPED = "private_do_not_access_or_else_safe_url_wrapped_value"
PEOPLE = ("Ana Ríos", "Bram Öz", "陳美")


@dataclass
class Truth:
    """What the archive says: counts and sets of texts, and the moments of activities."""

    notes: set[str] = field(default_factory=set)
    open_tasks: int = 0
    messages: Counter[str] = field(default_factory=Counter)
    activities: dict[str, str] = field(default_factory=dict)
    subscriptions: set[str] = field(default_factory=set)
    comments: set[str] = field(default_factory=set)


def write_json(path: Path, value: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, ensure_ascii=False), encoding="utf-8")


def usec(moment: datetime) -> int:
    return int(moment.timestamp()) * 1_000_000


def write_takeout(root: Path, *, days: int) -> Truth:
    truth, takeout = Truth(), root / "Takeout"
    _write_keep(takeout / "Keep", days, truth)
    _write_tasks(takeout / "Tasks" / "Tasks.json", days, truth)
    _write_chats(takeout / "Google Chat" / "Groups", days, truth)
    _write_youtube(takeout / "YouTube and YouTube Music", days, truth)
    _write_activity(takeout / "My Activity" / "Search" / "MyActivity.html", days, truth)
    return truth


def _write_keep(folder: Path, days: int, truth: Truth) -> None:
    for day in range(0, days, 7):
        moment = START + timedelta(days=day)
        note: dict[str, Any] = {
            "color": "DEFAULT",
            "isTrashed": day % 21 == 0,
            "isPinned": False,
            "isArchived": day % 14 == 0,
            "title": f"Week {day // 7}",
            "createdTimestampUsec": usec(moment),
            "userEditedTimestampUsec": usec(moment + timedelta(hours=1)),
            "labels": [{"name": "Home"}],
            "annotations": [
                {"title": "A page", "url": "https://example.org/", "source": "WEBLINK"}
            ],
            "attachments": [{"filePath": f"picture{day}.jpeg", "mimetype": "image/jpeg"}],
        }
        if day % 2:
            note["listContent"] = [{"text": "Milk", "isChecked": True}, {"text": "Brot"}]
        else:
            note["textContent"] = f"Plan for week {day // 7}: naïve café"
        write_json(folder / f"Week {day // 7}.json", note)
        (folder / f"picture{day}.jpg").write_bytes(b"\xff\xd8picture %d" % day)
        (folder / f"Week {day // 7}.html").write_text("<html><body>the same note</body></html>")
        truth.notes.add(f"Week {day // 7}")


def _write_tasks(path: Path, days: int, truth: Truth) -> None:
    tasks = []
    for day in range(0, days, 3):
        moment = (START + timedelta(days=day)).isoformat().replace("+00:00", ".000Z")
        is_done = day % 6 == 0
        truth.open_tasks += not is_done
        tasks.append(
            {
                "kind": "tasks#task",
                "id": f"task-{day}",
                "title": f"Task {day}",
                "status": "completed" if is_done else "needsAction",
                "updated": moment,
                "links": [{"type": "email", "link": "https://mail.google.com/1"}],
                "notes": "A note",
                "parent": "task-0",
                "due": moment[:10] + "T00:00:00.000Z",
                **({"completed": moment} if is_done else {}),
            }
        )
    lists = [
        {"kind": "tasks#tasks", "id": "l1", "title": "My tasks", "items": tasks},
        {"kind": "tasks#tasks", "id": "l2", "title": "Empty", "items": []},
    ]
    write_json(path, {"kind": "tasks#taskLists", "items": lists})


def _write_chats(groups: Path, days: int, truth: Truth) -> None:
    for number, person in enumerate(PEOPLE):
        folder = groups / f"DM chat{number}"
        messages = []
        for day in range(number, days, 2):
            moment = START + timedelta(days=day)
            written = (
                f"{moment:%A, %B} {moment.day}, {moment.year} at {moment:%-I:%M:%S} {moment:%p} UTC"
            )
            messages.append(
                {
                    "creator": {"name": person, "email": f"p{number}@example.org"},
                    "created_date": written.replace(" AM", "\u202fAM"),
                    "text": f"Day {day} 🎉",
                    "topic_id": f"t{day}",
                    "reactions": [
                        {"emoji": {"unicode": "👍"}, "reactor_emails": ["a@example.org"]}
                    ],
                    "annotations": [
                        {
                            "url_metadata": {
                                "title": "A page",
                                "url": {WRAPPED: "https://example.org/"},
                            }
                        }
                    ],
                    "attached_files": [{"original_name": "a.txt", "export_name": "File-a.txt"}],
                    "message_id": f"chat{number}/t{day}/t{day}",
                }
            )
            truth.messages[person] += 1
        write_json(folder / "messages.json", {"messages": messages})
        (folder / "File-a.txt").write_text("attached words")
        members = [{"name": person, "email": f"p{number}@example.org"}]
        write_json(folder / "group_info.json", {"members": members})


def _write_youtube(folder: Path, days: int, truth: Truth) -> None:
    watched = []
    comments = ["Comment ID,Channel ID,Comment Create Timestamp,Price,Video ID,Comment Text"]
    for day in reversed(range(days)):
        moment = START + timedelta(days=day, hours=12)
        url = f"https://www.youtube.com/watch?v=video{day}"
        at = moment.isoformat().replace("+00:00", ".123Z")
        watched.append(
            {
                "header": "YouTube",
                "title": f"Watched Video {day}",
                "titleUrl": url,
                "subtitles": [{"name": "A channel", "url": "https://www.youtube.com/channel/UC1"}],
                "time": at,
                "products": ["YouTube"],
                "details": [{"name": "On television"}],
                "locationInfos": [{"name": "At home", "url": "https://www.google.com/maps/@1,2"}],
                "description": "Seen until the end",
                "activityControls": ["YouTube watch history"],
            }
        )
        truth.activities[url] = at[:19]
        if day % 10 == 0:
            text = f'Comment, "{day}"\non two lines'
            segments = json.dumps({"takeoutSegments": [{"text": text}]}).replace('"', '""')
            comments.append(f'c{day},UC0,{at},0,video{day},"{segments}"')
            truth.comments.add(text)
    write_json(folder / "history" / "watch-history.json", watched)
    table = folder / "comments" / "comments.csv"
    table.parent.mkdir(parents=True)
    table.write_text("\r\n".join(comments) + "\r\n", encoding="utf-8")
    rows = [
        f"UC{number},http://www.youtube.com/channel/UC{number},Kanal {number}"
        for number in range(days // 30 + 1)
    ]
    truth.subscriptions |= {f"Kanal {number}" for number in range(days // 30 + 1)}
    subscriptions = folder / "subscriptions" / "subscriptions.csv"
    subscriptions.parent.mkdir(parents=True)
    subscriptions.write_text("Channel Id,Channel Url,Channel Title\n" + "\n".join(rows))


def _write_activity(path: Path, days: int, truth: Truth) -> None:
    entries = []
    for day in reversed(range(0, days, 2)):
        moment = START + timedelta(days=day, hours=3)
        local = moment + timedelta(hours=1)
        url = f"https://www.google.com/search?q=caf%C3%A9+{day}&amp;hl=en"
        entries.append(
            '<div class="outer-cell mdl-cell mdl-cell--12-col mdl-shadow--2dp"><div class="mdl-grid">'
            '<div class="header-cell mdl-cell mdl-cell--12-col"><p class="mdl-typography--title">Search<br></p>'
            '</div><div class="content-cell mdl-cell mdl-cell--6-col mdl-typography--body-1">Searched for&nbsp;'
            f'<a href="{url}">café {day}</a><br>{local:%b} {local.day}, {local.year}, '
            f"{local:%-I:%M:%S}\u202f{local:%p} CET<br></div>"
            '<div class="content-cell mdl-cell mdl-cell--12-col mdl-typography--caption"><b>Products:</b><br>'
            "&emsp;Search<br></div></div></div>"
        )
        truth.activities[url.replace("&amp;", "&")] = moment.isoformat()[:19]
    path.parent.mkdir(parents=True)
    page = '<html><head><style>.mdl-grid {}</style></head><body><div class="mdl-grid">'
    path.write_text(page + "\n".join(entries) + "</div></body></html>", encoding="utf-8")
