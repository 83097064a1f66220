"""Over HTTP: requests of one caller wait for one another, and nobody else waits for them."""

import json
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from typing import Any, cast

import pytest

from evidence.api.authentication import ON_ACCEPTED_KEY
from mcp_adapter.streamable_http import McpEndpoint
from pdpp_site import asgi_app as site_module
from pdpp_site.asgi_app import AsgiApp
from pdpp_site.fair_queue import FairQueue
from pdpp_site.wsgi_bridge import StartResponse
from tests.pdpp_site.test_site import Endpoint
from tests.pdpp_site.web import Web, served

SECONDS = 60


class Application:
    """Accepts every bearer but "wrong", and answers when it is told to."""

    def __init__(self) -> None:
        self.release = threading.Event()
        self.running: list[str] = []
        self._changed = threading.Condition()

    def __call__(self, environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        who = environ.get("HTTP_AUTHORIZATION", "nobody").removeprefix("Bearer ")
        if who != "wrong":
            environ[ON_ACCEPTED_KEY]()
        if "now" not in environ["PATH_INFO"]:
            with self._changed:
                self.running.append(who)
                self._changed.notify_all()
            self.release.wait(SECONDS)
        start_response("200 OK", [])
        return [who.encode()]

    def until(self, count: int) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.running) >= count, SECONDS)


@contextmanager
def sending(application: Application) -> Iterator[tuple[Web, ThreadPoolExecutor]]:
    site = AsgiApp(application=application, endpoint=cast("McpEndpoint", Endpoint()))
    with served(site) as web, ThreadPoolExecutor(32) as clients:
        try:
            yield web, clients
        finally:
            application.release.set()


def test_one_token_runs_two_requests_and_leaves_the_rest_to_others() -> None:
    application = Application()
    with sending(application) as (web, clients):
        for who in ("a", "b"):
            web.get("/v1/now", Authorization=f"Bearer {who}")
        greedy = [clients.submit(web.get, "/v1/x", Authorization="Bearer a") for _ in range(12)]
        application.until(2)
        assert web.get("/v1/now", Authorization="Bearer b").content == b"b"
        assert web.get("/now").content == b"nobody"
        assert application.running == ["a", "a"]
        application.release.set()
        assert {each.result(SECONDS).status for each in greedy} == {200}


def test_programs_leave_two_threads_to_pages() -> None:
    application = Application()
    with sending(application) as (web, clients):
        for number in range(12):
            web.get("/v1/now", Authorization=f"Bearer {number}")
        for number in range(12):
            clients.submit(web.get, "/v1/x", Authorization=f"Bearer {number}")
        application.until(6)
        assert web.get("/now").content == b"nobody"
        assert len(application.running) == 6


def test_beyond_its_queue_a_token_gets_retry_after(monkeypatch: pytest.MonkeyPatch) -> None:
    def small(places: int, **more: Any) -> FairQueue:
        return FairQueue(places, **{"running_per_caller": 1} | more, waiting_per_caller=2)

    monkeypatch.setattr(site_module, "FairQueue", small)
    application = Application()
    with sending(application) as (web, clients):
        sent = [clients.submit(web.get, "/v1/x", Authorization="Bearer a") for _ in range(8)]
        answers = (each.result() for each in as_completed(sent, SECONDS))
        refused = next(answer for answer in answers if answer.status == 429)
        assert json.loads(refused.content)["error"]["code"] == "too_many_requests"
        assert int(refused.headers["retry-after"]) > 0
