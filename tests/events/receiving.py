"""A receiver that listens on this machine, and the server's own work, a round at a time."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from django.db import connection
from django.test import Client as HttpClient
from django.utils import timezone
from standardwebhooks import Webhook

from evidence.events.event_scheduler import announce
from evidence.events.tasks import attempt
from tests.world import Answer, World


@dataclass(frozen=True, slots=True)
class Received:
    """One request that has arrived."""

    path: str
    headers: dict[str, str]
    content: bytes

    @property
    def envelope(self) -> dict[str, Any]:
        body: dict[str, Any] = json.loads(self.content)
        return body

    @property
    def type(self) -> str:
        return str(self.envelope["type"])

    @property
    def data(self) -> dict[str, Any]:
        data: dict[str, Any] = self.envelope["data"]
        return data

    def verified(self, secret: str) -> Any:
        """The body as the library of Standard Webhooks lets it through; raises where it does not."""
        return Webhook(secret).verify(self.content, self.headers)


@dataclass
class Receiver:
    """Echoes challenges and answers everything else with ``status`` and ``headers``, once it is
    ``willing``."""

    url: str
    received: list[Received] = field(default_factory=list)
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    echoes: bool = True
    willing: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self.willing.set()

    def of(self, kind: str) -> list[Received]:
        return [each for each in self.received if each.type == kind]

    @property
    def changes(self) -> list[dict[str, Any]]:
        """The data of each event of changes, in the order in which they came."""
        return [each.data for each in self.of("pdpp.records.changed")]

    def answer(self, message: Received) -> tuple[int, bytes]:
        self.received.append(message)
        if message.type == "pdpp.subscription.verify" and self.echoes:
            return 200, json.dumps({"challenge": message.data["challenge"]}).encode()
        self.willing.wait()
        return self.status, b"{}"


@contextmanager
def receiving() -> Iterator[Receiver]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            content = self.rfile.read(int(self.headers["content-length"]))
            headers = {name.lower(): value for name, value in self.headers.items()}
            status, body = receiver.answer(Received(self.path, headers, content))
            self.send_response(status)
            for name, value in receiver.headers.items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(body)))
            # A server that was killed meanwhile does not hear it.
            with suppress(ConnectionError):
                self.end_headers()
                self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    receiver = Receiver(f"http://127.0.0.1:{server.server_address[1]}/hook")
    thread.start()
    try:
        yield receiver
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def ask(world: World, method: str, path: str, who: str = "bob", **body: Any) -> Answer:
    """A request with a JSON body."""
    response = HttpClient(headers={"Authorization": f"Bearer {world.tokens[who]}"}).generic(
        method, path, data=json.dumps(body), content_type="application/json"
    )
    said = json.loads(response.content) if response.content else None
    return Answer(response.status_code, said, dict(response.headers))


SUBSCRIPTIONS = "/v1/event-subscriptions"


def subscribed(world: World, receiver: Receiver, who: str = "bob", **body: Any) -> tuple[str, str]:
    """An active subscription: its path and its secret."""
    made = ask(world, "POST", SUBSCRIPTIONS, who, callback_url=receiver.url, **body)
    assert made.status == 201, made.body
    work()
    path = f"{SUBSCRIPTIONS}/{made.body['subscription_id']}"
    assert world.get(path, who).body["status"] == "active"
    return path, made.body["secret"]


def enqueued() -> list[str]:
    """The ids of events that workers have been asked to deliver, and are not any more."""
    with connection.cursor() as cursor:
        cursor.execute(
            "WITH gone AS (DELETE FROM procrastinate_jobs WHERE status = 'todo' RETURNING id, args)"
            " SELECT args->>'event_id' FROM gone ORDER BY id"
        )
        return [event_id for (event_id,) in cursor.fetchall()]


def look(now: datetime | None = None) -> list[str]:
    """One round of finding out what there is to tell; the events that are due."""
    moment = now or timezone.now()
    list(announce(clock=lambda: moment))
    return enqueued()


def work(now: datetime | None = None) -> None:
    """One round of finding out and delivering."""
    moment = now or timezone.now()
    for event_id in look(moment):
        attempt(event_id, clock=lambda: moment)
