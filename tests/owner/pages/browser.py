"""A browser without scripts: it reads a page's forms and sends what a person filled in."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any
from urllib.parse import urljoin

from django.http import HttpResponse
from django.test import Client as HttpClient
from typing_extensions import override

SILENT = {"script", "style", "title", "symbol"}


@dataclass
class Form:
    """The answers a form would send, by name; boxes by the words beside them."""

    method: str
    action: str
    answers: list[tuple[str, str]] = field(default_factory=list)
    boxes: dict[str, tuple[str, str]] = field(default_factory=dict)

    def values(self, name: str) -> list[str]:
        return [value for known, value in self.answers if known == name]

    def fill(self, name: str, value: str) -> None:
        self.answers = [(known, old) for known, old in self.answers if known != name]
        self.answers.append((name, value))

    def tick(self, words: str) -> None:
        box = self._box(words)
        if box not in self.answers:
            self.answers.append(box)

    def untick(self, words: str) -> None:
        self.answers.remove(self._box(words))

    def is_ticked(self, words: str) -> bool:
        return self._box(words) in self.answers

    def _box(self, words: str) -> tuple[str, str]:
        found = [box for said, box in self.boxes.items() if said.startswith(words)]
        assert len(found) == 1, f"{words!r} is beside {len(found)} of {sorted(self.boxes)}"
        return found[0]


class Page(HTMLParser):
    """The forms, links and words of an answer."""

    def __init__(self, address: str, answer: Any) -> None:
        super().__init__()
        self.address = address
        self.status: int = answer.status_code
        self.headers: Mapping[str, str] = answer.headers
        self.html: str = answer.content.decode()
        self.forms: list[Form] = []
        self.links: list[tuple[str, str]] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self._said: list[str] = []
        self._silent = 0
        self._label: list[str] | None = None
        self._labelled: list[tuple[str, str]] = []
        self._link: tuple[str, list[str]] | None = None
        self._select: tuple[str, str | None, str | None] | None = None
        self._area: tuple[str, list[str]] | None = None
        self.feed(self.html)

    @property
    def text(self) -> str:
        return re.sub(r"\s+", " ", " ".join(self._said)).strip()

    @property
    def form(self) -> Form:
        """The only form of the page's own content."""
        (form,) = self.own_forms
        return form

    @property
    def own_forms(self) -> list[Form]:
        """The forms of the page's content; those to search and log out are on every page."""
        everywhere = ("/logout", "/search")
        return [each for each in self.forms if not each.action.endswith(everywhere)]

    def link(self, words: str) -> str:
        """Where the one link of these words leads."""
        (address,) = {address for said, address in self.links if said == words}
        return address

    def has_link(self, words: str) -> bool:
        return any(said == words for said, _ in self.links)

    @property
    def errors(self) -> list[str]:
        return [
            re.sub(r"<[^>]+>|\s+", " ", each).strip()
            for each in re.findall(r'<ul class="errorlist[^>]*>(.*?)</ul>', self.html, re.DOTALL)
        ]

    @override
    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.elements.append((tag, given))
        if tag in SILENT:
            self._silent += 1
        elif tag == "form":
            action = urljoin(self.address, given.get("action") or self.address)
            self.forms.append(Form((given.get("method") or "get").upper(), action))
        elif tag == "label":
            self._label, self._labelled = [], []
        elif tag == "a":
            self._link = (urljoin(self.address, given.get("href") or ""), [])
        elif tag == "input" and self.forms:
            self._input(given)
        elif tag == "select":
            self._select = (given["name"] or "", None, None)
        elif tag == "option" and self._select:
            name, first, chosen = self._select
            value = given.get("value") or ""
            chosen = value if "selected" in given else chosen
            self._select = (name, value if first is None else first, chosen)
        elif tag == "textarea":
            self._area = (given["name"] or "", [])

    def _input(self, given: dict[str, str | None]) -> None:
        kind, name = given.get("type") or "text", given.get("name")
        if name is None or kind in {"submit", "button"}:
            return
        pair = (name, given.get("value") or ("on" if kind == "checkbox" else ""))
        if kind in {"checkbox", "radio"}:
            self._labelled.append(pair)
            if "checked" not in given or "disabled" in given:
                return
        self.forms[-1].answers.append(pair)

    @override
    def handle_endtag(self, tag: str) -> None:
        if tag in SILENT:
            self._silent -= 1
        elif tag == "label" and self._label is not None:
            words = " ".join("".join(self._label).split())
            for pair in self._labelled:
                self.forms[-1].boxes[words] = pair
            self._label, self._labelled = None, []
        elif tag == "a" and self._link:
            self.links.append((" ".join("".join(self._link[1]).split()), self._link[0]))
            self._link = None
        elif tag == "select" and self._select:
            name, first, chosen = self._select
            value = first if chosen is None else chosen
            if value is not None:
                self.forms[-1].answers.append((name, value))
            self._select = None
        elif tag == "textarea" and self._area:
            self.forms[-1].answers.append((self._area[0], "".join(self._area[1]).lstrip("\n")))
            self._area = None

    @override
    def handle_data(self, data: str) -> None:
        if self._area:
            self._area[1].append(data)
        elif not self._silent:
            self._said.append(data)
        if self._label is not None:
            self._label.append(data)
        if self._link:
            self._link[1].append(data)


class Browser:
    """One person's session; protection against forged requests is on, as outside of tests."""

    def __init__(self) -> None:
        self.http = HttpClient(enforce_csrf_checks=True)

    def sign_in(self, user: Any) -> "Browser":
        self.http.force_login(user)
        return self

    def open(self, address: str) -> Page:
        return self._page(address, self.http.get(address, follow=True))

    def press(self, form: Form, button: str | None = None, value: str = "1") -> Page:
        answers: dict[str, list[str]] = {}
        pressed = [] if button is None else [(button, value)]
        for name, each in [*form.answers, *pressed]:
            answers.setdefault(name, []).append(each)
        if form.method == "GET":
            path = form.action.partition("?")[0]
            return self._page(path, self.http.get(path, answers, follow=True))
        return self._page(form.action, self.http.post(form.action, answers, follow=True))

    def _page(self, address: str, answer: HttpResponse) -> Page:
        chain: list[tuple[str, int]] = getattr(answer, "redirect_chain", [])
        return Page(chain[-1][0] if chain else address, answer)
