"""`pdpp collect` runs a connector, stores its records, and keeps its state only when all are stored."""

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

import httpx2
import pytest

from cli import http_client, session
from cli.commands import collect
from evidence.access.tokens import create_collector
from tests.cli.conftest import CommandResult, Shell
from tests.world import MAIL, NOW, PERSONAL, WORK, World

CONNECTOR = Path(__file__).with_name("connector.py")
SUCCEEDED = {"type": "DONE", "status": "succeeded"}


def record(key: str, **members: Any) -> str:
    data = {"id": key, "subject": f"Letter {key}"}
    envelope = {"type": "RECORD", "stream": "messages", "key": key, "data": data}
    return json.dumps(envelope | members)


@dataclass
class Collector:
    """Runs the connector over lines, for a mailbox of the world."""

    shell: Shell
    world: World
    folder: Path

    def __call__(self, *lines: str, options: tuple[str, ...] = ()) -> CommandResult:
        (self.folder / "lines").write_text("\n".join(lines))
        command = [sys.executable, str(CONNECTOR), str(self.folder / "lines")]
        return self.shell("collect", "mail.json", *options, "--", *command)

    def declare(self, **members: Any) -> None:
        (self.folder / "mail.json").write_text(json.dumps(MAIL | members))

    @property
    def state(self) -> Any:
        return self.world.get("/v1/state/mail", "alice", connection_id=WORK).body["state"]

    def stored(self, key: str) -> Any:
        path = f"/v1/streams/messages/records/{key}"
        return self.world.get(path, "alice", connection_id=WORK).body.get("data")


@pytest.fixture
def collector(
    pdpp: Shell, world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Collector:
    token = create_collector("Laptop", [WORK], now=NOW)
    monkeypatch.setenv("PDPP_COLLECTOR_TOKEN", token)
    monkeypatch.setattr(http_client.time, "sleep", lambda _seconds: None)
    collector = Collector(pdpp, world, tmp_path)
    collector.declare()
    return collector


def test_records_are_stored_and_the_second_run_has_nothing_new(collector: Collector) -> None:
    lines = [record("l1"), json.dumps({"type": "PROGRESS", "message": "half\x1b"}), record("l2")]

    first = collector(*lines)
    second = collector(*lines)

    assert (first.code, first.out) == (0, "2 records: 2 accepted, 2 created\n")
    assert "progress: half\\u001b\n" in first.err
    assert collector.stored("l2") == {"id": "l2", "subject": "Letter l2"}
    assert (second.code, second.out) == (0, "0 records\n")
    assert collector.state == {"messages": {"line": 3, "mode": "incremental"}}


def test_connection_is_named_where_a_collector_has_several(
    collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    both = create_collector("Both", [PERSONAL, WORK], now=NOW)
    monkeypatch.setenv("PDPP_COLLECTOR_TOKEN", both)

    ambiguous = collector(record("l1"))
    assert ambiguous.code == 65
    assert f"--connection {WORK}" in ambiguous.err

    assert collector(record("l1"), options=("--connection", WORK)).code == 0
    assert collector.stored("l1")
    assert collector.state


def test_what_a_connector_leaves_out_is_named(collector: Collector) -> None:
    skip = {"type": "SKIP_RESULT", "stream": "threads", "reason": "not_found", "message": "None"}

    assert "skip_result: threads not_found None" in collector(json.dumps(skip)).err
    skipped = collector(json.dumps(skip), options=("--full", "--json")).body["skipped"]
    assert skipped == [{"stream": "threads", "reason": "not_found", "message": "None"}]


@pytest.mark.parametrize(("limit", "sent"), [("BATCH_RECORDS", 2), ("BATCH_BYTES", 100)])
def test_records_are_sent_in_batches(
    collector: Collector, monkeypatch: pytest.MonkeyPatch, limit: str, sent: int
) -> None:
    monkeypatch.setattr(collect, limit, sent)

    collector(*(record(f"l{n}") for n in range(5)))

    bodies = [request.content for request in collector.shell.requests if request.method == "POST"]
    assert [len(body.splitlines()) for body in bodies] == [2, 2, 1]


def test_full_run_begins_without_state_and_changes_nothing(collector: Collector) -> None:
    collector(record("l1"))

    again = collector(record("l1"), options=("--full", "--json"))

    assert again.body["records_unchanged"] == again.body["records"] == 1
    assert again.body["state_stored"] == ["messages"]
    assert collector.state["messages"]["mode"] == "full_refresh"


@pytest.mark.parametrize(
    ("last", "message"),
    [
        ("DIE", "The connector ended without DONE."),
        ("no JSON", "no message: b'no JSON"),
        ("[]", "no message: b'[]"),
        (record("l9", stream="threads"), "a record of 'threads', which is not asked for"),
        (json.dumps({"type": "DONE", "status": "failed", "error": {"message": "Locked out"}}),
         "The connector failed: Locked out"),
        (json.dumps(SUCCEEDED | {"records_emitted": 7}), "counts 7 records and sent 1"),
        ("EXIT", "succeeded and exited with 3"),
    ],
)  # fmt: skip
def test_failed_run_keeps_records_and_not_the_state(
    collector: Collector, last: str, message: str
) -> None:
    state = json.dumps({"type": "STATE", "stream": "messages", "cursor": {"line": 1}})

    failed = collector(record("l1"), state, last, options=("--stream", "messages"))
    assert failed.code == 74
    assert message in failed.err
    assert collector.state == {}

    resumed = collector(record("l1"), record("l2"), options=("--json",))
    assert (resumed.code, resumed.body["records"]) == (0, 2)
    assert collector.stored("l1")
    assert collector.stored("l2")


def test_dead_connector_leaves_its_records(collector: Collector) -> None:
    collector(record("l1"), "DIE")

    assert collector.stored("l1")


def test_refused_record_is_named_and_holds_the_state_back(collector: Collector) -> None:
    wrong = record("l2", data={"id": "other"})

    refused = collector(record("l1"), wrong)
    assert refused.code == 65
    assert "refused: messages l2 invalid_record_identity The key does not match" in refused.err
    assert "rcp_" in refused.err
    assert collector.stored("l1")
    assert collector.state == {}

    accepted = collector(record("l1"), wrong, options=("--accept-refusals", "--json"))
    assert (accepted.code, accepted.body["records_rejected"]) == (0, 1)
    assert accepted.body["rejections"][0]["key"] == "l2"
    assert collector.state["messages"]["line"] == 2


def test_erased_record_does_not_hold_the_state_back(collector: Collector) -> None:
    collector(record("l1"))
    collector.world.call(
        "DELETE",
        "/v1/streams/messages/records/l1",
        "alice",
        connection_id=WORK,
        connector_id="mail",
    )

    again = collector(record("l1"), options=("--full", "--json"))

    assert (again.code, again.body["records_rejected"]) == (0, 1)
    assert again.body["state_stored"] == ["messages"]
    assert collector.stored("l1") is None


def test_server_that_does_not_account_for_each_record_is_not_believed(
    collector: Collector,
) -> None:
    working = collector.shell.send

    def send(request: httpx2.Request) -> httpx2.Response:
        if request.method == "POST":
            return httpx2.Response(200, json={"records_accepted": 1}, request=request)
        return working(request)

    collector.shell.send = send
    assert collector(record("l1"), record("l2")).code == 76
    collector.shell.send = working
    assert collector.state == {}


def cut_after(shell: Shell, requests: int) -> Callable[[httpx2.Request], httpx2.Response]:
    """Let a number of requests that write pass, then cut the network."""
    working, left = shell.send, [requests]

    def send(request: httpx2.Request) -> httpx2.Response:
        left[0] -= request.method != "GET"
        if left[0] < 0:
            raise httpx2.ConnectError("cable cut", request=request)
        return working(request)

    shell.send = send
    return working


@pytest.mark.parametrize("written", [0, 1, 2])
def test_cut_network_loses_nothing(
    collector: Collector, written: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collect, "BATCH_RECORDS", 1)
    working = cut_after(collector.shell, written)

    cut = collector(record("l1"), record("l2"))
    collector.shell.send = working
    assert cut.code == 69
    assert [bool(collector.stored(key)) for key in ("l1", "l2")] == [written > 0, written > 1]
    assert collector.state == {}

    resumed = collector(record("l1"), record("l2"), options=("--json",))
    assert (resumed.code, resumed.body["records_unchanged"]) == (0, written)
    assert collector.stored("l2")


def test_network_that_comes_back_is_not_noticed(collector: Collector) -> None:
    working, failures = collector.shell.send, [2]

    def send(request: httpx2.Request) -> httpx2.Response:
        failures[0] -= 1
        if failures[0] >= 0:
            raise httpx2.ConnectError("cable cut", request=request)
        return working(request)

    collector.shell.send = send

    assert collector(record("l1")).code == 0


def test_interrupt_ends_the_connector(
    collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collect, "BATCH_RECORDS", 1)
    started: list[Any] = []
    popen = collect.subprocess.Popen

    def start(*words: Any, **options: Any) -> Any:
        started.append(popen(*words, **options))
        return started[0]

    def interrupt(request: httpx2.Request) -> httpx2.Response:
        if request.method == "GET":
            return working(request)
        raise KeyboardInterrupt

    working, collector.shell.send = collector.shell.send, interrupt
    monkeypatch.setattr(collect.subprocess, "Popen", start)

    assert collector(record("l1"), "WAIT").code == 130
    assert started[0].returncode is not None
    collector.shell.send = working
    assert collector.state == {}


QUESTION = {
    "type": "INTERACTION",
    "request_id": "req_1",
    "kind": "credentials",
    "message": "Sign in",
    "schema": {
        "type": "object",
        "properties": {"email": {"type": "string"}, "note": {}},
        "required": ["email"],
    },
}


@pytest.mark.parametrize(
    ("typed", "members", "response"),
    [
        ("dora@example.org\n\n", {}, {"status": "success", "data": {"email": "dora@example.org"}}),
        ("123\n", {"kind": "otp", "schema": None}, {"status": "success", "data": {"code": "123"}}),
        ("\n", {"kind": "manual_action", "schema": None}, {"status": "success", "data": {}}),
        ("", {}, {"status": "cancelled"}),
    ],
)
def test_person_answers_the_connector(
    collector: Collector,
    monkeypatch: pytest.MonkeyPatch,
    typed: str,
    members: dict[str, Any],
    response: dict[str, Any],
) -> None:
    monkeypatch.setattr(session, "is_terminal", lambda: True)
    monkeypatch.setattr("sys.stdin", StringIO(typed))

    result = collector(f"ASK {json.dumps(QUESTION | members)}")

    assert result.code == 0
    assert "Sign in" in result.err
    answered = json.loads(collector.stored("answer")["subject"])
    assert answered == {"type": "INTERACTION_RESPONSE", "request_id": "req_1"} | response


def test_nobody_is_asked_without_a_terminal(collector: Collector) -> None:
    result = collector(f"ASK {json.dumps(QUESTION)}")

    assert "Nobody can be asked here" in result.err
    assert json.loads(collector.stored("answer")["subject"])["status"] == "cancelled"


def test_question_that_nobody_answers_times_out(
    collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Silence:
        def readline(self, *_size: int) -> str:
            collect.signal.pause()
            return ""

    monkeypatch.setattr(session, "is_terminal", lambda: True)
    monkeypatch.setattr("sys.stdin", Silence())

    collector(f"ASK {json.dumps(QUESTION | {'timeout_seconds': 0.05})}")

    assert json.loads(collector.stored("answer")["subject"])["status"] == "timeout"


def coverage(*got: str) -> str:
    keys = {"required_keys": ["a", "b"], "hydrated_keys": list(got)}
    message = {"type": "DETAIL_COVERAGE", "stream": "threads", "state_stream": "messages"}
    return json.dumps(message | {"reference_only": True} | keys)


@pytest.mark.parametrize(
    ("lines", "state_stored"),
    [([coverage("a", "b")], True), ([coverage("a")], False), ([], False)],
)
def test_missing_details_hold_the_state_back(
    collector: Collector, lines: list[str], state_stored: bool
) -> None:
    threads = MAIL["streams"][1] | {"parent_streams": ["messages"]}
    collector.declare(streams=[MAIL["streams"][0], threads])

    result = collector(record("l1"), *lines)

    assert result.code == 0
    assert ("state not stored: messages" in result.out) is not state_stored
    assert bool(collector.state) is state_stored


def test_connector_sees_no_token(collector: Collector, monkeypatch: pytest.MonkeyPatch) -> None:
    others = ("PDPP_ACCESS_TOKEN", "PDPP_MCP_TOKEN", "PDPP_OWNER_TOKEN")
    for name in others:
        monkeypatch.setenv(name, "secret")

    result = collector("ENVIRONMENT")

    assert " PATH " in result.err
    for name in ("PDPP_COLLECTOR_TOKEN", *others):
        assert name not in result.err


@pytest.mark.parametrize(
    ("members", "options", "message"),
    [
        ({"streams": []}, (), "streams of the manifest are: none"),
        ({"streams": "x"}, (), "mail.json is no manifest of a connector"),
        ({}, ("--stream", "calls"), "streams of the manifest are: messages, threads"),
        ({"runtime_requirements": {"bindings": {"browser_automation": {"required": True}}}}, (),
         "requires what this program lacks: browser_automation"),
    ],
)  # fmt: skip
def test_manifest_that_cannot_be_run_is_refused(
    collector: Collector, members: dict[str, Any], options: tuple[str, ...], message: str
) -> None:
    collector.declare(**members)

    result = collector(record("l1"), options=options)

    assert result.code == 64
    assert message in result.err
    assert collector.shell.requests == []


def test_command_that_cannot_be_started_is_named(collector: Collector) -> None:
    assert "/none cannot be started" in collector.shell("collect", "mail.json", "--", "/none").err
    assert "none.json cannot be read" in collector.shell("collect", "none.json", "--", "x").err


def test_token_of_a_collector_is_needed(
    collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PDPP_COLLECTOR_TOKEN", collector.world.tokens["alice"])
    assert collector(record("l1")).code == 77

    monkeypatch.delenv("PDPP_COLLECTOR_TOKEN")
    assert "PDPP_COLLECTOR_TOKEN is not set" in collector(record("l1")).err
    assert collector.shell.requests == []
