"""A client of the authorization server and the owner's browser, driven request by request."""

import base64
import hashlib
import json
import re
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from django.http import HttpResponse
from django.test import Client as HttpClient

from tests.owner.pages.browser import Form, Page
from tests.owners import sign_up

ORIGIN = "http://127.0.0.1:8000"
MCP = f"{ORIGIN}/mcp"
CALLBACK = "http://localhost:33418/callback"
VERIFIER = "a-verifier-of-more-than-forty-three-characters-0123456789"
CHALLENGE = base64.urlsafe_b64encode(hashlib.sha256(VERIFIER.encode()).digest()).rstrip(b"=")


@dataclass
class Asking:
    """One client, registered by itself, and the owner, signed in."""

    client_id: str = ""
    owner: HttpClient = field(default_factory=lambda: HttpClient(enforce_csrf_checks=True))
    program: HttpClient = field(default_factory=lambda: HttpClient(enforce_csrf_checks=True))

    @classmethod
    def registered(cls, **metadata: Any) -> "Asking":
        asking = cls()
        asking.owner.force_login(sign_up("alice"))
        asking.client_id = asking.register(**metadata).json()["client_id"]
        return asking

    def register(self, **metadata: Any) -> HttpResponse:
        body = {"client_name": "Scribe", "redirect_uris": [CALLBACK], **metadata}
        return self.program.post("/oauth/register", json.dumps(body), "application/json")

    def parameters(self, **changed: str | None) -> dict[str, str]:
        usual = {
            "response_type": "code",
            "client_id": self.client_id,
            "redirect_uri": CALLBACK,
            "code_challenge": CHALLENGE.decode(),
            "code_challenge_method": "S256",
            "state": "xyz",
            "resource": MCP,
            "scope": "pdpp:read offline_access",
            "prompt": "consent",
        }
        return {name: value for name, value in (usual | changed).items() if value is not None}

    def ask(self, **changed: str | None) -> HttpResponse:
        """The owner's browser at ``/oauth/authorize``."""
        return self.owner.get("/oauth/authorize", self.parameters(**changed))

    def answer(self, page: HttpResponse, *, allow: bool = True) -> HttpResponse:
        """What the page's form leads to when the owner answers for both mailboxes."""
        return answered(self.owner, page, allow=allow)

    def code(self, **changed: str | None) -> str:
        """A fresh code that the owner allowed."""
        return told(self.answer(self.ask(**changed)))["code"]

    def exchange(self, code: str, **changed: str | None) -> HttpResponse:
        usual = {
            "grant_type": "authorization_code",
            "code": code,
            "client_id": self.client_id,
            "redirect_uri": CALLBACK,
            "code_verifier": VERIFIER,
            "resource": MCP,
        }
        return self.token(**(usual | changed))

    def refresh(self, refresh_token: str, **changed: str | None) -> HttpResponse:
        usual = {
            "grant_type": "refresh_token",
            "refresh_token": refresh_token,
            "client_id": self.client_id,
        }
        return self.token(**(usual | changed))

    def token(self, **parameters: str | None) -> HttpResponse:
        sent = {name: value for name, value in parameters.items() if value is not None}
        return self.program.post(
            "/oauth/token", urlencode(sent), "application/x-www-form-urlencoded"
        )

    def tokens(self, **changed: str | None) -> dict[str, Any]:
        """A whole sign-in."""
        answer = self.exchange(self.code(**changed))
        assert answer.status_code == 200, answer.content
        body: dict[str, Any] = answer.json()
        return body


def answered(owner: HttpClient, page: Any, *, allow: bool = True) -> HttpResponse:
    """The owner ticks both mailboxes, looks at what that comes to, and presses one of the buttons."""
    assert page.status_code == 200, page.content
    form = the_form(page)
    if not allow:
        return owner.post(form.action, pressed(form, "deny"))
    seen = owner.post(form.action, pressed(form, "review"))
    assert seen.status_code == 200, seen.content
    return owner.post(form.action, pressed(the_form(seen), "allow"))


def the_form(page: Any) -> Form:
    """The form of the question, with the mailboxes ticked."""
    path = page.request["PATH_INFO"] if isinstance(page.request, dict) else str(page.url)
    [form] = [each for each in Page(path, page).forms if each.values("form_token")]
    for words in form.boxes:
        if re.match("Personal mail|Work mail", words):
            form.tick(words)
    return form


def pressed(form: Form, button: str) -> dict[str, list[str]]:
    """What the form sends when a button of it is pressed."""
    answers: dict[str, list[str]] = {}
    for name, value in [*form.answers, ("decision", button)]:
        answers.setdefault(name, []).append(value)
    return answers


def told(answer: HttpResponse) -> dict[str, str]:
    """What the redirect to the client says."""
    assert answer.status_code == 302, answer.content
    return dict(parse_qsl(urlsplit(answer["Location"]).query))
