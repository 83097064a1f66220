"""A local webhook receiver, and helpers that run the scheduler and deliveries synchronously."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from django.test import Client as HttpClient
from django.utils import timezone
from standardwebhooks import Webhook

from evidence.events.event_scheduler import SENDABLE, attempt_delivery, create_events
from evidence.models.events import Event
from tests.world import Answer, World


@dataclass(frozen=True, slots=True)
class Received:
    """One request that the receiver got."""

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
        """Return the body after verifying its Standard Webhooks signature."""
        return Webhook(secret).verify(self.content, self.headers)


@dataclass
class Receiver:
    """Echoes challenges, and responds to other events with `status` and `headers` once `willing` is set."""

    url: str
    received: list[Received] = field(default_factory=list)
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    echoes: bool = True
    willing: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self.willing.set()

    def of(self, kind: str) -> list[Received]:
        return [request for request in self.received if request.type == kind]

    @property
    def changes(self) -> list[dict[str, Any]]:
        """The data of the change events, in order of arrival."""
        return [request.data for request in self.of("pdpp.records.changed")]

    def answer(self, message: Received) -> tuple[int, bytes]:
        self.received.append(message)
        if message.type == "pdpp.subscription.verify" and self.echoes:
            return 200, json.dumps({"challenge": message.data["challenge"]}).encode()
        self.willing.wait()
        return self.status, b"{}"


@contextmanager
def running_receiver() -> Iterator[Receiver]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            content = self.rfile.read(int(self.headers["content-length"]))
            headers = {name.lower(): value for name, value in self.headers.items()}
            status, body = receiver.answer(Received(self.path, headers, content))
            self.send_response(status)
            for name, value in receiver.headers.items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(body)))
            # The server under test may have been killed meanwhile.
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


def send_json(world: World, method: str, path: str, who: str = "bob", **body: Any) -> Answer:
    """Send a request with a JSON body."""
    response = HttpClient(headers={"Authorization": f"Bearer {world.tokens[who]}"}).generic(
        method, path, data=json.dumps(body), content_type="application/json"
    )
    content_json = json.loads(response.content) if response.content else None
    return Answer(response.status_code, content_json, dict(response.headers))


SUBSCRIPTIONS = "/v1/event-subscriptions"


def create_active_subscription(
    world: World, receiver: Receiver, who: str = "bob", **body: Any
) -> tuple[str, str]:
    """Create and verify a subscription, and return its path and secret."""
    created = send_json(world, "POST", SUBSCRIPTIONS, who, callback_url=receiver.url, **body)
    assert created.status == 201, created.body
    deliver_round()
    path = f"{SUBSCRIPTIONS}/{created.body['subscription_id']}"
    assert world.get(path, who).body["status"] == "active"
    return path, created.body["secret"]


def create_round(now: datetime | None = None) -> list[str]:
    """Create the events of visible changes, and return the ids of those that are due."""
    moment = now or timezone.now()
    list(create_events(clock=lambda: moment))
    queued = Event.unscoped.filter(SENDABLE, status=Event.Status.QUEUED, due_at__lte=moment)
    return list(queued.order_by("due_at", "event_id").values_list("event_id", flat=True))


def deliver_round(now: datetime | None = None) -> None:
    """Create the events of visible changes, and make an attempt for each one that is due."""
    moment = now or timezone.now()
    for event_id in create_round(moment):
        attempt_delivery(event_id, clock=lambda: moment)
