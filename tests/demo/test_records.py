"""Demo records are deterministic and valid."""

import hashlib
import json
import subprocess
import sys
from collections import Counter
from datetime import datetime

import pytest
from jsonschema import Draft202012Validator

from demo import life, people
from tests.demo import index

pytestmark = pytest.mark.slow


def _digest() -> str:
    digest = hashlib.sha256()
    for line in life.records():
        digest.update(json.dumps(line, ensure_ascii=False, separators=(",", ":")).encode() + b"\n")
    return digest.hexdigest()


def test_records_do_not_depend_on_hash_seed_or_time_zone() -> None:
    program = "from tests.demo.test_records import _digest; print(_digest())"
    process = subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONHASHSEED": "4242", "TZ": "Pacific/Auckland", "LC_ALL": "C"},
        cwd=people.HERE.parent,
        capture_output=True,
        text=True,
        check=True,
    )
    assert process.stdout.strip() == _digest()


def test_record_count_is_correct() -> None:
    assert sum(1 for _ in life.records()) == life.RECORD_COUNT
    assert 18_000 <= life.RECORD_COUNT <= 22_000


def test_every_record_is_valid_and_has_no_undeclared_field() -> None:
    checks = {
        key: (Draft202012Validator(stream["schema"]), set(stream["schema"]["properties"]))
        for key, stream in index.streams().items()
    }
    for line in life.records():
        check, fields = checks[line["connector_key"], line["stream"]]
        check.validate(line["data"])
        assert set(line["data"]) <= fields


def test_every_time_parses() -> None:
    for line in life.records():
        datetime.fromisoformat(line["emitted_at"])
        stream = index.streams()[line["connector_key"], line["stream"]]
        for name, schema in stream["schema"]["properties"].items():
            if schema.get("format") in ("date", "date-time") and line["data"].get(name):
                datetime.fromisoformat(line["data"][name])


def test_keys_are_unique_and_equal_the_primary_key_field() -> None:
    seen = Counter()
    for line in life.records():
        (primary,) = index.streams()[line["connector_key"], line["stream"]]["primary_key"]
        assert line["data"][primary] == line["key"]
        assert 1 <= len(line["key"].encode()) <= 200
        seen[line["connection_id"], line["stream"], line["key"]] += 1
    assert max(seen.values()) == 1


def test_streams_of_two_sources_share_a_name() -> None:
    owners = {
        (line["connector_key"], line["connection_id"])
        for line in life.records()
        if line["stream"] == "messages"
    }
    assert sorted(owners) == [
        ("chat", "cin_demo_chat_friends"),
        ("chat", "cin_demo_chat_work"),
        ("mailbox", "cin_demo_mail_personal"),
        ("mailbox", "cin_demo_mail_work"),
    ]


def test_every_relation_refers_to_a_record() -> None:
    lines = index.records()
    for connection, stream, _ in lines:
        line = lines[connection, stream, _]["data"]
        if stream == "attachments":
            assert (connection, "messages", line["message_id"]) in lines
        if stream == "messages" and "channel_id" in line:
            assert (connection, "channels", line["channel_id"]) in lines
        if stream == "transactions":
            assert (connection, "accounts", line["account_id"]) in lines


def test_every_stream_of_every_connection_has_records() -> None:
    filled = {(connection, stream) for connection, stream, _ in index.records()}
    declared = {
        (connection["connection_id"], stream)
        for connection in life.connections()
        for key, stream in index.streams()
        if key == connection["connector_key"]
    }
    assert filled == declared


def test_records_contain_no_unstorable_text() -> None:
    for line in life.records():
        text = json.dumps(line, ensure_ascii=False)
        assert "\\u0000" not in text
        text.encode()
