"""The HTML of a mail is shown in a frame of its own, sanitized, and is no app's to read."""

import base64
import json
import re
from typing import Any

import pytest

from evidence.models.records import Blob
from evidence.write.blobs import put_blob
from evidence.write.record_erasure import delete_record
from owner.records import record_files
from tests.owner.pages.browser import Browser
from tests.owner.pages.test_browse import talk as talk
from tests.owner.pages.test_record_files import PNG
from tests.owner.pages.test_record_files import post as post
from tests.world import NOW, PERSONAL, World

pytestmark = pytest.mark.slow

FRAME = f"/html/{PERSONAL}/messages?key=m1"
PIXEL = "data:image/gif;base64,R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7"
ELSEWHERE = "//tracker.example"
HOSTILE = {
    "script": f"<script src=https:{ELSEWHERE}/a.js></script><script>alert(1)</script>",
    "handler": "<p onclick=alert(1)>a</p><img src=x onerror=alert(1)><body onload=alert(1)>",
    "picture": f'<img src="http:{ELSEWHERE}/a.png"><img srcset="http:{ELSEWHERE}/a.png 2x"><img src="{ELSEWHERE}/a">',
    "own server": '<img src="/files/cin_x/blb_x"><a href="/sign-out">a</a>',
    "style": f"<p style=\"background: url('http:{ELSEWHERE}/a')\">a</p>",
    "escaped style": f'<p style="background: u\\72l(http:{ELSEWHERE}/a)">a</p>',
    "style sheet": f"<style>@import 'http:{ELSEWHERE}/a'; p {{ background: url(http:{ELSEWHERE}/b) }}</style>",
    "links": f'<link rel="stylesheet" href="http:{ELSEWHERE}/a"><link rel="prefetch" href="http:{ELSEWHERE}/b">'
    f'<link rel="dns-prefetch" href="{ELSEWHERE}"><a ping="http:{ELSEWHERE}/p" href="javascript:alert(1)">a</a>',
    "refresh": f'<meta http-equiv="refresh" content="0; url=http:{ELSEWHERE}/">',
    "base": f'<base href="http:{ELSEWHERE}/">',
    "form": f'<form action="http:{ELSEWHERE}/"><input type="image" src="http:{ELSEWHERE}/a"><button formaction="http:{ELSEWHERE}">b</button></form>',
    "svg": f'<svg onload=alert(1)><image href="http:{ELSEWHERE}/a"/><use href="http:{ELSEWHERE}/a#b"/></svg>',
    "math": "<math><mtext><table><mglyph><style><img src=x onerror=alert(1)>",
    "frame": f'<iframe src="http:{ELSEWHERE}/"></iframe><iframe srcdoc="<script>alert(1)</script>"></iframe>',
    "media": f'<video src="http:{ELSEWHERE}/a" poster="http:{ELSEWHERE}/b"></video><audio src="http:{ELSEWHERE}/a">'
    f'<object data="http:{ELSEWHERE}/a"></object><embed src="http:{ELSEWHERE}/a">',
    "background": f'<table background="http:{ELSEWHERE}/a"><tr><td background="http:{ELSEWHERE}/b">a</td></tr></table>',
    "comment": f"<!--><img src=http:{ELSEWHERE}/a>--><![CDATA[<img src=http:{ELSEWHERE}/b>]]>",
    "unclosed": f'<div><a title="<img src=http:{ELSEWHERE}/a onerror=alert(1)>',
    "noscript": f'<noscript><p title="</noscript><img src=http:{ELSEWHERE}/a onerror=alert(1)>">',
    "picture of a script": '<img src="data:image/svg+xml,<svg onload=alert(1)>"><a href="data:text/html,x">a</a>',
}


def store_html(world: World, html: str | bytes, key: str = "m1", blob_id: str = "blb_html") -> None:
    """Store HTML as the importers of mail do."""
    path = f"/v1/streams/messages/records/{key}"
    data = world.get(path, "alice", connection_id=PERSONAL).body["data"]
    content = html if isinstance(html, bytes) else html.encode()
    reference = {"blob_id": blob_id, "media_type": "text/html"}
    world.put((PERSONAL, "messages", data | {"blob_ref": reference}))
    put_blob(PERSONAL, stream="messages", record_key=key, media_type="text/html",
             chunks=[content], now=NOW, blob_id=blob_id)  # fmt: skip


def frame(alice: Browser, address: str = FRAME) -> str:
    answer = alice.http.get(address)
    assert answer.status_code == 200
    return answer.content.decode().partition('<body dir="auto">')[2].partition("</body>")[0]


def test_a_mail_is_shown_as_it_looks_and_as_text(world: World, alice: Browser) -> None:
    store_html(
        world, '<h1 style="color: #b00">Dinner</h1><table width="600"><tr><td bgcolor="#eee">at 7'
    )

    page = alice.open(f"/records/{PERSONAL}/messages/m1")

    [given] = [given for tag, given in page.elements if tag == "iframe"]
    assert given["src"] == FRAME
    assert set(given["sandbox"].split()) == {"allow-popups", "allow-popups-to-escape-sandbox"}
    assert page.link("Open it alone in a new tab").endswith(FRAME)
    assert "Plain text" in page.text
    assert "Open the file" not in page.text
    shown = frame(alice)
    assert '<h1 style="color:#b00">Dinner</h1>' in shown
    assert '<td bgcolor="#eee">at 7</td>' in shown


@pytest.mark.parametrize(("lines", "size"), [(2, "size-1"), (15, "size-3"), (200, "size-6")])
def test_the_frame_is_as_high_as_its_text_needs(
    world: World, alice: Browser, lines: int, size: str
) -> None:
    world.put((PERSONAL, "messages", {"id": "m1", "received_at": "2026-01-10T09:00:00Z",
               "body_text": "Dinner\n" * lines}))  # fmt: skip
    store_html(world, "<p>Dinner</p>")

    page = alice.open(f"/records/{PERSONAL}/messages/m1")

    [given] = [given for tag, given in page.elements if tag == "iframe"]
    assert size in (given["class"] or "").split()


def test_the_frame_has_a_policy_that_loads_nothing(world: World, alice: Browser) -> None:
    store_html(world, "<p>Dinner</p>")

    headers = alice.http.get(FRAME).headers

    policy = dict(each.split(" ", 1) for each in headers["Content-Security-Policy"].split("; "))
    assert policy["default-src"] == "'none'"
    assert policy["img-src"] == "data:"
    assert policy["frame-ancestors"] == "'self'"
    assert "allow-scripts" not in policy["sandbox"]
    assert "allow-same-origin" not in policy["sandbox"]
    assert "script-src" not in policy
    assert headers["X-Frame-Options"] == "SAMEORIGIN"
    assert headers["Referrer-Policy"] == "no-referrer"
    assert "no-store" in headers["Cache-Control"]


def test_hostile_html_keeps_nothing_that_acts_or_loads(world: World, alice: Browser) -> None:
    acting = r"""<(?:script|iframe|svg|form|input|meta|style|link|base|object|embed|video|audio|math)
                 |<[^<>]*\s(?:on\w+|src|srcset|href|ping|action|background|poster)=|url\("""
    for number, (kind, html) in enumerate(HOSTILE.items()):
        store_html(world, f"<p>Before</p>{html}", blob_id=f"blb_{number}")

        shown = frame(alice)

        assert "<p>Before</p>" in shown, kind
        assert not re.search(acting, shown, re.IGNORECASE | re.VERBOSE), kind


def test_links_open_elsewhere_and_name_nothing(world: World, alice: Browser) -> None:
    store_html(world, '<a href="https://shop.example/a?b=1&amp;c=2" target="_top">Track</a>')

    assert (
        '<a href="https://shop.example/a?b=1&amp;c=2" target="_blank" rel="noopener noreferrer">Track</a>'
        in frame(alice)
    )


def put_letter(world: World, html: str) -> None:
    reference = {"blob_id": "blb_html", "media_type": "text/html"}
    world.put(("cin_post", "letters", {"id": "l1", "subject": "Files", "blob_ref": reference}))
    put_blob("cin_post", stream="letters", record_key="l1", media_type="text/html",
             chunks=[html.encode()], now=NOW, blob_id="blb_html")  # fmt: skip


def test_pictures_of_the_mail_are_shown_and_others_are_not(
    world: World, post: str, alice: Browser
) -> None:
    other = {"id": "other", "letter": "l2", "blob_ref": {"blob_id": "blb_other"}}
    world.put(("cin_post", "enclosures", other))
    put_blob("cin_post", stream="enclosures", record_key="other", media_type="image/png",
             chunks=[PNG], now=NOW, blob_id="blb_other")  # fmt: skip
    names = ("photo", "other", "page", "none")
    put_letter(world, "".join(f'<img alt="{name}" src="cid:{name}">' for name in names))

    shown = frame(alice, "/html/cin_post/letters?key=l1")

    assert shown.count("src=") == 1
    data = base64.b64encode(PNG).decode()
    assert f'<img alt="photo" src="data:image/png;base64,{data}">' in shown
    assert '<img alt="other" >' in shown
    assert "You 1 time" in alice.open(f"{post}/enclosures/photo").text


def test_pictures_have_a_limit(
    world: World, post: str, alice: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_files, "PICTURES_MAX_BYTES", 200)
    put_letter(world, '<img src="cid:photo"><img src="cid:photo">')

    assert frame(alice, "/html/cin_post/letters?key=l1").count("src=") == 1


def test_html_of_a_declared_field_is_sanitized(world: World, talk: str, alice: Browser) -> None:
    shown = frame(alice, "/html/cin_talk/meetings?key=t1")

    assert shown == (
        '<h2>Agenda</h2><img><p>Budget</p><a target="_blank" rel="noopener noreferrer">open</a>'
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "html",
    ["".join(f"<font size={n}><p>" for n in range(12_000)), "<div>" * 400_000],
    ids=["formatting", "depth"],
)
def test_html_that_takes_too_much_is_not_shown(
    world: World, alice: Browser, monkeypatch: pytest.MonkeyPatch, html: str
) -> None:
    store_html(world, html)

    assert "Read the plain text instead." in frame(alice)


@pytest.mark.slow
def test_long_html_and_broken_bytes_are_shown(world: World, alice: Browser) -> None:
    store_html(world, b"<p>Begin \xff\xfe \x00</p>" + b"<p>long</p>" * 900_000)

    assert "Begin" in frame(alice)


def times_seen(alice: Browser) -> int:
    """Open the mail and return how often the owner had seen it."""
    [times] = re.findall(r"You ([0-9]+) time", alice.open(f"/records/{PERSONAL}/messages/m1").text)
    return int(times)


def test_an_opened_frame_is_on_record(world: World, alice: Browser) -> None:
    store_html(world, "<p>Dinner</p>")
    before = times_seen(alice)

    alice.http.get(FRAME)

    assert times_seen(alice) == before + 2


@pytest.mark.parametrize("key", ["m1", "none", ""])
def test_a_record_without_html_has_no_frame(world: World, alice: Browser, key: str) -> None:
    assert alice.http.get(f"/html/{PERSONAL}/messages", {"key": key}).status_code == 404
    assert "<iframe" not in alice.open(f"/records/{PERSONAL}/messages/m1").html


def answers(world: World, who: str) -> list[Any]:
    """Return what a client gets at every kind of route, without the ids of requests."""
    asked = {"connection_id": PERSONAL}
    found = [
        world.get("/v1/streams/messages/records/m1", who, **asked),
        world.get("/v1/streams/messages/records", who, **asked),
        world.get("/v1/blobs/blb_html", who, **asked),
        world.get("/v1/search", who, q="teapot", **asked),
        world.get("/v1/schema", who, **asked),
    ]
    return [(each.status, re.sub(r"req_\w+", "", json.dumps(each.body))) for each in found]


def test_a_grant_of_all_fields_does_not_cover_the_html(world: World) -> None:
    before = answers(world, "dora")

    store_html(world, "<p>A teapot for the surprise</p>")

    assert answers(world, "dora") == before
    assert world.get("/v1/blobs/blb_html", "dora", connection_id=PERSONAL).status == 404


def test_an_erased_mail_has_no_html(world: World, alice: Browser) -> None:
    store_html(world, "<p>Dinner</p>")

    delete_record(PERSONAL, stream="messages", record_key="m1", suppress=True, now=NOW)

    assert alice.http.get(FRAME).status_code == 404
    assert not Blob.unscoped.filter(blob_id="blb_html").exists()
