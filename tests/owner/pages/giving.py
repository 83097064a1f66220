"""The way through the page "Give access", without scripts."""

import re

from tests.owner.pages.browser import Browser, Form, Page

ADD = "/connected/give"


def at(model: str, pk: str, page: str = "") -> str:
    """Where a page about a grant or a token is."""
    return f"/{model}s/{pk}/{page}".rstrip("/")


def what(browser: Browser, *connections: str, client: str = "Claude") -> Form:
    """The form with a new app and connections, and without any stream."""
    form = browser.open(ADD).form
    form.fill("new_client", client)
    form.answers = [each for each in form.answers if not each[0].endswith("-included")]
    for label in connections:
        form.tick(label)
    return form


def named(form: Form, ending: str) -> str:
    """The one name in a form that ends like this; names carry numbers that mean nothing here."""
    (name,) = {name for name, _ in form.answers if name.endswith(ending)}
    return name


def of(form: Form, stream: str, field: str) -> str:
    """The name of a field of one stream."""
    (name,) = {name for said, (name, _) in form.boxes.items() if said.startswith(stream)}
    return name.removesuffix("included") + field


def review(browser: Browser, form: Form) -> Page:
    """Press "Update summary"."""
    return browser.press(form, "decision", "review")


def allow(browser: Browser, form: Form) -> Page:
    return browser.press(form, "decision", "allow")


def give(browser: Browser, form: Form) -> Page:
    """From the form, filled in, to the page with the tokens."""
    reviewed = review(browser, form)
    assert "It will read" in reviewed.text, reviewed.errors
    return allow(browser, reviewed.form)


def bearers(page: Page) -> list[str]:
    """Every token on the page, once."""
    return list(dict.fromkeys(re.findall(r"pdpp_(?:at|own)_[A-Za-z0-9_-]+", page.html)))
