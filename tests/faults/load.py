"""Programs that read and write without rest, and remember what they were told.

What they hold a server to: what it acknowledged is there, what it answered is in its ledger, and what
it refused it refused in the usual form, with a time to come again.
"""

import contextlib
import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import count

import httpx2
import psycopg

from tests.pdpp_site.living import Cast

BATCH = 20
BREATH_SECONDS = 0.02
PATIENCE_SECONDS = 120
WHERE = {"connector_id": "mail", "connection_id": "cin_personal"}


@dataclass
class Load:
    """One writer, one reader over REST and one agent over MCP, each with a connection of its own."""

    cast: Cast
    name: str
    body: str = "x" * 500
    acknowledged: set[str] = field(default_factory=set)
    answered: set[str] = field(default_factory=set)
    told: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    broken: int = 0
    complaints: list[str] = field(default_factory=list)
    _page: list[str] = field(default_factory=list)
    _ending: threading.Event = field(default_factory=threading.Event)
    _changed: threading.Condition = field(default_factory=threading.Condition)

    def progress(self, *, more: int = 3) -> None:
        """Until the writer, the reader and the agent have each got on by ``more`` answers."""
        written, read, told = len(self.acknowledged), len(self.answered), self.told
        self._until(
            lambda: (
                len(self.acknowledged) >= written + more * BATCH
                and len(self.answered) >= read + more
                and self.told >= told + more
            )
        )

    def refusals(self, code: str, *, more: int = 3) -> None:
        """Until ``more`` requests were refused with ``code``."""
        wanted = self.refused[code] + more
        self._until(lambda: self.refused[code] >= wanted)

    def _until(self, reached: Callable[[], bool]) -> None:
        with self._changed:
            assert self._changed.wait_for(
                lambda: reached() or bool(self.complaints), PATIENCE_SECONDS
            ), (len(self.acknowledged), len(self.answered), self.told, self.refused, self.broken)
        assert not self.complaints, self.complaints[:3]

    @contextlib.contextmanager
    def going_on(self) -> Iterator["Load"]:
        workers = [
            threading.Thread(target=self._again, args=[who, each])
            for who, each in (
                ("alice", self._write),
                ("bob", self._read),
                ("dora@mcp", self._ask),
            )
        ]
        for worker in workers:
            worker.start()
        try:
            yield self
        finally:
            self._ending.set()
            for worker in workers:
                worker.join()

    def _again(self, who: str, step: Callable[[httpx2.Client, int], None]) -> None:
        with self.cast.http(who) as http:
            for number in count():
                if self._ending.is_set():
                    return
                try:
                    step(http, number)
                except httpx2.TransportError:
                    self._note(lambda: setattr(self, "broken", self.broken + 1))
                    self._ending.wait(0.2)
                except Exception as error:  # noqa: BLE001 - a thread has nobody else to tell
                    self._note(partial(self.complaints.append, repr(error)))
                    return
                self._ending.wait(BREATH_SECONDS)

    def _write(self, http: httpx2.Client, number: int) -> None:
        keys = [f"{self.name}-{number}-{each}" for each in range(BATCH)]
        lines = [
            {
                "key": key,
                "data": {"id": key, "body_text": self.body},
                "emitted_at": "2026-11-01T00:00:00Z",
            }
            for key in keys
        ]
        content = "\n".join(json.dumps(line) for line in lines).encode()
        answer = http.post("/v1/ingest/messages", params=WHERE, content=content)
        if self._is_good(answer):
            assert answer.json()["records_accepted"] == BATCH, answer.text
            self._note(lambda: self.acknowledged.update(keys))

    def _read(self, http: httpx2.Client, number: int) -> None:
        page: dict[str, str | int] = {"connection_id": WHERE["connection_id"], "limit": 5}
        answer = http.get("/v1/streams/messages/records", params=page)
        if self._is_good(answer):
            ids = [each["id"] for each in answer.json()["data"]]
            self._page = self._page or ids
            assert ids == self._page, ids
            self._note(lambda: self.answered.add(answer.headers["Request-Id"]))

    def _ask(self, http: httpx2.Client, number: int) -> None:
        asked = {"stream": "messages", "connection_id": "cin_work"}
        answer = self.cast.call_tool(http, "query_records", **asked)
        if not self._is_good(answer):
            return
        result = answer.json()["result"]
        if result.get("isError"):
            self._note(lambda: self.refused.update([result["structuredContent"]["error"]["code"]]))
        else:
            assert "Budget review" in answer.text
            self._note(lambda: setattr(self, "told", self.told + 1))

    def _is_good(self, answer: httpx2.Response) -> bool:
        if answer.status_code == 200:
            return True
        assert answer.status_code == 503, (answer.status_code, answer.text)
        assert answer.headers["content-type"] == "application/json", answer.text
        assert int(answer.headers["retry-after"]) > 0
        code = answer.json()["error"]["code"]
        self._note(lambda: self.refused.update([code]))
        self._ending.wait(0.05)
        return False

    def _note(self, change: Callable[[], object]) -> None:
        with self._changed:
            change()
            self._changed.notify_all()


def hold_to_account(cast: Cast, *loads: Load) -> None:
    """Nothing acknowledged is lost, nothing was disclosed unrecorded, the ledger is whole."""
    with psycopg.connect(cast.database) as database:
        kept = {key for (key,) in database.execute("SELECT record_key FROM evidence_record")}
        rows = database.execute("SELECT request_id, route FROM evidence_disclosure").fetchall()
    recorded = {request_id for request_id, _ in rows}
    by_agents = sum(route.startswith("mcp ") for _, route in rows)
    for load in loads:
        assert not load.complaints, load.complaints[:3]
        assert load.acknowledged <= kept, "acknowledged, and lost"
        assert load.answered <= recorded, "disclosed, and not recorded"
    assert sum(load.told for load in loads) <= by_agents
    said = cast.installation.say("ledger", "verify")
    assert said.code == 0, said.out + said.err
