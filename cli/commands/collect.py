"""`pdpp collect MANIFEST -- COMMAND`: run a connector of the Collection Profile on this machine.

The connector is a child process that reads and writes JSON lines. Its records go to the server as they come.
Its state is stored only after the connector succeeded and the server has acknowledged every record, so a run
that breaks off is repeated from the last stored state, and the records that are there already stay as they are.

The connector gets no token, but it runs with the rights of its user: this is no sandbox.
"""

import contextlib
import json
import os
import secrets
import signal
import subprocess
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Annotated, Any, NoReturn, cast

import typer

from cli import errors, session
from cli.credentials import (
    ACCESS_TOKEN,
    COLLECTORS,
    MCP_TOKEN,
    OWNER_VARIABLES,
    reject_owner_token,
    stored_token,
)
from cli.errors import CliError, usage_error
from cli.http_client import Json, with_retries
from cli.output import escape_controls, one_line, print_message
from cli.session import Connection, Session, command, query_params
from evidence.record_ids import path_segment

COLLECTOR_TOKEN = "PDPP_COLLECTOR_TOKEN"  # noqa: S105 - the name of a variable
BINDINGS = ("filesystem", "network", "interactive", "loopback_listen")
"""What this program offers to connectors (Collection Profile, section 1)."""
BATCH_RECORDS = 500
BATCH_BYTES = 4 * 1024 * 1024
MAX_LINE_BYTES = 16 * 1024 * 1024
MAX_REFUSALS = 1_000
COUNTS = ("accepted", "created", "updated", "deleted", "unchanged", "rejected")
EXIT_SECONDS, STOP_SECONDS = 30.0, 5.0
PLAIN_QUESTIONS: Mapping[str, Mapping[str, Any]] = {
    "credentials": {"username": {}, "password": {"format": "password"}},
    "otp": {"code": {}},
}
"""Questions of an interaction without a schema, by its kind."""

MANIFEST = typer.Argument(metavar="MANIFEST", help="The manifest of the connector, a JSON file.")
COMMAND = typer.Argument(metavar="-- COMMAND...", help="The command that starts the connector.")
STREAM = typer.Option("--stream", metavar="NAME", help="Only this stream; repeatable.")
FULL = typer.Option("--full", help="Collect everything again instead of what is new.")
ACCEPT = typer.Option("--accept-refusals", help="Store the state although records were refused.")


@dataclass(frozen=True, slots=True)
class Manifest:
    """The members of a manifest that a run needs."""

    connector_id: str
    state_path: str
    streams: tuple[str, ...]
    parents: tuple[tuple[str, str], ...]
    """Streams whose details are accounted for in a `DETAIL_COVERAGE` for each parent stream."""


def read_manifest(path: Path, only: Sequence[str]) -> Manifest:
    """Return the manifest, for the streams in `only` or all. Raises CliError if it cannot be run."""
    try:
        content = json.loads(path.read_bytes())
        streams = {str(stream["name"]): stream for stream in content["streams"]}
        connector_id = str(content.get("connector_key") or content["connector_id"])
        bindings = content.get("runtime_requirements", {}).get("bindings", {}).items()
        missing = [n for n, need in bindings if need.get("required") and n not in BINDINGS]
    except OSError as error:
        raise usage_error(f"{path} cannot be read: {error.strerror}.", param="MANIFEST") from error
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise usage_error(f"{path} is no manifest of a connector.", param="MANIFEST") from error
    if not streams or not streams.keys() >= set(only):
        names = ", ".join(streams) or "none"
        raise usage_error(f"The streams of the manifest are: {names}.", param="--stream")
    if missing:
        raise usage_error(f"The connector requires what this program lacks: {', '.join(missing)}.")
    chosen = tuple(only) or tuple(streams)
    parents = [
        (name, str(parent)) for name in chosen for parent in streams[name].get("parent_streams", ())
    ]
    state_path = f"/v1/state/{path_segment(connector_id)}"
    return Manifest(connector_id, state_path, chosen, tuple(parents))


@dataclass(slots=True)
class Run:
    """What a connector has sent so far, and what became of it."""

    session: Session
    bearer: str
    manifest: Manifest
    connection_id: str | None
    batches: dict[str, list[tuple[Any, bytes]]] = field(default_factory=dict)
    """Keys and lines of the records that were not sent yet, by stream."""
    batch_bytes: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    refusals: list[Json] = field(default_factory=list)
    skips: list[Json] = field(default_factory=list)
    state: Json = field(default_factory=dict)
    gaps: set[tuple[str, str]] = field(default_factory=set)
    """Pairs of a stream and its parent, whose details were not all collected."""

    def record(self, message: Json) -> None:
        """Keep a record for the next batch, and send the batches when they are full."""
        stream = message.get("stream")
        if stream not in self.manifest.streams:
            fail(f"The connector sent a record of {str(stream)[:80]!r}, which is not asked for.")
        members = ("key", "data", "emitted_at", "op")
        line = json.dumps({name: message[name] for name in members if name in message}).encode()
        self.batches.setdefault(str(stream), []).append((message.get("key"), line))
        self.counts["records"] += 1
        self.batch_bytes += len(line)
        if self.counts["records"] % BATCH_RECORDS == 0 or self.batch_bytes >= BATCH_BYTES:
            self.flush()

    def flush(self) -> None:
        """Send the kept records. Raises CliError unless the server accounts for each of them."""
        for stream, batch in list(self.batches.items()):
            path, lines = f"/v1/ingest/{path_segment(stream)}", [line for _key, line in batch]
            receipt = self.send("POST", path, b"\n".join(lines), self.manifest.connector_id)
            counts = Counter({name: int(receipt.get(f"records_{name}") or 0) for name in COUNTS})
            if counts["accepted"] + counts["rejected"] != len(batch):
                message = f"The server accounts for {dict(counts)} of {len(batch)} records."
                raise CliError("unaccounted_records", message, exit_code=errors.PROTOCOL)
            self.counts.update(counts)
            for refusal in receipt.get("rejections") or ():
                self._refuse(stream, batch, refusal)
            del self.batches[stream]
        self.batch_bytes = 0

    def _refuse(self, stream: str, batch: Sequence[tuple[Any, bytes]], refusal: Json) -> None:
        index = refusal.get("input_index")
        key = batch[index][0] if isinstance(index, int) and index < len(batch) else None
        entry = {"stream": stream, "key": key} | refusal
        self.counts["suppressed"] += refusal.get("code") == "suppressed"  # the owner erased it
        if len(self.refusals) < MAX_REFUSALS:
            self.refusals.append(entry)
            names = ("stream", "key", "code", "message", "path", "receipt_id")
            texts = [one_line(entry[name]) for name in names if entry.get(name)]
            self.session.out.note(f"refused: {' '.join(texts)}")

    def coverage(self, message: Json) -> None:
        """Note whether all details were collected that a stream needs for its parent's state."""
        pair = (str(message.get("stream")), str(message.get("state_stream")))
        required, got = (message.get(name) or [] for name in ("required_keys", "hydrated_keys"))
        (self.gaps.discard if all(key in got for key in required) else self.gaps.add)(pair)

    def stored_state(self) -> Json:
        """Return the stored state by stream."""
        state = self.send("GET", self.manifest.state_path).get("state")
        return state if isinstance(state, dict) else {}

    def store_state(self) -> list[str]:
        """Store the state of the streams that are complete, and return their names."""
        withheld = {parent for _stream, parent in self.gaps}
        complete = {name: cursor for name, cursor in self.state.items() if name not in withheld}
        if complete:
            self.send("PUT", self.manifest.state_path, json.dumps({"state": complete}).encode())
        return sorted(complete)

    def send(
        self, method: str, path: str, content: bytes | None = None, connector: str | None = None
    ) -> Json:
        """Send a request for the connection, again while the server cannot be reached."""
        # The contract's names of both parameters, which other servers know too.
        kind = "application/x-ndjson" if method == "POST" else "application/json"
        params = query_params(connector_id=connector, connector_instance_id=self.connection_id)
        try:
            return with_retries(
                lambda: self.session.api.send(
                    method, path, params, bearer=self.bearer, content=content, content_type=kind
                )
            )
        except CliError as error:
            if error.exit_code == errors.NOT_CONNECTED:
                error.next_step = _sign_in(self.session)
            raise


class Connector:
    """A running connector."""

    def __init__(self, words: Sequence[str]) -> None:
        # A connector needs no credential, and START carries none.
        hidden = {ACCESS_TOKEN, MCP_TOKEN, COLLECTOR_TOKEN, *OWNER_VARIABLES}
        environment = {name: os.environ[name] for name in os.environ if name not in hidden}
        try:
            self._process = subprocess.Popen(
                list(words),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=environment,
                start_new_session=True,
            )
        except OSError as error:
            raise usage_error(f"{words[0]} cannot be started: {error.strerror}.") from error
        self._stdin, self._stdout = cast(
            "tuple[IO[bytes], IO[bytes]]", (self._process.stdin, self._process.stdout)
        )

    def send(self, message: Json) -> None:
        """Send a message. A connector that has died is noticed when its output ends."""
        with contextlib.suppress(BrokenPipeError):
            self._stdin.write(json.dumps(message).encode() + b"\n")
            self._stdin.flush()

    def messages(self) -> Iterator[Json]:
        """Yield messages until the output ends. Raises CliError for a line that is none."""
        while line := self._stdout.readline(MAX_LINE_BYTES):
            if not line.strip():
                continue
            try:
                message = json.loads(line)
            except ValueError:
                message = None
            if not isinstance(message, dict):
                fail(f"The connector sent a line that is no message: {line[:80]!r}.")
            yield message

    def end(self) -> int:
        """Tell the connector that all was received, and return its exit code."""
        self._stdin.close()
        try:
            return self._process.wait(EXIT_SECONDS)
        except subprocess.TimeoutExpired:
            fail("The connector did not exit after DONE.")

    def stop(self) -> None:
        """Stop the connector and the processes that it started."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(STOP_SECONDS)
                break
        for pipe in (self._stdin, self._stdout):
            with contextlib.suppress(BrokenPipeError):
                pipe.close()


def fail(message: str) -> NoReturn:
    """Raise the error of a run whose records stay and whose state is not stored."""
    raise CliError(
        "connector_failed",
        message,
        exit_code=errors.CONNECTOR_FAILED,
        next_step="Run it again: its records are stored, its state is not.",
    )


def answer(message: Json) -> Json:
    """Return the response to an INTERACTION, from the person at the terminal if there is one."""
    response = {"type": "INTERACTION_RESPONSE", "request_id": message.get("request_id")}
    print_message(escape_controls(f"The connector asks: {message.get('message') or ''}"))
    if not session.is_terminal():
        print_message("Nobody can be asked here: run pdpp collect in a terminal.")
        return response | {"status": "cancelled"}
    schema = message.get("schema") or {}
    questions = schema.get("properties") or PLAIN_QUESTIONS.get(str(message.get("kind")), {})
    required = schema.get("required", list(questions))
    try:
        with _time_limit(message.get("timeout_seconds")):
            data = {name: _ask(name, questions[name], required) for name in questions}
            if not questions:
                typer.prompt("Press Enter when it is done", "", show_default=False, err=True)
    except TimeoutError:
        return response | {"status": "timeout"}
    except typer.Abort:
        return response | {"status": "cancelled"}
    return response | {"status": "success", "data": {n: v for n, v in data.items() if v != ""}}


def _ask(name: str, schema: Any, required: Sequence[str]) -> str:
    members = schema if isinstance(schema, dict) else {}
    label = one_line(members.get("title") or members.get("description") or name)
    hidden = members.get("format") == "password"
    default = None if name in required else ""
    return str(typer.prompt(label, default, hide_input=hidden, show_default=False, err=True))


@contextlib.contextmanager
def _time_limit(seconds: object) -> Iterator[None]:
    def expire(*_signal: object) -> NoReturn:
        raise TimeoutError

    previous = signal.signal(signal.SIGALRM, expire)
    signal.setitimer(signal.ITIMER_REAL, seconds if isinstance(seconds, int | float) else 0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)


def run_connector(
    session: Session,
    manifest: Annotated[Path, MANIFEST],
    words: Annotated[list[str], COMMAND],
    *,
    connection: Connection = None,
    stream: Annotated[list[str] | None, STREAM] = None,
    full: Annotated[bool, FULL] = False,
    accept_refusals: Annotated[bool, ACCEPT] = False,
) -> None:
    """Run a connector and store what it collects.

    The token is PDPP_COLLECTOR_TOKEN, otherwise that of pdpp collect login.
    """
    plan = read_manifest(manifest, stream or ())
    run = Run(session, _collector_token(session), plan, connection, gaps=set(plan.parents))
    state = {} if full else run.stored_state()
    start: Json = {
        "type": "START",
        "run_id": f"run_{secrets.token_hex(12)}",
        "collection_mode": "incremental" if state else "full_refresh",
        "scope": {"streams": [{"name": name} for name in plan.streams]},
        "state": state or None,
        "bindings": {name: {} for name in BINDINGS},
    }
    connector = Connector(words)
    try:
        connector.send(start)
        done = _follow(run, connector)
        run.flush()
        _check_end(done, run.counts["records"], connector.end())
    finally:
        connector.stop()
    missing = 0 if accept_refusals else run.counts["rejected"] - run.counts["suppressed"]
    _report(run, [] if missing else run.store_state())
    if missing:
        raise CliError(
            "records_refused",
            f"{missing} records were refused. The state was not stored, so all come again.",
            exit_code=errors.REFUSED,
            next_step="Mend what the receipts name, or pass --accept-refusals.",
        )


collect = command(run_connector, folder=COLLECTORS)


def _collector_token(session: Session) -> str:
    if token := os.environ.get(COLLECTOR_TOKEN, "").strip():
        return reject_owner_token(token, location=COLLECTOR_TOKEN)
    url, cache = session.api.url, session.credentials.cache
    if not (token := stored_token(cache.read(url) or {})):
        raise CliError(
            "not_connected",
            f"{COLLECTOR_TOKEN} is not set, and nobody signed in at {url}.",
            exit_code=errors.NOT_CONNECTED,
            next_step=_sign_in(session),
        )
    return reject_owner_token(token, location=str(cache.path(url)))


def _sign_in(session: Session) -> str:
    return f"{session.credentials.cache.sign_in} {session.api.url}"


def _follow(run: Run, connector: Connector) -> Json:
    """Process messages until DONE, and return it. Raises CliError if the output ends before."""
    for message in connector.messages():
        match message.get("type"):
            case "RECORD":
                run.record(message)
            case "STATE":
                run.state[str(message.get("stream"))] = message.get("cursor")
            case "INTERACTION":
                connector.send(answer(message))
            case "DETAIL_COVERAGE":
                run.coverage(message)
            case "DONE":
                return message
            case other:
                names = ("stream", "reason", "record_key", "message")
                if other == "SKIP_RESULT":
                    run.skips.append({name: message[name] for name in names if name in message})
                texts = [one_line(message[name]) for name in names if message.get(name)]
                run.session.out.note(f"{one_line(other).lower()}: {' '.join(texts)}")
    run.flush()
    fail("The connector ended without DONE.")


def _check_end(done: Json, emitted: int, exit_code: int) -> None:
    """Raise CliError unless the connector succeeded (Collection Profile, DONE)."""
    if done.get("status") != "succeeded":
        error = done.get("error")
        reason = error.get("message") if isinstance(error, dict) else None
        fail(f"The connector {done.get('status')}: {reason or 'no reason given'}")
    if done.get("records_emitted") != emitted:
        fail(f"The connector counts {done.get('records_emitted')} records and sent {emitted}.")
    if exit_code:
        fail(f"The connector succeeded and exited with {exit_code}.")


def _report(run: Run, stored: Sequence[str]) -> None:
    withheld = sorted(set(run.state) - set(stored))
    body = {
        "object": "collection_run",
        "records": run.counts["records"],
        **{f"records_{name}": run.counts[name] for name in COUNTS},
        "rejections": run.refusals,
        "skipped": run.skips,
        "state_stored": list(stored),
        "state_not_stored": withheld,
    }
    counts = [f"{run.counts[name]} {name}" for name in COUNTS if run.counts[name]]
    lines = [f"{run.counts['records']} records" + (f": {', '.join(counts)}" if counts else "")]
    if withheld:
        lines.append(f"state not stored: {', '.join(withheld)}")
    run.session.out.result(body, lines)
