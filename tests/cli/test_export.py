"""`pdpp export`: everything once, complete by paging, resumable after an interruption."""

import json
from pathlib import Path
from typing import Any

import httpx2
import pytest

from cli import http_client
from cli.commands import export
from tests.cli.conftest import Shell
from tests.world import World

MANY = 60


@pytest.fixture
def long(pdpp: Shell, world: World, monkeypatch: pytest.MonkeyPatch) -> Shell:
    """Many transactions, pages of 25, and nobody waits between two tries."""
    rows = [{"id": f"x{n:03}", "date": "2026-04-01", "amount": n} for n in range(MANY)]
    world.put(*(("cin_bank", "transactions", row) for row in rows))
    monkeypatch.setattr(export, "PAGE", "25")
    monkeypatch.setattr(http_client.time, "sleep", lambda _seconds: None)
    return pdpp


def keys(path: Path) -> list[str]:
    return [json.loads(line)["id"] for line in path.read_text().splitlines()]


def whole(shell: Shell, tmp_path: Path) -> bytes:
    shell("export", "transactions", "-o", "whole.ndjson")
    return (tmp_path / "whole.ndjson").read_bytes()


def failing_after(shell: Shell, requests: int, answer: httpx2.Response | None = None) -> Any:
    """The server works that often and then does not."""
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


def test_every_record_is_in_the_file_once(long: Shell, tmp_path: Path) -> None:
    said = long("export", "transactions")

    found = keys(tmp_path / "transactions.ndjson")
    assert said.out == f"{MANY + 3} records in transactions.ndjson\n"
    assert len(found) == len(set(found)) == MANY + 3
    assert sorted(path.name for path in tmp_path.iterdir()) == ["transactions.ndjson"]


def test_a_stream_of_several_connections_and_sources_is_taken_whole(
    pdpp: Shell, tmp_path: Path
) -> None:
    said = pdpp("export", "messages", "--json")

    assert said.body["records"] == 9
    lines = [json.loads(line) for line in (tmp_path / "messages.ndjson").read_text().splitlines()]
    assert {line["connection_id"] for line in lines} == {"cin_personal", "cin_work", "cin_chat"}


def test_an_interrupted_export_goes_on_where_it_stopped(long: Shell, tmp_path: Path) -> None:
    expected = whole(long, tmp_path)
    working = failing_after(long, 2)

    cut = long("export", "transactions")
    part = (tmp_path / "transactions.ndjson.part").read_bytes()
    long.send, long.asked[:] = working, []
    again = long("export", "transactions")

    assert cut.code == 69
    assert "Run the same command again" in cut.err
    assert part
    assert expected.startswith(part)
    assert again.code == 0
    assert sum("/records" in str(asked.url) for asked in long.asked) == 1
    assert (tmp_path / "transactions.ndjson").read_bytes() == expected


def test_half_a_page_that_reached_the_disk_is_written_again(long: Shell, tmp_path: Path) -> None:
    expected = whole(long, tmp_path)
    working = failing_after(long, 1)
    long("export", "transactions")
    with (tmp_path / "transactions.ndjson.part").open("ab") as part:
        part.write(b'{"id": "half a li')
    long.send = working

    long("export", "transactions")

    assert (tmp_path / "transactions.ndjson").read_bytes() == expected


def test_a_passing_fault_is_asked_about_again(long: Shell, tmp_path: Path) -> None:
    working, faults = long.send, [httpx2.Response(503, json={}), httpx2.Response(429, json={})]

    def send(request: httpx2.Request) -> httpx2.Response:
        if faults and "cursor" in request.url.params:
            answer = faults.pop()
            answer.request = request
            return answer
        return working(request)

    long.send = send

    assert long("export", "transactions").code == 0
    assert len(keys(tmp_path / "transactions.ndjson")) == MANY + 3


def test_other_parameters_are_another_export(long: Shell, tmp_path: Path) -> None:
    working = failing_after(long, 1)
    long("export", "transactions")
    long.send = working

    said = long("export", "transactions", "--filter", "amount>=410000", "--json")

    assert said.body["records"] == 2


def test_a_cursor_that_is_gone_says_to_begin_anew(long: Shell, tmp_path: Path) -> None:
    error = {"error": {"code": "invalid_cursor", "message": "The cursor is too old."}}
    working = failing_after(long, 1, httpx2.Response(400, json=error))

    said = long("export", "transactions")
    long.send = working
    again = long("export", "transactions", "--restart")

    assert said.code == 65
    assert "--restart" in said.err
    assert again.code == 0


def test_a_file_is_not_overwritten_unasked(long: Shell, tmp_path: Path) -> None:
    (tmp_path / "transactions.ndjson").write_text("mine")

    refused = long("export", "transactions")
    kept = (tmp_path / "transactions.ndjson").read_text()
    replaced = long("export", "transactions", "--replace")

    assert (refused.code, kept, replaced.code) == (73, "mine", 0)


def test_a_place_that_cannot_be_written_is_said(long: Shell) -> None:
    said = long("export", "transactions", "-o", "no/such/place.ndjson")

    assert said.code == 73
    assert "cannot be written" in said.err


def test_a_pipe_gets_records_alone(long: Shell) -> None:
    said = long("export", "transactions", "-o", "-", "--fields", "id")

    assert len([json.loads(line) for line in said.out.splitlines()]) == MANY + 3


def test_a_server_that_cannot_page_is_not_taken_for_complete(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PDPP_ACCESS_TOKEN", "at")
    monkeypatch.setenv("PDPP_PROVIDER_URL", "https://rs.example")
    body = {"object": "list", "has_more": True, "data": [{"id": "1"}]}
    shell.send = lambda request: httpx2.Response(200, json=body, request=request)

    said = shell("export", "messages")

    assert said.code == 73
    assert "--connection" in said.err


def test_records_that_arrive_meanwhile_are_owned_up_to(long: Shell, world: World) -> None:
    working = long.send

    def send(request: httpx2.Request) -> httpx2.Response:
        answer = working(request)
        if "count" in request.url.params:
            world.put(("cin_bank", "transactions", {"id": "z", "date": "2026-09-09", "amount": 1}))
        return answer

    long.send = send

    said = long("export", "transactions")

    assert said.out.startswith(f"{MANY + 4} records")
    assert f"it had {MANY + 3} records at the beginning" in said.err
