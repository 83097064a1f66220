"""The demo life: the same bytes every time, and every record as its declaration says."""

import hashlib
import json
import subprocess
import sys
from collections import Counter
from datetime import datetime

from jsonschema import Draft202012Validator

from demo import cast, life
from tests.demo import index

# Changes with every change of the life, on purpose: then say so in the commit.
SHA256 = "984855e5995c6336e8d94fa40cacd299488e081eb1356edc80fb539a7a323684"


def _digest() -> str:
    digest = hashlib.sha256()
    for line in life.records():
        digest.update(json.dumps(line, ensure_ascii=False, separators=(",", ":")).encode() + b"\n")
    return digest.hexdigest()


def test_the_life_is_the_same_bytes_on_every_machine() -> None:
    assert _digest() == SHA256


def test_another_process_with_other_hash_seeds_makes_the_same_life() -> None:
    program = "from tests.demo.test_records import _digest; print(_digest())"
    made = subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONHASHSEED": "4242", "TZ": "Pacific/Auckland", "LC_ALL": "C"},
        cwd=cast.HERE.parent,
        capture_output=True,
        text=True,
        check=True,
    )
    assert made.stdout.strip() == SHA256


def test_the_promised_count_is_the_count() -> None:
    assert sum(1 for _ in life.records()) == life.COUNT
    assert 18_000 <= life.COUNT <= 22_000


def test_every_record_satisfies_its_schema_and_names_no_other_field() -> None:
    checks = {
        key: (Draft202012Validator(stream["schema"]), set(stream["schema"]["properties"]))
        for key, stream in index.streams().items()
    }
    for line in life.records():
        check, fields = checks[line["connector_key"], line["stream"]]
        check.validate(line["data"])
        assert set(line["data"]) <= fields


def test_every_time_is_a_time() -> None:
    for line in life.records():
        datetime.fromisoformat(line["emitted_at"])
        stream = index.streams()[line["connector_key"], line["stream"]]
        for name, schema in stream["schema"]["properties"].items():
            if schema.get("format") in ("date", "date-time") and line["data"].get(name):
                datetime.fromisoformat(line["data"][name])


def test_a_key_names_one_record_and_equals_its_primary_key_field() -> None:
    seen = Counter()
    for line in life.records():
        (primary,) = index.streams()[line["connector_key"], line["stream"]]["primary_key"]
        assert line["data"][primary] == line["key"]
        assert 1 <= len(line["key"].encode()) <= 200
        seen[line["connection_id"], line["stream"], line["key"]] += 1
    assert max(seen.values()) == 1


def test_stream_names_collide_across_connections_and_across_declarations() -> None:
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


def test_every_relation_leads_to_a_record() -> None:
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


def test_the_text_of_the_life_can_be_stored() -> None:
    for line in life.records():
        text = json.dumps(line, ensure_ascii=False)
        assert "\\u0000" not in text
        text.encode()
