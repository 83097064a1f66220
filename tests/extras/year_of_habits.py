"""Write a year of what somebody watched, heard and ordered, and of whom they met on LinkedIn."""

import csv
import json
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

START = datetime(2025, 1, 1, 7, 30, 5, tzinfo=UTC)


def write_table(path: Path, header: str, rows: list[list[str]], *, before: str = "") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as stream:
        stream.write(before)
        csv.writer(stream).writerows([header.split(","), *rows])


def write_spotify(folder: Path, *, days: int) -> dict[str, float]:
    """Return how many seconds each artist played; both histories have the same plays."""
    truth: dict[str, float] = {}
    extended, short = [], []
    for day in range(days):
        moment = START + timedelta(days=day)
        artist, track, played = f"Artist {day % 5}", f"Söng {day % 7}", 180_000 + day
        extended.append(
            {
                "ts": f"{moment:%Y-%m-%dT%H:%M:%SZ}",
                "platform": "android",
                "ms_played": played,
                "conn_country": "DE",
                "ip_addr": "192.0.2.1",
                "master_metadata_track_name": track,
                "master_metadata_album_artist_name": artist,
                "master_metadata_album_album_name": "Album",
                "spotify_track_uri": f"spotify:track:{day}",
                "episode_name": None,
                "offline_timestamp": 0,
            }
        )
        short.append(
            {
                "endTime": f"{moment:%Y-%m-%d %H:%M}",
                "artistName": artist,
                "trackName": track,
                "msPlayed": played,
            }
        )
        truth[artist] = truth.get(artist, 0) + played
    folder.mkdir(parents=True)
    (folder / "Streaming_History_Audio_2025.json").write_text(
        json.dumps(extended), encoding="utf-8"
    )
    (folder / "StreamingHistory0.json").write_text(json.dumps(short), encoding="utf-8")
    return truth


def write_netflix(folder: Path, *, days: int) -> set[tuple[str, str]]:
    """Return title and time of each view."""
    rows, truth = [], set()
    for day in reversed(range(days)):
        moment = START + timedelta(days=day)
        title = f"Serie: Staffel 1: Folge {day}"
        rows.append(["Ana", f"{moment:%Y-%m-%d %H:%M:%S}", "00:42:10", "", title, "TRAILER" if day % 9 == 0 else "", "TV", "00:42:10", "00:42:10", "DE (Germany)"])  # fmt: skip
        truth.add((title, moment.isoformat().replace("+00:00", "Z")))
    header = "Profile Name,Start Time,Duration,Attributes,Title,Supplemental Video Type,Device Type,Bookmark,Latest Bookmark,Country"
    write_table(folder / "CONTENT_INTERACTION" / "ViewingActivity.csv", header, rows)
    return truth


def write_amazon(folder: Path, *, days: int) -> tuple[int, Decimal]:
    """Return the number of items and the sum of their totals."""
    rows, total = [], Decimal(0)
    for day in reversed(range(0, days, 4)):
        moment = START + timedelta(days=day)
        for number in range(1 + day % 2 + (day % 3 == 0)):
            price = Decimal(999 + 10_000 * number + day) / 100
            rows.append(["Amazon.de", f"302-{day:07}", f"{moment:%Y-%m-%dT%H:%M:%SZ}", "EUR", f"{price:,}", "0.00", f"{price:,}", "B0001", "1", "Closed", f"Ding {number}, groß", "Not Available"])  # fmt: skip
            total += price
    header = "Website,Order ID,Order Date,Currency,Unit Price,Unit Price Tax,Total Owed,ASIN,Quantity,Order Status,Product Name,Ship Date"
    write_table(folder / "Retail.OrderHistory.1.csv", header, rows)
    return len(rows), total


def write_linkedin(folder: Path, *, days: int) -> dict[str, Any]:
    connections, messages = [], []
    for day in range(0, days, 3):
        moment = START + timedelta(days=day)
        connections.append(["Ana", f"Ñ {day}", f"https://www.linkedin.com/in/ana{day}", "", "Firma, GmbH", "CEO", f"{moment:%d %b %Y}"])  # fmt: skip
        content = f"Day {day}\nZeile 2" if day % 2 else f"<p>Day {day}</p><p>Zeile 2</p>"
        messages.append([f"2-{day % 4}", "", "Ben", "https://www.linkedin.com/in/ben", "Ana", f"{moment:%Y-%m-%d %H:%M:%S} UTC", "", content, "INBOX"])  # fmt: skip
    note = 'Notes:\n"When exporting your connection data, you may notice, that..."\n\n'
    write_table(folder / "Connections.csv", "First Name,Last Name,URL,Email Address,Company,Position,Connected On", connections, before=note)  # fmt: skip
    header = (
        "CONVERSATION ID,CONVERSATION TITLE,FROM,SENDER PROFILE URL,TO,DATE,SUBJECT,CONTENT,FOLDER"
    )
    write_table(folder / "messages.csv", header, sorted(messages))
    header = "Company Name,Title,Description,Location,Started On,Finished On"
    jobs = [
        [f"Firma {n}", "Boss", "Did, things", "Köln", f"Mar {2000 + n}", ""]
        for n in range(days // 10)
    ]
    write_table(folder / "Positions.csv", header, jobs)
    return {
        "connections": len(connections),
        "texts": {f"Day {day}\nZeile 2" for day in range(0, days, 3)},
        "jobs": len(jobs),
    }
