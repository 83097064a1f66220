"""What was paused by itself stands on every page of the owner until they have seen it."""

from typing import Any

from tests.ledger.test_tripwire import LIST, filled, read
from tests.owner.pages.browser import Browser, Form, Page
from tests.world import World

PAGES = (
    "/admin/", "/admin/evidence/grant/", "/admin/evidence/grant/add/", "/erasures",
    "/connected", "/connect",
)  # fmt: skip
SAID = "Access of Bob to Mail was paused automatically: within 24 hours it read 30 of the 40"


def alert_form(page: Page) -> Form:
    (form,) = [each for each in page.forms if each.action.endswith("/connected/seen")]
    return form


def test_an_alert_is_on_every_page_until_it_is_seen(
    world: World, alice: Browser, settings: Any
) -> None:
    read(filled(world, settings), 30)
    for page in PAGES:
        opened = alice.open(page)
        assert SAID in opened.text, page
        before = opened.html.partition('<form class="alert"')[0]
        assert 'class="crumbs"' not in before, "the alert is first on every page"
    assert "paused automatically" not in Browser().open("/admin/login/").text

    after = alice.press(alert_form(alice.open("/search?q=lease")))

    assert "paused automatically" not in after.text
    assert "3 records" in after.text, "the owner stays on the page"
    assert "paused automatically" not in alice.open("/admin/").text
    assert world.get(LIST).status == 403, "seeing it changes nothing"
    after = alice.open("/connected")
    resumed = alice.press(next(each for each in after.own_forms if "/resume?" in each.action))
    assert "Bob can read again." in resumed.text
    assert world.get(LIST).status == 200


def test_what_is_no_alert_is_refused(world: World, alice: Browser, settings: Any) -> None:
    read(filled(world, settings), 30)
    token = {
        "csrfmiddlewaretoken": alert_form(alice.open("/admin/")).values("csrfmiddlewaretoken")[0]
    }
    for number in ("", "x", "-1", "9" * 30):
        answer = alice.http.post("/connected/seen", {**token, "alert": number})
        assert answer.status_code in (404, 403)
    assert SAID in alice.open("/admin/").text


def test_a_dismissed_alert_leads_to_no_other_site(
    world: World, alice: Browser, settings: Any
) -> None:
    read(filled(world, settings), 30)
    form = alert_form(alice.open("/admin/"))
    form.fill("next", "https://elsewhere.example/")

    answer = alice.http.post("/connected/seen", dict(form.answers))

    assert answer["Location"] == "/connected"
