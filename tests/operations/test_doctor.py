"""The doctor names what is wrong between a host and the server: the real site behind real proxies."""

import dataclasses
import gzip
import json
import re
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeAlias

import httpx2
import pytest
from django.core.handlers.wsgi import WSGIHandler
from django.core.management import call_command
from django.db import connections

from operations.doctor import HOSTS, Finding, Outcome, Side, diagnose
from pdpp_site import mcp_endpoints
from pdpp_site.asgi_app import Site
from tests.operations.proxy import (
    Fault,
    Forward,
    Proxy,
    Reply,
    Request,
    certificate,
    page,
    redirect,
)
from tests.operations.proxy import running as proxied
from tests.pdpp_site.web import served
from tests.world import World

Walk: TypeAlias = Callable[..., list[Finding]]


def honest(request: Request, forward: Forward) -> Reply:
    return forward(request)


def django(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
    """The threads of the server give their connections back: the test keeps no others alive."""
    try:
        response = WSGIHandler()(environ, start_response)
        return [b"".join(response)]
    finally:
        connections.close_all()


@pytest.fixture
def walk(transactional_db: None, settings: Any) -> Walk:
    """Walk to the site through a proxy with a fault, `public` being what it takes for its address."""

    def walk(
        fault: Fault = honest, *, public: str = "", asked: str = "", **more: Any
    ) -> list[Finding]:
        proxy = Proxy(fault, tls=more.pop("tls", None))
        public = public or proxy.url
        settings.PDPP_PUBLIC_URL = (
            public.replace("https:", "http:") if more.pop("plain", 0) else public
        )
        verify = more.pop("verify", True)
        with (
            served(Site(application=django, endpoint=mcp_endpoints.endpoint())) as web,
            proxied(proxy),
            httpx2.Client(timeout=2, verify=verify) as client,
        ):
            proxy.upstream = web.port
            return diagnose(asked.format(proxy.url) if asked else proxy.url, client, **more)

    return walk


def failed(findings: list[Finding]) -> Finding:
    """The first step that does not work."""
    return next(each for each in findings if each.outcome in {Outcome.FAILS, Outcome.WARNS})


def test_a_sound_installation_passes_every_step_that_needs_no_token(walk: Walk) -> None:
    findings = walk()

    assert [each.step for each in findings if each.outcome is Outcome.WORKS] == [
        "challenge", "bearer", "get", "bodies", "answers", "metadata", "server", "address",
        "registration", "consent", "token", "beside",
    ]  # fmt: skip
    skipped = [each for each in findings if each.outcome is Outcome.SKIPPED]
    assert [each.step for each in skipped] == ["tools", "search", "fetch"]
    assert "token" in skipped[0].seen


def test_with_a_token_it_reads_and_shows_nothing_of_what_it_read(walk: Walk) -> None:
    token = World.build().tokens["dora@mcp"]

    findings = walk(bearer=token)

    assert {each.outcome for each in findings} == {Outcome.WORKS}
    assert len(findings) == 15
    told = json.dumps([dataclasses.asdict(each) for each in findings])
    assert token not in told
    assert "cin_" not in told


@pytest.mark.parametrize("host", ["codex", "gemini"])
def test_each_host_of_this_machine_is_walked_as(walk: Walk, host: str) -> None:
    assert {each.outcome for each in walk(host=host)} == {Outcome.WORKS, Outcome.SKIPPED}


@pytest.mark.parametrize("host", ["claude", "chatgpt"])
def test_hosts_in_the_cloud_need_a_public_address(walk: Walk, host: str) -> None:
    found = failed(walk(host=host))

    assert (found.code, found.side) == ("not_public", Side.CLIENT)


def stripped_authorization(request: Request, forward: Forward) -> Reply:
    headers = {name: value for name, value in request.headers.items() if name != "authorization"}
    return forward(dataclasses.replace(request, headers=headers))


def redirecting_slash(request: Request, forward: Forward) -> Reply:
    return redirect(301, "/mcp/") if request.path == "/mcp" else forward(request)


def to_https(request: Request, _forward: Forward) -> Reply:
    return redirect(301, f"https://{request.headers['host']}{request.path}")


def login_redirect(_request: Request, _forward: Forward) -> Reply:
    return redirect(302, "https://sso.example/start?rd=/mcp")


def login_page(_request: Request, _forward: Forward) -> Reply:
    return page(200, "Please sign in<input type=password>")


def password(_request: Request, _forward: Forward) -> Reply:
    return dataclasses.replace(page(401, "no"), headers={"www-authenticate": 'Basic realm="x"'})


def firewall(request: Request, forward: Forward) -> Reply:
    return page(403, "Are you a robot?") if request.method == "POST" else forward(request)


def no_well_known(request: Request, forward: Forward) -> Reply:
    return page(404, "nginx") if "/.well-known/" in request.path else forward(request)


def one_well_known(request: Request, forward: Forward) -> Reply:
    return (
        Reply(404, {})
        if request.path.endswith("/mcp")
        and request.method == "GET"
        and ("well-known" in request.path)
        else forward(request)
    )


def stripped_challenge(request: Request, forward: Forward) -> Reply:
    return forward(request).without("www-authenticate")


def error_pages(request: Request, forward: Forward) -> Reply:
    reply = forward(request)
    return dataclasses.replace(page(401, "Unauthorized"), headers={
        "content-type": "text/html", "www-authenticate": reply.headers["www-authenticate"],
    }) if reply.status == 401 else reply  # fmt: skip


def wrong_host(request: Request, forward: Forward) -> Reply:
    return forward(dataclasses.replace(request, headers={**request.headers, "host": "upstream"}))


def body_limit(request: Request, forward: Forward) -> Reply:
    return page(413, "Too Large") if len(request.body) > 100_000 else forward(request)


def posts_refused(request: Request, forward: Forward) -> Reply:
    return page(405, "Not Allowed") if request.method == "POST" else forward(request)


def gets_refused(request: Request, forward: Forward) -> Reply:
    if request.method == "GET" and request.path == "/mcp":
        return page(404, "nothing here")
    return forward(request)


def compressing(request: Request, forward: Forward) -> Reply:
    reply = forward(request)
    packed = dataclasses.replace(reply, body=gzip.compress(reply.body))
    return packed.with_header("content-encoding", "gzip")


def hanging(request: Request, forward: Forward) -> Reply:
    time.sleep(3)
    return Reply(504, {})


def upstream_down(_request: Request, _forward: Forward) -> Reply:
    return page(502, "Bad gateway")


def own_token(request: Request, forward: Forward) -> Reply:
    return Reply(200, {"content-type": "application/json"}, b'{"result":{}}')


def wrong_issuer(request: Request, forward: Forward) -> Reply:
    reply = forward(request)
    if not request.path.endswith("oauth-authorization-server"):
        return reply
    found = json.loads(reply.body)
    return dataclasses.replace(reply, body=json.dumps({**found, "issuer": "x:"}).encode())


def token_blocked(request: Request, forward: Forward) -> Reply:
    return page(403, "CSRF") if request.path == "/oauth/token" else forward(request)


class Cache:
    """Keeps the first answer for each address, as a careless CDN does."""

    def __init__(self, *, sign: str | None) -> None:
        self.kept: dict[str, Reply] = {}
        self.sign = sign

    def __call__(self, request: Request, forward: Forward) -> Reply:
        key = request.path
        if key in self.kept:
            kept = self.kept[key]
            return kept if self.sign is None else kept.with_header("x-cache", self.sign)
        self.kept[key] = forward(request)
        return self.kept[key]


BROKEN: dict[str, tuple[Fault, str, str, Side]] = {
    # name: the fault, the step that tells, the diagnosis, whose side it is on
    "stripped Authorization": (
        stripped_authorization, "bearer", "authorization_stripped", Side.PROXY),
    "redirecting slash": (redirecting_slash, "challenge", "redirecting_slash", Side.PROXY),
    "http where https is wanted": (to_https, "challenge", "http_to_https", Side.CLIENT),
    "redirect to a sign-in": (login_redirect, "challenge", "login_in_front", Side.PROXY),
    "sign-in page in front": (login_page, "challenge", "login_in_front", Side.PROXY),
    "password in front": (password, "challenge", "login_in_front", Side.PROXY),
    "firewall": (firewall, "challenge", "page_in_front", Side.PROXY),
    "well-known kept back": (no_well_known, "metadata", "not_forwarded", Side.PROXY),
    "one well-known missing": (one_well_known, "metadata", "missing_document", Side.PROXY),
    "stripped challenge": (stripped_challenge, "challenge", "challenge_stripped", Side.PROXY),
    "error pages of its own": (error_pages, "challenge", "page_in_front", Side.PROXY),
    "wrong Host": (wrong_host, "challenge", "wrong_host", Side.PROXY),
    "body limit": (body_limit, "bodies", "body_limit", Side.PROXY),
    "POST refused": (posts_refused, "challenge", "method_refused", Side.PROXY),
    "GET refused": (gets_refused, "get", "not_forwarded", Side.PROXY),
    "compressing": (compressing, "answers", "compressed", Side.PROXY),
    "no answer in time": (hanging, "challenge", "timeout", Side.NETWORK),
    "server down": (upstream_down, "challenge", "server_not_reached", Side.PROXY),
    "a token of its own": (own_token, "challenge", "no_challenge", Side.PROXY),
    "wrong issuer": (wrong_issuer, "server", "wrong_public_url", Side.SERVER),
    "token endpoint blocked": (token_blocked, "token", "page_in_front", Side.PROXY),
    "cached 401 that says so": (Cache(sign="HIT"), "bearer", "cached", Side.PROXY),
    "cached 401 in silence": (Cache(sign=None), "bearer", "cached", Side.PROXY),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_each_fault_of_the_way_is_named_with_its_step_and_side(walk: Walk, name: str) -> None:
    fault, step, code, side = BROKEN[name]

    found = failed(walk(fault))

    assert (found.step, found.code, found.side) == (step, code, side), found
    assert found.seen
    assert found.change


@pytest.mark.parametrize(
    ("public", "asked", "step", "code"),
    [
        ("https://elsewhere.example", "", "challenge", "wrong_public_url"),
        ("http://127.0.0.1:1", "", "challenge", "wrong_public_url"),
        ("", "{}/mcp/", None, None),
    ],
)
def test_a_wrong_public_address_is_told_from_a_right_one(
    walk: Walk, public: str, asked: str, step: str | None, code: str | None
) -> None:
    findings = walk(public=public, asked=asked)

    if step is None:
        assert Outcome.FAILS not in {each.outcome for each in findings}
    else:
        assert (failed(findings).step, failed(findings).code) == (step, code)


def test_http_behind_https_is_the_servers_setting(walk: Walk) -> None:
    with certificate() as (server, trusting):
        findings = walk(tls=server, verify=trusting, plain=True)

    assert (failed(findings).code, failed(findings).side) == ("http_behind_https", Side.SERVER)


def test_a_certificate_that_nobody_trusts_is_said(walk: Walk) -> None:
    with certificate() as (server, _):
        found = failed(walk(tls=server))

    assert (found.step, found.code, found.side) == ("challenge", "tls", Side.PROXY)


def test_nothing_at_the_address_is_said() -> None:
    with httpx2.Client(timeout=2) as client:
        findings = diagnose("http://127.0.0.1:1", client)

    assert (findings[0].code, findings[0].side) == ("unreachable", Side.NETWORK)
    assert {each.outcome for each in findings[1:]} <= {Outcome.SKIPPED, Outcome.WORKS}


def test_headers_for_browsers_are_no_matter(walk: Walk) -> None:
    """Hosts are no web pages: whatever a proxy says about origins neither helps nor hurts."""

    def cors(request: Request, forward: Forward) -> Reply:
        return forward(request).with_header("access-control-allow-origin", "https://x.example")

    assert Outcome.FAILS not in {each.outcome for each in walk(cors)}


def test_work_that_nobody_does_is_said_with_what_to_do(walk: Walk, settings: Any) -> None:
    settings.PDPP_BACKGROUND = False

    found = failed(walk())

    assert (found.code, found.outcome) == ("work_waits", Outcome.WARNS)
    assert "no other does it" in found.seen
    assert "manage.py run" in found.change


def test_a_server_whose_own_word_is_kept_back_is_not_blamed_for_it(walk: Walk) -> None:
    def kept_back(request: Request, forward: Forward) -> Reply:
        return page(404, "nginx") if request.path == "/readyz" else forward(request)

    beside = next(each for each in walk(kept_back) if each.step == "beside")

    assert beside.outcome is Outcome.SKIPPED
    assert "/readyz" in beside.seen


def test_every_host_has_a_walk_of_its_own() -> None:
    assert set(HOSTS) == {"claude", "chatgpt", "codex", "gemini"}


def test_the_command_prints_the_diagnosis_and_fails(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        call_command("doctor", "http://127.0.0.1:1", host="codex")

    told = capsys.readouterr().out
    assert ended.value.code == 1
    assert "FAIL  Ask /mcp without a token: Nothing can be reached" in told
    assert "side: network" in told
    assert "change: " in told


def test_programs_get_the_findings_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        call_command("doctor", "http://127.0.0.1:1", json=True)

    assert json.loads(capsys.readouterr().out)[0]["code"] == "unreachable"


def test_every_diagnosis_is_documented_and_every_documented_one_can_be_made() -> None:
    root = Path(__file__).parents[2]
    sources = "".join(path.read_text() for path in (root / "operations/doctor").glob("*.py"))
    made = set(re.findall(r'(?:wrong|doubtful)\(\s*"(\w+)"', sources))
    told = set(re.findall(r"`(\w+)`", (root / "docs/doctor.md").read_text().partition("|---|")[2]))

    assert told == made
