"""Write a year of notes as Evernote, Notion and an Obsidian vault export them."""

import base64
from datetime import UTC, datetime, timedelta
from pathlib import Path
from xml.sax.saxutils import escape

START = datetime(2025, 1, 1, 7, 30, 5, tzinfo=UTC)


def write_enex(path: Path, *, days: int) -> dict[str, tuple[str, str]]:
    """Return the time of the last edit and the text of each note, by title."""
    truth, notes = {}, []
    for day in range(0, days, 5):
        moment = START + timedelta(days=day)
        edited = moment + timedelta(hours=2)
        title, text = f"Note {day} <&> ñ", f"Words of day {day} & more"
        truth[title] = edited.isoformat().replace("+00:00", "Z"), text
        data = base64.encodebytes(b"attached words %d" % day).decode()
        notes.append(
            f"<note><title>{escape(title)}</title><content><![CDATA[<?xml version='1.0'?>"
            '<!DOCTYPE en-note SYSTEM "http://xml.evernote.com/pub/enml2.dtd">'
            f"<en-note><div>{escape(text)}</div></en-note>]]></content>"
            f"<created>{moment:%Y%m%dT%H%M%SZ}</created><updated>{edited:%Y%m%dT%H%M%SZ}</updated>"
            "<tag>home</tag><note-attributes><author>Ana</author></note-attributes>"
            f'<resource><data encoding="base64">{data}</data><mime>text/plain</mime>'
            "<resource-attributes><file-name>words.txt</file-name></resource-attributes></resource></note>"
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    header = (
        '<?xml version="1.0"?>\n<!DOCTYPE en-export SYSTEM "evernote-export4.dtd">\n<en-export>\n'
    )
    path.write_text(header + "\n".join(notes) + "\n</en-export>\n", encoding="utf-8")
    return truth


def notion_id(number: int) -> str:
    return f"{number:032x}"


def write_notion(folder: Path, *, days: int) -> dict[str, str]:
    """Return the text of each page, by title."""
    truth = {}
    database = f"Days {notion_id(1)}"
    rows = folder / database
    rows.mkdir(parents=True)
    table = ["Name,Created time,Tags"]
    for day in range(0, days, 5):
        title, text = f"Day {day}", f"Page of day {day}: café"
        written = f"{START + timedelta(days=day):%B %-d, %Y %-I:%M %p}"
        content = f"# {title}\n\nCreated time: {written}\nTags: home, work\n\n{text}\n"
        (rows / f"{title} {notion_id(100 + day)}.md").write_text(content, encoding="utf-8")
        table.append(f'{title},"{written}","home, work"')
        truth[title] = text
    (folder / f"{database}.csv").write_text("\n".join(table[:2]))
    (folder / f"{database}_all.csv").write_text("\n".join(table))
    (folder / f"Home {notion_id(2)}.md").write_text("# Home\n\nHours: none\n\n![](Home/a.txt)\n")
    (folder / "Home").mkdir()
    (folder / "Home" / "a.txt").write_text("attached to home")
    return truth


def write_vault(folder: Path, *, days: int) -> dict[str, tuple[str, set[str]]]:
    """Return the text and the tags of each note, by title."""
    truth = {}
    (folder / "daily").mkdir(parents=True)
    (folder / ".obsidian").mkdir()
    (folder / ".obsidian" / "app.json").write_text("{}")
    for day in range(0, days, 5):
        moment = START + timedelta(days=day)
        text = f"Words with #inline/tag and [[Note {day - 5}]].\n```\n#include <x>\n```"
        (folder / "daily" / f"{moment:%Y-%m-%d}.md").write_text(
            f"---\ntitle: Note {day}\ntags: [daily, day-{day}]\ncreated: {moment.isoformat()}\n"
            f"status: done\n---\n{text}\n",
            encoding="utf-8",
        )
        truth[f"Note {day}"] = text, {"daily", f"day-{day}", "inline/tag"}
    return truth
