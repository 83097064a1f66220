"""Forms of Telegram, Slack, location history and Health exports that change what an item means."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.importers.imports import one, records, run

pytestmark = pytest.mark.django_db


def write(path: Path, value: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(value if isinstance(value, str) else json.dumps(value))
    return path


@pytest.mark.parametrize(
    ("members", "text"),
    [
        ({"text": ["see ", {"type": "text_link", "text": "here", "href": "https://x.example/1"}]},
         "see here (https://x.example/1)"),
        ({"text": [{"type": "link", "text": "https://x.example/1"}]}, "https://x.example/1"),
        ({"text": "hi", "forwarded_from": "Bob"}, "Forwarded from Bob:\nhi"),
    ],
)  # fmt: skip
def test_message_of_telegram(tmp_path: Path, members: dict[str, Any], text: str) -> None:
    message = {"id": 1, "type": "message", "date_unixtime": "1768311000", "from": "Eva", **members}
    chat = {"name": "Eva", "type": "personal_chat", "id": 7, "messages": [message]}
    run(write(tmp_path / "result.json", chat))

    assert one("messages")["text"] == text


@pytest.mark.parametrize(
    ("written", "text"),
    [
        ("on <!date^1768311000^{date}|13 January>", "on 13 January"),
        ("<!subteam^S1|@team> and <!here>", "@team and @here"),
        (
            "<#C1|general> <https://x.example|page> &lt;b&gt;",
            "#general page (https://x.example) <b>",
        ),
    ],
)
def test_references_of_slack(tmp_path: Path, written: str, text: str) -> None:
    write(tmp_path / "s/users.json", [{"id": "U1", "name": "eva"}])
    write(tmp_path / "s/channels.json", [{"id": "C1", "name": "general", "members": ["U1"]}])
    message = {"type": "message", "ts": "1768311000.000100", "user": "U1", "text": written}
    write(tmp_path / "s/general/2026-01-13.json", [message])

    run(tmp_path / "s")

    assert one("messages")["text"] == text


@pytest.mark.parametrize(
    ("longitude", "expected"),
    [
        (134_000_000, 13.4),
        (-740_000_000, -74.0),
        (2**32 - 740_000_000, -74.0),
        (2_000_000_000, None),
    ],
)
def test_degrees_without_a_sign(tmp_path: Path, longitude: int, expected: float | None) -> None:
    point = {"latitudeE7": 1, "longitudeE7": longitude, "timestamp": "2026-01-13T14:30:00Z"}
    run(write(tmp_path / "Records.json", {"locations": [point]}))

    assert one("points")["longitude"] == expected


@pytest.mark.parametrize(
    ("duration", "unit", "minutes"),
    [("30.5", "min", 30.5), ("1830", "sec", 30.5), ("0.5", "hr", 30), ("3", "fortnight", None)],
)
def test_duration_of_a_workout(
    tmp_path: Path, duration: str, unit: str, minutes: float | None
) -> None:
    run(write(tmp_path / "export.xml", (
        '<HealthData><Workout workoutActivityType="HKWorkoutActivityTypeRunning" sourceName="W"'
        f' duration="{duration}" durationUnit="{unit}" startDate="2026-01-13 14:30:00 +0100"'
        ' endDate="2026-01-13 15:00:30 +0100"/></HealthData>'
    )))  # fmt: skip

    assert records("workouts")[0]["duration_minutes"] == minutes
