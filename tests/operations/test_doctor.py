"""The doctor diagnoses faults between a host and the server, with the site behind real proxies."""

import dataclasses
import gzip
import json
import re
import time
from collections.abc import Callable, Iterable
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeAlias

import httpx2
import pytest
from django.core.handlers.wsgi import WSGIHandler
from django.core.management import call_command
from django.db import connections
from django.utils import timezone

from operations.doctor import HOSTS, Finding, Outcome, Side, diagnose
from operations.models import Job
from pdpp_site import asgi_app
from pdpp_site.asgi_app import AsgiApp
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

pytestmark = pytest.mark.slow

Diagnose: TypeAlias = Callable[..., list[Finding]]


def pass_through(request: Request, forward: Forward) -> Reply:
    return forward(request)


def django(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
    """Serve Django and close the connections of the server's threads, which the test counts."""
    try:
        response = WSGIHandler()(environ, start_response)
        return [b"".join(response)]
    finally:
        connections.close_all()


@pytest.fixture
def run_doctor(transactional_db: None, settings: Any) -> Diagnose:
    """Diagnose the site through a proxy with a fault. `public` is PDPP_PUBLIC_URL, else the proxy."""

    def run(
        fault: Fault = pass_through, *, public: str = "", url: str = "", **more: Any
    ) -> list[Finding]:
        proxy = Proxy(fault, tls=more.pop("tls", None))
        public = public or proxy.url
        settings.PDPP_PUBLIC_URL = (
            public.replace("https:", "http:") if more.pop("plain", 0) else public
        )
        verify = more.pop("verify", True)
        with (
            served(AsgiApp(application=django, endpoint=asgi_app.endpoint())) as web,
            proxied(proxy),
            httpx2.Client(timeout=more.pop("timeout", 60), verify=verify) as client,
        ):
            proxy.upstream = web.port
            return diagnose(url.format(proxy.url) if url else proxy.url, client, **more)

    return run


def first_problem(findings: list[Finding]) -> Finding:
    """Return the first finding that fails or warns."""
    return next(
        finding for finding in findings if finding.outcome in {Outcome.FAILS, Outcome.WARNS}
    )


def test_sound_installation_passes_every_step_without_token(run_doctor: Diagnose) -> None:
    findings = run_doctor()

    assert [finding.step for finding in findings if finding.outcome is Outcome.WORKS] == [
        "challenge", "bearer", "get", "bodies", "answers", "metadata", "server", "address",
        "registration", "consent", "token", "beside",
    ]  # fmt: skip
    skipped = [finding for finding in findings if finding.outcome is Outcome.SKIPPED]
    assert [finding.step for finding in skipped] == ["tools", "search", "fetch"]
    assert "token" in skipped[0].seen


def test_steps_with_token_show_no_records(run_doctor: Diagnose) -> None:
    token = World.build().tokens["dora@mcp"]

    findings = run_doctor(bearer=token)

    assert {finding.outcome for finding in findings} == {Outcome.WORKS}
    assert len(findings) == 15
    output = json.dumps([dataclasses.asdict(finding) for finding in findings])
    assert token not in output
    assert "cin_" not in output


@pytest.mark.parametrize("host", ["codex", "gemini"])
def test_local_hosts_pass_every_step(run_doctor: Diagnose, host: str) -> None:
    assert {finding.outcome for finding in run_doctor(host=host)} == {
        Outcome.WORKS,
        Outcome.SKIPPED,
    }


@pytest.mark.parametrize("host", ["claude", "chatgpt"])
def test_cloud_hosts_need_a_public_address(run_doctor: Diagnose, host: str) -> None:
    problem = first_problem(run_doctor(host=host))

    assert (problem.code, problem.side) == ("not_public", Side.CLIENT)


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
    time.sleep(120)  # far longer than its client waits, in a thread that nobody waits for
    return Reply(504, {})


def upstream_down(_request: Request, _forward: Forward) -> Reply:
    return page(502, "Bad gateway")


def own_token(request: Request, forward: Forward) -> Reply:
    return Reply(200, {"content-type": "application/json"}, b'{"result":{}}')


def wrong_issuer(request: Request, forward: Forward) -> Reply:
    reply = forward(request)
    if not request.path.endswith("oauth-authorization-server"):
        return reply
    document = json.loads(reply.body)
    return dataclasses.replace(reply, body=json.dumps({**document, "issuer": "x:"}).encode())


def token_blocked(request: Request, forward: Forward) -> Reply:
    return page(403, "CSRF") if request.path == "/oauth/token" else forward(request)


class Cache:
    """Caches the first response for each path, like a misconfigured CDN."""

    def __init__(self, *, sign: str | None) -> None:
        self.cached: dict[str, Reply] = {}
        self.sign = sign

    def __call__(self, request: Request, forward: Forward) -> Reply:
        key = request.path
        if key in self.cached:
            cached = self.cached[key]
            return cached if self.sign is None else cached.with_header("x-cache", self.sign)
        self.cached[key] = forward(request)
        return self.cached[key]


BROKEN: dict[str, tuple[Fault, str, str, Side]] = {
    # name: fault, failing step, diagnosis, side
    "stripped Authorization": (
        stripped_authorization, "bearer", "authorization_stripped", Side.PROXY),
    "redirecting slash": (redirecting_slash, "challenge", "redirecting_slash", Side.PROXY),
    "http instead of https": (to_https, "challenge", "http_to_https", Side.CLIENT),
    "redirect to a sign-in": (login_redirect, "challenge", "login_in_front", Side.PROXY),
    "sign-in page in front": (login_page, "challenge", "login_in_front", Side.PROXY),
    "password in front": (password, "challenge", "login_in_front", Side.PROXY),
    "firewall": (firewall, "challenge", "page_in_front", Side.PROXY),
    "well-known not forwarded": (no_well_known, "metadata", "not_forwarded", Side.PROXY),
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
def test_each_proxy_fault_is_diagnosed_with_step_and_side(run_doctor: Diagnose, name: str) -> None:
    fault, step, code, side = BROKEN[name]

    # Only a client that waits for less than the fault gets no answer.
    problem = first_problem(run_doctor(fault, timeout=2 if fault is hanging else 60))

    assert (problem.step, problem.code, problem.side) == (step, code, side), problem
    assert problem.seen
    assert problem.change


@pytest.mark.parametrize(
    ("public", "url", "step", "code"),
    [
        ("https://elsewhere.example", "", "challenge", "wrong_public_url"),
        ("http://127.0.0.1:1", "", "challenge", "wrong_public_url"),
        ("", "{}/mcp/", None, None),
    ],
)
def test_wrong_public_url_is_diagnosed(
    run_doctor: Diagnose, public: str, url: str, step: str | None, code: str | None
) -> None:
    findings = run_doctor(public=public, url=url)

    if step is None:
        assert Outcome.FAILS not in {finding.outcome for finding in findings}
    else:
        assert (first_problem(findings).step, first_problem(findings).code) == (step, code)


def test_http_public_url_behind_https_is_diagnosed(run_doctor: Diagnose) -> None:
    with certificate() as (server, trusting):
        findings = run_doctor(tls=server, verify=trusting, plain=True)

    assert (first_problem(findings).code, first_problem(findings).side) == (
        "http_behind_https",
        Side.SERVER,
    )


def test_untrusted_certificate_is_diagnosed(run_doctor: Diagnose) -> None:
    with certificate() as (server, _):
        problem = first_problem(run_doctor(tls=server))

    assert (problem.step, problem.code, problem.side) == ("challenge", "tls", Side.PROXY)


def test_unreachable_address_is_diagnosed() -> None:
    with httpx2.Client(timeout=2) as client:
        findings = diagnose("http://127.0.0.1:1", client)

    assert (findings[0].code, findings[0].side) == ("unreachable", Side.NETWORK)
    assert {finding.outcome for finding in findings[1:]} <= {Outcome.SKIPPED, Outcome.WORKS}


def test_cors_headers_do_not_matter(run_doctor: Diagnose) -> None:
    def cors(request: Request, forward: Forward) -> Reply:
        return forward(request).with_header("access-control-allow-origin", "https://x.example")

    assert Outcome.FAILS not in {finding.outcome for finding in run_doctor(cors)}


def test_missing_background_worker_is_a_warning(run_doctor: Diagnose) -> None:
    Job.unscoped.create(name="upkeep", due_at=timezone.now() - timedelta(days=1))

    problem = first_problem(run_doctor())

    assert (problem.code, problem.outcome) == ("work_waits", Outcome.WARNS)
    assert "Background jobs have been waiting since" in problem.seen
    assert "manage.py run" in problem.change


def test_hidden_readyz_skips_the_step(run_doctor: Diagnose) -> None:
    def hide_readyz(request: Request, forward: Forward) -> Reply:
        return page(404, "nginx") if request.path == "/readyz" else forward(request)

    beside = next(finding for finding in run_doctor(hide_readyz) if finding.step == "beside")

    assert beside.outcome is Outcome.SKIPPED
    assert "/readyz" in beside.seen


def test_hosts_are_the_documented_ones() -> None:
    assert set(HOSTS) == {"claude", "chatgpt", "codex", "gemini"}


def test_command_prints_the_diagnosis_and_fails(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_error:
        call_command("doctor", "http://127.0.0.1:1", host="codex")

    output = capsys.readouterr().out
    assert exit_error.value.code == 1
    assert "FAIL  Request /mcp without a token: 127.0.0.1:1 cannot be reached" in output
    assert "side: network" in output
    assert "change: " in output


def test_json_option_prints_findings(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        call_command("doctor", "http://127.0.0.1:1", json=True)

    assert json.loads(capsys.readouterr().out)[0]["code"] == "unreachable"


def test_documentation_lists_exactly_the_diagnoses() -> None:
    root = Path(__file__).parents[2]
    sources = "".join(path.read_text() for path in (root / "operations/doctor").glob("*.py"))
    codes = set(re.findall(r'(?:failure|warning)\(\s*"(\w+)"', sources))
    documented = set(
        re.findall(r"`(\w+)`", (root / "docs/doctor.md").read_text().partition("|---|")[2])
    )

    assert documented == codes
