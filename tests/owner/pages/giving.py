"""The way through the three pages of "Give access"."""

import re

from django.contrib.admin.utils import quote

from tests.owner.pages.browser import Browser, Form, Page

ADD = "/admin/evidence/grant/add/"


def at(model: str, pk: str, page: str) -> str:
    """Where a page about one row is."""
    return f"/admin/evidence/{model}/{quote(pk)}/{page}/"


def who(browser: Browser, *connections: str, client: str = "Claude") -> Form:
    """The first page, filled in."""
    form = browser.open(ADD).form
    form.fill("new_client", client)
    for label in connections:
        form.tick(label)
    return form


def what(browser: Browser, *connections: str, client: str = "Claude") -> Form:
    """The second page, as it comes."""
    return browser.press(who(browser, *connections, client=client)).form


def named(form: Form, ending: str) -> str:
    """The one name in a form that ends like this; names carry numbers that mean nothing here."""
    (name,) = {name for name, _ in form.answers if name.endswith(ending)}
    return name


def give(browser: Browser, form: Form) -> Page:
    """From the second page, filled in, to the page with the tokens."""
    review = browser.press(form, "review")
    assert "Review access" in review.text, review.errors
    return browser.press(review.form, "issue")


def bearers(page: Page) -> list[str]:
    """Every token on the page, once."""
    return list(dict.fromkeys(re.findall(r"pdpp_(?:at|own)_[A-Za-z0-9_-]+", page.html)))
