"""Workouts of FIT files."""

import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from importers.authoring.test_kit import ImporterTests
from tests.importers.imports import latest, receipts, records, run
from tests.importers.test_demo_year import parse_time

FIT_EPOCH = 631_065_600
START = parse_time("2025-01-01T07:00:00Z")
AT = int(START.timestamp()) - FIT_EPOCH
FILE_ID = (0, [(0, "enum", 4), (1, "H", 1), (2, "H", 1551), (3, "I", 12345), (4, "I", AT)])


def fit(messages: Iterable[tuple[int, list[tuple[int, str, Any]]]]) -> bytes:
    """Return a FIT file of messages: a number, and (field, format of struct, value)."""
    types = {"B": 0x02, "H": 0x84, "I": 0x86, "b": 0x01, "i": 0x85}
    body = b""
    for number, fields in messages:
        body += struct.pack("<BBBHB", 0x40, 0, 0, number, len(fields))
        for field, kind, _ in fields:
            base = 0x00 if kind == "enum" else types[kind]
            body += bytes([field, 1 if kind == "enum" else struct.calcsize(kind), base])
        body += b"\0" + b"".join(
            struct.pack("<B" if kind == "enum" else f"<{kind}", value) for _, kind, value in fields
        )
    header = struct.pack("<BBHI4s", 14, 0x10, 2132, len(body), b".FIT")
    content = header + struct.pack("<H", _crc(header)) + body
    return content + struct.pack("<H", _crc(content))


def _crc(content: bytes) -> int:
    table = (0x0000, 0xCC01, 0xD801, 0x1400, 0xF001, 0x3C00, 0x2800, 0xE401,
             0xA001, 0x6C00, 0x7800, 0xB401, 0x5000, 0x9C01, 0x8801, 0x4400)  # fmt: skip
    crc = 0
    for byte in content:
        crc = ((crc >> 4) & 0x0FFF) ^ table[crc & 0xF] ^ table[byte & 0xF]
        crc = ((crc >> 4) & 0x0FFF) ^ table[crc & 0xF] ^ table[(byte >> 4) & 0xF]
    return crc


def session(at: int, *, sport: int = 1, seconds: float = 1_800, metres: float = 5_000) -> tuple:
    return (18, [(253, "I", at + int(seconds)), (2, "I", at), (5, "enum", sport),
                 (8, "I", int(seconds * 1_000)), (9, "I", int(metres * 100)), (11, "H", 321)])  # fmt: skip


def heartbeat(at: int, rate: int) -> tuple:
    return (20, [(253, "I", at), (3, "B", rate), (0, "i", 626_000_000), (1, "i", 160_000_000)])


@pytest.mark.slow
@pytest.mark.django_db
def test_year_of_workouts(tmp_path: Path) -> None:
    expected = []
    for day in range(0, 365, 5):
        at = AT + day * 86_400
        rates = [(at + second * 10, 120 + (day + second) % 60) for second in range(30)]
        expected += rates
        content = fit([FILE_ID, *(heartbeat(*each) for each in rates), session(at)])
        (tmp_path / f"{day}.fit").write_bytes(content)

    run(tmp_path)

    assert receipts() == set()
    workouts = records("workouts")
    assert len(workouts) == 73
    facts = ("sport", "duration_minutes", "distance", "energy")
    assert {tuple(each[name] for name in facts) for each in workouts} == {
        ("running", 30.0, 5_000.0, 321.0)
    }
    assert all(each["device"].startswith("garmin ") for each in workouts)
    assert sorted(
        (int(parse_time(each["started_at"]).timestamp()) - FIT_EPOCH, int(each["value"]))
        for each in records("measurements")
        if each["kind"] == "HeartRate"
    ) == sorted(expected)
    run(tmp_path)
    assert (latest().created, latest().updated) == (0, 0)


@pytest.mark.django_db
def test_damaged_and_other_fit_files_have_receipts(tmp_path: Path) -> None:
    whole = fit([FILE_ID, heartbeat(AT, 120), session(AT), heartbeat(AT + 1, 121)])
    (tmp_path / "cut.fit").write_bytes(whole[:-20])
    (tmp_path / "wrong.fit").write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    (tmp_path / "settings.fit").write_bytes(fit([FILE_ID]))

    run(tmp_path)

    assert {
        ("damaged", "cut.fit"),
        ("damaged", "wrong.fit"),
        ("not_supported", "settings.fit"),
    } == (receipts())
    assert len(records("workouts")) == 1


@pytest.mark.subprocess
class TestFit(ImporterTests):
    importer_name = "fit"

    @pytest.fixture(autouse=True)
    def _export(self, tmp_path_factory: pytest.TempPathFactory) -> None:
        self.export = tmp_path_factory.mktemp("export") / "run.fit"
        beats = [heartbeat(AT + second, 120 + second % 9) for second in range(60)]
        self.export.write_bytes(fit([FILE_ID, *beats, session(AT), session(AT + 9, sport=2)]))


del ImporterTests
