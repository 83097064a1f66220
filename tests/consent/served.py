"""The whole site on a loopback port, and the owner's browser in front of it."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urljoin

import httpx2
from django.core.signals import request_finished, request_started
from django.db import close_old_connections, connections
from pytest_django import Settings

from pdpp_site import mcp
from pdpp_site.site import Site
from pdpp_site.wsgi import application
from tests.admin.browser import Page
from tests.pdpp_site.web import free_port, served

PASSWORD = "correct horse battery"


@contextmanager
def site(settings: Settings) -> Iterator[str]:
    """The origin of the site, with the cast's records, which its own threads can see."""
    from django.contrib.auth.models import User

    User.objects.create_superuser("alice", password=PASSWORD)
    port = free_port()
    settings.PDPP_PUBLIC_URL = f"http://127.0.0.1:{port}"
    settings.CSRF_TRUSTED_ORIGINS = [settings.PDPP_PUBLIC_URL]
    # Each thread of the server has a connection of its own, and gives it back after each request.
    settings.CONN_MAX_AGE = 0
    for moment in (request_started, request_finished):
        moment.connect(close_old_connections)
    with served(Site(application=application, endpoint=mcp.endpoint()), port=port):
        yield settings.PDPP_PUBLIC_URL
    connections.close_all()


class Owner:
    """The owner at a browser: signs in where asked to, ticks the mailboxes and allows."""

    def __init__(self) -> None:
        self.http = httpx2.Client(follow_redirects=False)

    def sent_back(self, address: str, *, allow: bool = True) -> str:
        """Where the browser ends up that a client has sent to ``address``."""
        page = self._open(address)
        if urljoin(address, "/login") in str(page.url):
            signing_in = self._form(page)
            signing_in.fill("username", "alice")
            signing_in.fill("password", PASSWORD)
            page = self._follow(self.http.post(signing_in.action, data=dict(signing_in.answers)))
        form = self._form(page)
        for words in form.boxes:
            if "mail" in words:
                form.tick(words)
        data: dict[str, Any] = {}
        for name, value in [*form.answers, ("decision", "allow" if allow else "deny")]:
            data.setdefault(name, []).append(value)
        return self.http.post(form.action, data=data).headers["location"]

    def _open(self, address: str) -> httpx2.Response:
        return self._follow(self.http.get(address))

    def _follow(self, answer: httpx2.Response) -> httpx2.Response:
        while answer.is_redirect:
            answer = self.http.get(urljoin(str(answer.url), answer.headers["location"]))
        assert answer.status_code == 200, answer.text
        return answer

    def _form(self, page: httpx2.Response) -> Any:
        return Page(str(page.url), page).form
