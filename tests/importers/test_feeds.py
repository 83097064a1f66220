"""A feed is kept up to date: new and edited entries come in, and vanished ones stay."""

from collections.abc import Callable, Iterator

import pytest
from django.utils import timezone

from evidence.errors import InvalidRequest
from importers.authoring.https_server import HttpsServer, https_server
from importers.core.source import ProblemCode, SourceError
from importers.registry import find_source
from importers.sources.accounts import parse_details, replace_password
from tests.importers.cutting_proxy import cutting_proxy
from tests.importers.imports import one, records
from tests.importers.syncing import account_of, connect_details, details_of, run_sync

pytestmark = pytest.mark.django_db

ENTRY = """<item><title>Letter {number}</title><guid isPermaLink="false">{number}</guid>
<link>https://ida.example/{number}</link><pubDate>Mon, 05 Jan 2026 08:00:00 +0100</pubDate>
<category>garden</category><author>ida@ida.example (Ida)</author>
<description>&lt;p&gt;This is {text}.&lt;/p&gt;&lt;script&gt;x&lt;/script&gt;</description></item>"""


def rss(*numbers: int, text: str = "it", head: str = "") -> bytes:
    entries = "".join(ENTRY.format(number=number, text=text) for number in numbers)
    return f'<?xml version="1.0"?>{head}<rss version="2.0"><channel><title>Ida&apos;s garden</title>{entries}</channel></rss>'.encode()


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[HttpsServer]:
    with https_server() as started:
        monkeypatch.setenv("SSL_CERT_FILE", str(started.authority))
        yield started


Publish = Callable[[bytes], None]


@pytest.fixture
def publish(server: HttpsServer) -> Publish:
    """Return a function that sets the feed. The server answers whether it changed (ETag)."""

    def set_feed(body: bytes) -> None:
        tag = f'"{hash(body)}"'

        def answer(_method: str, _path: str, headers: dict[str, str], _body: bytes) -> object:
            if headers.get("if-none-match") == tag:
                return 304, {}, b""
            return 200, {"ETag": tag}, body

        server.handler = answer  # type: ignore[assignment]

    return set_feed


def connect(server: HttpsServer, path: str = "/feed?token=t-1234", **values: str) -> str:
    return connect_details(details_of("feed", url=server.url(path), **values))


def titles() -> list[str]:
    return [each["title"] for each in sorted(records("documents"), key=lambda each: each["path"])]


def test_entries_are_documents(server: HttpsServer, publish: Publish) -> None:
    publish(rss(1, 2))

    report = run_sync(connect(server))

    assert (report.created, report.is_complete, report.notes) == (2, True, [])
    document = one("documents", title="Letter 1")
    assert document["text"] == "This is it."
    assert document["path"] == "Ida's garden/Letter 1"
    assert document["created_at"] == document["modified_at"] == "2026-01-05T07:00:00Z"
    assert document["url"] == "https://ida.example/1"
    assert document["tags"] == ["garden"]
    assert document["service"] == "Feed"


def test_unchanged_feed_is_not_sent_and_new_entries_come_in(
    server: HttpsServer, publish: Publish
) -> None:
    publish(rss(1))
    pk = connect(server)
    first, second = run_sync(pk), run_sync(pk)
    publish(rss(2, 3))

    third, fourth = run_sync(pk), run_sync(pk)

    assert [each.created for each in (first, second, third, fourth)] == [1, 0, 2, 0]
    assert [each.unchanged for each in (second, third, fourth)] == [0, 0, 0]
    assert titles() == ["Letter 1", "Letter 2", "Letter 3"]
    assert sum("if-none-match" in headers for _, _, headers in server.requests) == 3


def test_cut_feed_changes_nothing_and_the_next_run_continues(
    server: HttpsServer, publish: Publish
) -> None:
    publish(rss(*range(250)))
    with cutting_proxy(server.port) as proxy:
        pk = connect_details(details_of("feed", url=f"https://localhost:{proxy.port}/feed"))
        proxy.cut_after = 9_000

        cut = run_sync(pk)
        problem = account_of(pk).problem
        proxy.cut_after = None
        whole = run_sync(pk)

    assert problem is not None
    assert problem["code"] == ProblemCode.CONNECTION_LOST
    assert (cut.created, whole.created) == (0, 250)
    assert account_of(pk).problem is None


def test_password_is_sent_to_the_feed_only(server: HttpsServer, publish: Publish) -> None:
    publish(rss(1))
    pk = connect(server, user="ida", password="pass-1234")
    server.handler = None
    server.pages = {"/feed?token=t-1234": (302, {"Location": "https://127.0.0.1/feed"}, b"")}

    run_sync(pk)

    account = account_of(pk)
    assert account.problem is not None
    assert (account.problem["code"], account.problem["detail"]) == ("moved", "127.0.0.1")
    assert server.requests[0][2]["authorization"] == "Basic aWRhOnBhc3MtMTIzNA=="
    assert "t-1234" not in str((account.settings, account.state, account.last_run, account.problem))


@pytest.mark.parametrize(
    "body",
    [
        b"<html><body>Please sign in</body></html>",
        b"",
        b'<?xml version="1.0"?><rss version="2.0"><channel>' + b"x" * 8_400_000,
    ],
)
def test_other_content_is_refused_when_the_owner_connects(
    server: HttpsServer, publish: Publish, body: bytes
) -> None:
    publish(body)

    with pytest.raises(SourceError) as raised:
        connect(server)

    assert raised.value.code is ProblemCode.WRONG_CONTENT


BOMB = (
    '<!DOCTYPE l [<!ENTITY a "aaaaaaaaaa">'
    + "".join(f'<!ENTITY a{n} "{(f"&a{n - 1};" if n else "&a;") * 10}">' for n in range(12))
    + "]>"
)


@pytest.mark.parametrize(
    ("head", "text"),
    [
        (BOMB, "&a11;"),
        ('<!DOCTYPE l [<!ENTITY a SYSTEM "file:///etc/passwd">]>', "&a;"),
        ("", "<a>" * 20_000),
    ],
)
def test_hostile_xml_is_bounded(
    server: HttpsServer, publish: Publish, head: str, text: str
) -> None:
    publish(rss(1))
    pk = connect(server)
    publish(rss(2, head=head, text=text))

    run_sync(pk)

    assert len(str(records("documents"))) < 200_000
    assert "root:" not in str(records("documents"))


def test_address_is_a_secret_and_its_host_is_a_setting() -> None:
    source = find_source("feed")
    assert source is not None
    details = parse_details(source, {"url": "https://A.example:8443/feed"})
    assert details.settings == {"allows_private": False, "host": "a.example", "port": 8443}
    assert details.credential == {"url": "https://A.example:8443/feed"}


def test_address_on_another_server_needs_an_account_of_its_own(
    server: HttpsServer, publish: Publish
) -> None:
    publish(rss(1))
    account, source = account_of(connect(server)), find_source("feed")
    assert source is not None

    with pytest.raises(InvalidRequest, match="another server"):
        replace_password(account, source, {"url": "https://b.example/feed"}, now=timezone.now())
    replace_password(account, source, {"url": server.url("/new")}, now=timezone.now())

    run_sync(account.pk)
    assert server.requests[-1][1] == "/new"


def test_feed_cannot_be_mirrored(server: HttpsServer, publish: Publish) -> None:
    publish(rss(1))

    with pytest.raises(InvalidRequest, match="reports no deletions"):
        connect_details(details_of("feed", url=server.url("/feed")), is_mirror=True)
