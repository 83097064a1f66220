"""The whole site on a loopback port, and the owner's browser in front of it."""

from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urljoin, urlsplit

import httpx2
from django.core.signals import request_finished, request_started
from django.db import close_old_connections, connections
from pytest_django import Settings

from pdpp_site import asgi_app
from pdpp_site.asgi_app import AsgiApp
from pdpp_site.wsgi import application
from tests.owner.consent.client import pressed, the_form
from tests.owner.pages.browser import Form, Page
from tests.owners import sign_up
from tests.pdpp_site.web import free_port, served

PASSWORD = "correct horse battery"


@contextmanager
def site(settings: Settings) -> Iterator[str]:
    """The origin of the site, with the cast's records, which its own threads can see."""

    sign_up("alice", password=PASSWORD)
    port = free_port()
    settings.PDPP_PUBLIC_URL = f"http://127.0.0.1:{port}"
    settings.CSRF_TRUSTED_ORIGINS = [settings.PDPP_PUBLIC_URL]
    # Each thread of the server has a connection of its own, and gives it back after each request.
    settings.CONN_MAX_AGE = 0
    for moment in (request_started, request_finished):
        moment.connect(close_old_connections)
    with served(AsgiApp(application=application, endpoint=asgi_app.endpoint()), port=port):
        yield settings.PDPP_PUBLIC_URL
    connections.close_all()


def sent_back(address: str, *, allow: bool = True) -> str:
    """Where the owner's browser ends up that a client has sent to ``address``.

    The owner signs in where asked to, ticks the mailboxes, looks at what that comes to, and allows.
    """
    with httpx2.Client() as http:
        page = _followed(http, http.get(address))
        if urlsplit(str(page.url)).path == "/login":
            [form] = Page(str(page.url), page).forms
            form.fill("username", "alice")
            form.fill("password", PASSWORD)
            page = _followed(http, http.post(form.action, data=dict(form.answers)))
        if allow:
            page = _sent(http, the_form(page), "review")
        last = _sent(http, the_form(page), "allow" if allow else "deny")
        return last.headers["location"]


def _sent(http: httpx2.Client, form: Form, button: str) -> httpx2.Response:
    return http.post(form.action, data=pressed(form, button))


def _followed(http: httpx2.Client, answer: httpx2.Response) -> httpx2.Response:
    while answer.is_redirect:
        answer = http.get(urljoin(str(answer.url), answer.headers["location"]))
    assert answer.status_code == 200, answer.text
    return answer
