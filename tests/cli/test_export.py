"""`pdpp export` saves every record once and resumes after an interruption."""

import json
from pathlib import Path
from typing import Any

import httpx2
import pytest

from cli import http_client
from cli.commands import export
from tests.cli.conftest import Shell
from tests.world import World

RECORD_COUNT = 60


@pytest.fixture
def long_stream(pdpp: Shell, world: World, monkeypatch: pytest.MonkeyPatch) -> Shell:
    """Serve 63 transactions in pages of 25, without pauses between retries."""
    rows = [{"id": f"x{n:03}", "date": "2026-04-01", "amount": n} for n in range(RECORD_COUNT)]
    world.put(*(("cin_bank", "transactions", row) for row in rows))
    monkeypatch.setattr(export, "PAGE_SIZE", "25")
    monkeypatch.setattr(http_client.time, "sleep", lambda _seconds: None)
    return pdpp


def keys(path: Path) -> list[str]:
    return [json.loads(line)["id"] for line in path.read_text().splitlines()]


def full_export(shell: Shell, tmp_path: Path) -> bytes:
    shell("export", "transactions", "-o", "full.ndjson")
    return (tmp_path / "full.ndjson").read_bytes()


def failing_after(shell: Shell, requests: int, answer: httpx2.Response | None = None) -> Any:
    """Let `requests` record requests succeed, then fail. Returns the working transport."""
    working, left = shell.send, [requests]

    def send(request: httpx2.Request) -> httpx2.Response:
        if "/records" in request.url.path:
            left[0] -= 1
        if left[0] >= 0:
            return working(request)
        if answer is None:
            raise httpx2.ConnectError("cable cut", request=request)
        answer.request = request
        return answer

    shell.send = send
    return working


def test_export_contains_every_record_once(long_stream: Shell, tmp_path: Path) -> None:
    result = long_stream("export", "transactions")

    ids = keys(tmp_path / "transactions.ndjson")
    assert result.out == f"{RECORD_COUNT + 3} records in transactions.ndjson\n"
    assert len(ids) == len(set(ids)) == RECORD_COUNT + 3
    assert sorted(path.name for path in tmp_path.iterdir()) == ["transactions.ndjson"]


def test_export_includes_all_connections_and_sources(pdpp: Shell, tmp_path: Path) -> None:
    result = pdpp("export", "messages", "--json")

    assert result.body["records"] == 9
    lines = [json.loads(line) for line in (tmp_path / "messages.ndjson").read_text().splitlines()]
    assert {line["connection_id"] for line in lines} == {"cin_personal", "cin_work", "cin_chat"}


def test_interrupted_export_resumes_after_last_page(long_stream: Shell, tmp_path: Path) -> None:
    expected = full_export(long_stream, tmp_path)
    working = failing_after(long_stream, 2)

    interrupted = long_stream("export", "transactions")
    part = (tmp_path / "transactions.ndjson.part").read_bytes()
    long_stream.send, long_stream.requests[:] = working, []
    resumed = long_stream("export", "transactions")

    assert interrupted.code == 69
    assert "Run the same command again" in interrupted.err
    assert part
    assert expected.startswith(part)
    assert resumed.code == 0
    assert sum("/records" in str(request.url) for request in long_stream.requests) == 1
    assert (tmp_path / "transactions.ndjson").read_bytes() == expected


def test_partial_page_on_disk_is_written_again(long_stream: Shell, tmp_path: Path) -> None:
    expected = full_export(long_stream, tmp_path)
    working = failing_after(long_stream, 1)
    long_stream("export", "transactions")
    with (tmp_path / "transactions.ndjson.part").open("ab") as part:
        part.write(b'{"id": "half a li')
    long_stream.send = working

    long_stream("export", "transactions")

    assert (tmp_path / "transactions.ndjson").read_bytes() == expected


def test_export_retries_503_and_429(long_stream: Shell, tmp_path: Path) -> None:
    working, error_responses = (
        long_stream.send,
        [httpx2.Response(503, json={}), httpx2.Response(429, json={})],
    )

    def send(request: httpx2.Request) -> httpx2.Response:
        if error_responses and "cursor" in request.url.params:
            answer = error_responses.pop()
            answer.request = request
            return answer
        return working(request)

    long_stream.send = send

    assert long_stream("export", "transactions").code == 0
    assert len(keys(tmp_path / "transactions.ndjson")) == RECORD_COUNT + 3


def test_other_parameters_start_a_new_export(long_stream: Shell, tmp_path: Path) -> None:
    working = failing_after(long_stream, 1)
    long_stream("export", "transactions")
    long_stream.send = working

    result = long_stream("export", "transactions", "--filter", "amount>=410000", "--json")

    assert result.body["records"] == 2


def test_invalid_cursor_suggests_restart(long_stream: Shell, tmp_path: Path) -> None:
    error = {"error": {"code": "invalid_cursor", "message": "The cursor is too old."}}
    working = failing_after(long_stream, 1, httpx2.Response(400, json=error))

    result = long_stream("export", "transactions")
    long_stream.send = working
    resumed = long_stream("export", "transactions", "--restart")

    assert result.code == 65
    assert "--restart" in result.err
    assert resumed.code == 0


def test_existing_file_requires_replace(long_stream: Shell, tmp_path: Path) -> None:
    (tmp_path / "transactions.ndjson").write_text("mine")

    refused = long_stream("export", "transactions")
    content = (tmp_path / "transactions.ndjson").read_text()
    replaced = long_stream("export", "transactions", "--replace")

    assert (refused.code, content, replaced.code) == (73, "mine", 0)


def test_unwritable_output_is_reported(long_stream: Shell) -> None:
    result = long_stream("export", "transactions", "-o", "no/such/place.ndjson")

    assert result.code == 73
    assert "cannot be written" in result.err


def test_export_to_stdout_prints_only_records(long_stream: Shell) -> None:
    result = long_stream("export", "transactions", "-o", "-", "--fields", "id")

    assert len([json.loads(line) for line in result.out.splitlines()]) == RECORD_COUNT + 3


def test_missing_cursor_makes_the_export_incomplete(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PDPP_ACCESS_TOKEN", "at")
    monkeypatch.setenv("PDPP_PROVIDER_URL", "https://rs.example")
    body = {"object": "list", "has_more": True, "data": [{"id": "1"}]}
    shell.send = lambda request: httpx2.Response(200, json=body, request=request)

    result = shell("export", "messages")

    assert result.code == 73
    assert "--connection" in result.err


def test_records_added_during_export_are_reported(long_stream: Shell, world: World) -> None:
    working = long_stream.send

    def send(request: httpx2.Request) -> httpx2.Response:
        answer = working(request)
        if "count" in request.url.params:
            world.put(("cin_bank", "transactions", {"id": "z", "date": "2026-09-09", "amount": 1}))
        return answer

    long_stream.send = send

    result = long_stream("export", "transactions")

    assert result.out.startswith(f"{RECORD_COUNT + 4} records")
    assert f"it had {RECORD_COUNT + 3} records at the start" in result.err


def test_export_of_several_sources_says_so(pdpp: Shell) -> None:
    mixed = pdpp("export", "messages")
    single = pdpp("export", "messages", "--connection", "cin_chat", "--replace")

    assert "The records are of 2 sources with different fields: mail, workspace." in mixed.err
    assert "sources" not in single.err
    assert pdpp("export", "messages", "--replace", "--json").body["sources"] == [
        "mail",
        "workspace",
    ]
