"""Forms of Telegram, Slack, location history and Health exports that change what an item means."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.importers.imports import one, run

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
