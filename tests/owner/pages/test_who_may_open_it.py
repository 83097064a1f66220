"""Every page of the site, found by walking its routes, opens for the owner alone."""

import re
from collections.abc import Iterator
from urllib.parse import quote

import pytest
from django.contrib.admin.utils import quote as quote_key
from django.contrib.auth.models import User
from django.urls import URLPattern, URLResolver

from owner import admin as admin  # registers the pages that are walked
from owner import urls
from owner.site import owner_site
from tests.owner.pages.browser import Browser, Page
from tests.owners import sign_up
from tests.world import BANK, World

OPEN = {"login/"}
"""The only page for somebody who is not signed in."""
PUBLIC = ("login", ".well-known/", "set-up/", "oauth/", "authorize", "token", "register", "introspect",
          "agent-connect")  # fmt: skip
"""How the routes begin that apps call, or that somebody needs who is not signed in."""


def routes(patterns: list[URLPattern | URLResolver], prefix: str = "") -> Iterator[str]:
    for pattern in patterns:
        route = prefix + str(pattern.pattern)
        if isinstance(pattern, URLResolver):
            yield from routes(pattern.url_patterns, route)
        else:
            yield route


def addresses(world: World) -> list[str]:
    """An address for each route, about rows that are there."""
    rows = {
        "grant": world.grants["bob"][0].pk,
        "client": world.packages["bob"].client_id,
        "connection": BANK,
        "source": str(world.grants["bob"][0].source_id),
        "accesstoken": "tok_none",
    }
    found = []
    for route in routes(owner_site.get_urls()):
        model = route.split("/")[1] if route.startswith(("evidence/", "auth/")) else ""
        if route in OPEN or route.startswith("^") or "(?P" in route:
            continue
        address = route.replace("<path:object_id>", rows.get(model, "1"))
        found.append("/admin/" + address.replace("<path:content_type_id>", "1"))
    own = [
        route
        for route in routes(urls.urlpatterns)
        if not route.startswith(PUBLIC) or route in ("tokens", "tokens/<str:token_id>/revoke")
    ]
    return [*found, *("/" + re.sub(r"<[^>]+>", "1", route) for route in own)]


STRANGERS = {
    "nobody": None,
    "somebody": {"is_staff": False, "is_superuser": False},
    "staff": {"is_staff": True, "is_superuser": False},
    "a superuser": {"is_staff": True, "is_superuser": True},
}


@pytest.mark.parametrize("who", STRANGERS)
@pytest.mark.parametrize("method", ["get", "post"])
def test_strangers_are_sent_to_sign_in(world: World, who: str, method: str) -> None:
    browser = Browser()
    browser.http.handler.enforce_csrf_checks = False
    if (given := STRANGERS[who]) is not None:
        browser.sign_in(User.objects.create_user("mallory", **given))

    found = addresses(world)
    assert len(found) > 70
    for address in found:
        answer = getattr(browser.http, method)(address)
        assert answer.status_code in (302, 405), address
        place = answer.headers.get("Location", "login")
        assert "login" in place or "logout" in address, address


def test_address_of_a_form_only_has_an_error_page(world: World, alice: Browser) -> None:
    alice.http.defaults["HTTP_ACCEPT"] = "text/html"

    page = alice.open("/people/x/merge")

    assert page.status == 405
    assert "Not a page" in page.text
    assert "This address only receives a form. Open the page and send the form again." in page.text
    assert page.link("Home") == "/"


def test_owner_whose_session_ended_returns_to_the_page_of_the_form(world: World) -> None:
    at = "http://testserver/people/x?sort=name"

    browser = Browser()
    browser.http.handler.enforce_csrf_checks = False

    answer = browser.http.post("/people/x/merge", headers={"Referer": at})

    assert answer.headers["Location"] == f"/login?next={quote(at, safe='/')}"


def test_staff_with_every_permission_are_strangers_too(world: World) -> None:
    from django.contrib.auth.models import Permission

    user = User.objects.create_user("mallory", is_staff=True)
    user.user_permissions.set(Permission.objects.all())

    page = Browser().sign_in(user).open("/admin/evidence/grant/")

    assert "Bob" not in page.text
    assert "cannot open these pages" in page.text


def test_staff_cannot_even_sign_in(db: None) -> None:
    User.objects.create_user("mallory", password="correct horse", is_staff=True)
    browser = Browser()
    form = browser.open("/login").forms[0]
    form.fill("username", "mallory")
    form.fill("password", "correct horse")

    page = browser.press(form)

    assert "Wrong user name or password" in page.text
    assert "_auth_user_id" not in browser.http.session


def test_no_page_is_cached_or_loads_from_other_hosts(world: World, alice: Browser) -> None:
    for address in ["/login", "/admin/login/", *addresses(world)]:
        answer = alice.http.get(address)
        if answer.status_code >= 400:  # says nothing but that
            continue
        assert "no-store" in answer["Cache-Control"], address
        assert "default-src 'none'" in answer["Content-Security-Policy"], address
        assert answer["X-Frame-Options"] == "DENY", address
        assert answer["Referrer-Policy"] == "same-origin", address


def test_no_answer_to_a_signed_in_browser_is_cached(world: World, alice: Browser) -> None:
    person = {"Accept": "text/html"}
    for address in ("/device", "/nothing", "/admin/nothing/", "/people/nobody", "/oauth/authorize"):
        assert "no-store" in alice.http.get(address, headers=person)["Cache-Control"], address
        assert "no-store" in alice.http.post(address, headers=person)["Cache-Control"], address
    style_sheet = alice.http.get("/static/owner/ui.css")
    style_sheet.close()
    assert "max-age=60" in style_sheet["Cache-Control"]


def test_no_page_of_the_site_has_scripts_or_styles_inside(world: World, alice: Browser) -> None:
    for address in addresses(world):
        if address.endswith(".csv"):
            continue
        page = alice.open(address)
        for tag, given in page.elements:
            assert tag != "style", address
            assert "style" not in given, address
            assert not any(name.startswith("on") for name in given), address
            assert tag != "script" or given.get("src"), address


@pytest.mark.parametrize(
    ("model", "add", "change"),
    [
        ("grant", True, False),
        ("package", False, False),
        ("client", False, True),
        ("connection", False, False),
        ("source", False, False),
    ],
)
def test_what_may_be_added_and_changed_is_little(
    world: World, alice: Browser, model: str, add: bool, change: bool
) -> None:
    rows = {
        "grant": world.grants["bob"][0].pk,
        "client": world.packages["bob"].client_id,
        "connection": BANK,
        "source": str(world.grants["bob"][0].source_id),
        "package": world.packages["bob"].pk,
    }

    added = alice.open(f"/admin/evidence/{model}/add/")
    row = f"/admin/evidence/{model}/{quote_key(rows[model])}"
    changed = alice.open(f"{row}/change/")
    deleted = alice.open(f"{row}/delete/")

    assert (added.status == 200) is add
    assert changed.status == 200
    assert any("save" in str(given.get("name")) for _, given in changed.elements) is change
    assert deleted.status == 403


def test_no_page_of_the_admin_lists_accounts(world: World, alice: Browser) -> None:
    assert alice.open("/admin/auth/user/").status == 404
    assert alice.open("/admin/auth/group/").status == 404


def test_the_admin_links_its_pages(world: World, alice: Browser) -> None:
    page = alice.open("/admin/")

    offered = {at for _, at in page.links if at.startswith("/admin/") and "#" not in at}
    assert len(offered) == 7
    assert all(alice.open(address).status == 200 for address in offered)


@pytest.mark.parametrize(
    "path",
    ["/", "/tokens", "/connections", "/owners",
     "/imports", "/erasures", "/password"],
)  # fmt: skip
def test_every_page_has_the_same_header(world: World, alice: Browser, path: str) -> None:
    page = Page(path, alice.http.get(path, headers={"Accept": "text/html"}))

    sheets = [given["href"] for tag, given in page.elements if tag == "link"]
    assert "/static/owner/ui.css" in sheets
    for words, address in (("Home", "/"), ("People", "/people"), ("Admin", "/admin/")):
        assert page.link(words) == address
    assert page.text.count("Sign out") == 1


def test_the_owner_changes_the_password(world: World) -> None:
    user = sign_up("owner", password="correct horse battery")
    browser = Browser().sign_in(user)
    page = browser.open("/password")
    assert "Old password New password At least 12 characters" in page.text
    form = page.form
    form.fill("old_password", "correct horse battery")
    form.fill("new_password1", "another long phrase")
    form.fill("new_password2", "another long phrase")

    assert "Your password was changed." in browser.press(form).text
    user.refresh_from_db()
    assert user.check_password("another long phrase")
