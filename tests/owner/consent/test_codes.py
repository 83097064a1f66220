"""Signing in with a code: what leads to a token, and everything that does not."""

import base64
import json
from datetime import timedelta
from urllib.parse import parse_qs, urlsplit

import pytest
import time_machine
from django.test import Client as HttpClient
from django.utils import timezone

from evidence import limits
from evidence.models.grants import AccessToken, Package
from owner.oauth.models import AuthorizationCode
from pdpp_site import asgi_app
from tests.mcp_adapter.real import post
from tests.owner.consent.client import CALLBACK, CHALLENGE, MCP, ORIGIN, Asking, answered, told
from tests.world import World

STORED = """
SELECT t::text FROM oauth_authorizationcode t UNION ALL SELECT t::text FROM evidence_accesstoken t
UNION ALL SELECT t::text FROM oauth_refreshtoken t
UNION ALL SELECT t::text FROM oauth_refreshfamily t
"""
OTHER = "another-verifier-of-more-than-forty-three-characters-0123"


def test_approved_client_reads(world: World, asking: Asking) -> None:
    answer = told(asking.answer(asking.ask()))
    assert (answer["state"], answer["iss"]) == ("xyz", ORIGIN)

    tokens = asking.exchange(answer["code"])

    assert tokens.status_code == 200
    assert tokens["Cache-Control"] == "no-store"
    body = tokens.json()
    assert (body["token_type"], body["expires_in"]) == ("Bearer", limits.ACCESS_SECONDS)
    assert body["scope"] == "pdpp:read offline_access"
    assert body["grant_id"].startswith("grt_")
    [detail] = body["authorization_details"]
    assert detail["source"]["id"] == "https://registry.example/connectors/mail"
    assert post(body["access_token"]).status_code == 200


def test_token_responses_have_no_cors_headers(asking: Asking) -> None:
    asking.program.defaults["HTTP_ORIGIN"] = "https://host.example"

    tokens = asking.exchange(asking.code())
    again = asking.refresh(tokens.json()["refresh_token"])

    for answer in (tokens, again):
        assert answer.status_code == 200
        assert "Access-Control-Allow-Origin" not in answer


def test_mcp_token_is_refused_by_rest(world: World, asking: Asking) -> None:
    bearer = asking.tokens()["access_token"]

    refused = world.get("/v1/schema", who=bearer)

    assert (refused.status, refused.error["code"]) == (401, "authentication_error")


@pytest.mark.parametrize("indicator", [ORIGIN, f"{ORIGIN}/", f"{ORIGIN}/v1"])
def test_rest_token_is_refused_by_mcp(world: World, asking: Asking, indicator: str) -> None:
    bearer = asking.exchange(asking.code(resource=indicator), resource=indicator).json()

    assert world.get("/v1/schema", who=bearer["access_token"]).status == 200
    assert post(bearer["access_token"]).status_code == 401


def test_events_token_works_for_events_only(world: World, asking: Asking) -> None:
    events = f"{ORIGIN}/mcp/events"
    bearer = asking.exchange(asking.code(resource=events), resource=events).json()["access_token"]

    assert asgi_app.authenticate(bearer, resource="/mcp/events").package_id is not None
    assert world.get("/v1/schema", who=bearer).status == 401
    assert post(bearer).status_code == 401


def test_denial_is_returned_to_the_client(asking: Asking) -> None:
    answer = told(asking.answer(asking.ask(), allow=False))

    assert answer["error"] == "access_denied"
    assert (answer["state"], answer["iss"]) == ("xyz", ORIGIN)
    assert not AuthorizationCode.unscoped.exists()


def test_reused_code_revokes_its_tokens(asking: Asking) -> None:
    code = asking.code()
    tokens = asking.exchange(code).json()
    assert post(tokens["access_token"]).status_code == 200

    again = asking.exchange(code)

    assert (again.status_code, again.json()["error"]) == (400, "invalid_grant")
    assert post(tokens["access_token"]).status_code == 401
    assert asking.refresh(tokens["refresh_token"]).json()["error"] == "invalid_grant"


def test_a_code_ends_after_two_minutes(asking: Asking) -> None:
    code = asking.code()

    with time_machine.travel(timezone.now() + timedelta(seconds=limits.CODE_SECONDS + 1)):
        late = asking.exchange(code)

    assert (late.status_code, late.json()["error"]) == (400, "invalid_grant")


@pytest.mark.parametrize(
    "wrong",
    [
        {"code_verifier": OTHER},
        {"code_verifier": CHALLENGE.decode()},
        {"code_verifier": None},
        {"redirect_uri": "http://localhost:33419/callback"},
        {"redirect_uri": None},
        {"code": "somebody-elses"},
    ],
)
def test_code_requires_its_verifier_and_redirect_uri(
    asking: Asking, wrong: dict[str, str | None]
) -> None:
    code = asking.code()

    refused = asking.token(
        **(
            {
                "grant_type": "authorization_code",
                "code": code,
                "client_id": asking.client_id,
                "redirect_uri": CALLBACK,
                "code_verifier": "a-verifier-of-more-than-forty-three-characters-0123456789",
            }
            | wrong
        )
    )

    assert refused.status_code == 400
    assert refused.json()["error"] in {"invalid_grant", "invalid_request"}
    assert refused.json()["error_description"]
    assert refused.json()["request_id"] == refused["Request-Id"]
    assert not AccessToken.unscoped.filter(package__client_id=asking.client_id).exists()


def test_code_works_for_its_client_only(asking: Asking) -> None:
    code = asking.code()
    other = asking.register().json()["client_id"]

    assert asking.exchange(code, client_id=other).json()["error"] == "invalid_grant"
    assert asking.exchange(code).status_code == 200


def test_token_request_for_another_resource_is_refused(asking: Asking) -> None:
    assert asking.exchange(asking.code(), resource=None).status_code == 200
    elsewhere = asking.exchange(asking.code(), resource=ORIGIN)

    assert elsewhere.json()["error"] == "invalid_target"


def test_error_of_an_app_that_the_owner_never_answered_is_shown(asking: Asking) -> None:
    wrong = {"response_type": "token", "resource": "https://elsewhere.example/mcp"}
    for browser in (asking.owner, asking.program):
        for name, value in wrong.items():
            answer = browser.get("/oauth/authorize", asking.parameters(**{name: value}))
            assert (answer.status_code, "Location" in answer) == (400, False)
            assert "Start again in the app." in answer.content.decode()
    incomplete = asking.owner.get("/oauth/authorize", asking.parameters(code_challenge=None))
    assert "A parameter is missing, repeated or invalid." in incomplete.content.decode()

    asking.code()

    assert told(asking.ask(**wrong))["error"] == "unsupported_response_type"
    signed_out = asking.program.get("/oauth/authorize", asking.parameters(**wrong))
    assert (signed_out.status_code, "Location" in signed_out) == (400, False)


def test_invalid_request_is_returned_to_the_client_and_described(asking: Asking) -> None:
    asking.code()
    challenges = ("short", "x" * 44, f"{'x' * 42}=", f"{'x' * 42}+")
    for error, wrong in (
        ("invalid_request", {"code_challenge_method": "plain"}),
        ("invalid_request", {"code_challenge_method": None}),
        ("invalid_request", {"code_challenge": None}),
        ("invalid_request", {"code_challenge": None, "code_challenge_method": None}),
        ("invalid_request", {"response_type": None}),
        ("unsupported_response_type", {"response_type": "token"}),
        ("invalid_authorization_details", {"authorization_details": "[{}]"}),
        *(("invalid_request", {"code_challenge": challenge}) for challenge in challenges),
        ("invalid_target", {"resource": "https://elsewhere.example/mcp"}),
        ("invalid_scope", {"scope": "pdpp:collect"}),
    ):
        answer = told(asking.ask(**wrong))
        assert (answer["error"], answer["state"], answer["iss"]) == (error, "xyz", ORIGIN), wrong
        assert answer["error_description"].endswith("."), wrong
        assert not wrong.get("code_challenge") or "code_challenge" in answer["error_description"]


def test_unregistered_redirect_uri_gets_no_redirect(asking: Asking) -> None:
    for wrong in (
        {"client_id": "cli_unknown"},
        {"client_id": None},
        {"client_id": "nul\x00"},
        {"redirect_uri": "https://thief.example/callback"},
        {"redirect_uri": "http://localhost:33418/elsewhere"},
        {"redirect_uri": "http://localhost:33418/callback?more=1"},
        {"redirect_uri": "http://localhost:33418/callback#fragment"},
        {"redirect_uri": "http://localhost@thief.example:33418/callback"},
        {"redirect_uri": "http://localhost:33418\\@thief.example/callback"},
        {"redirect_uri": "https://localhost:33418/callback"},
        {"redirect_uri": "http://localhost:33418/callback;more=1"},
        {"redirect_uri": "http://localhost:33418/callback?"},
        {"redirect_uri": "HTTP://localhost:33418/callback"},
        {"redirect_uri": "http://LOCALHOST:33418/callback"},
        {"redirect_uri": "http://localhost:/callback"},
        {"redirect_uri": "http://127.0.0.1:33418/callback"},
    ):
        answer = asking.ask(**wrong)
        assert answer.status_code == 400, wrong
        assert "Location" not in answer, wrong

    for wrong in ({"client_id": "cli_unknown"}, {"redirect_uri": "https://thief.example/callback"}):
        assert "The app is not registered here, or" in asking.ask(**wrong).content.decode()


def test_redirect_uri_elsewhere_than_on_loopback_is_compared_exactly(world: World) -> None:
    registered = "https://app.example/callback?from=pdpp"
    asking = Asking.registered(redirect_uris=[registered, "cursor://anysphere.mcp/callback"])

    assert asking.ask(redirect_uri=registered).status_code == 200
    for wrong in (
        "https://app.example:443/callback?from=pdpp",
        "https://APP.example/callback?from=pdpp",
        "https://app.example/callback?from=pdpp&more=1",
        "https://app.example/callback;more?from=pdpp",
        "https://app.example/x/../callback?from=pdpp",
        "cursor://anysphere.mcp:1/callback",
        "CURSOR://anysphere.mcp/callback",
    ):
        answer = asking.ask(redirect_uri=wrong)
        assert (answer.status_code, "Location" in answer) == (400, False), wrong


@pytest.mark.parametrize(
    ("registered", "used"),
    [
        ("http://localhost:1/callback", "http://localhost:50123/callback"),
        ("http://localhost/callback", "http://localhost:50123/callback"),
        ("http://127.0.0.1:1/oauth/callback", "http://127.0.0.1:50123/oauth/callback"),
        ("http://[::1]/callback", "http://[::1]:50123/callback"),
        ("cursor://anysphere.mcp/callback", "cursor://anysphere.mcp/callback"),
        ("https://claude.ai/api/mcp/auth_callback", "https://claude.ai/api/mcp/auth_callback"),
    ],
)
def test_loopback_redirect_accepts_any_port(world: World, registered: str, used: str) -> None:
    asking = Asking.registered(redirect_uris=[registered])

    answer = asking.answer(asking.ask(redirect_uri=used))

    assert answer["Location"].startswith(f"{used}?")
    assert asking.exchange(told(answer)["code"], redirect_uri=used).status_code == 200


def test_authorize_get_changes_nothing(asking: Asking) -> None:
    def rows() -> list[int]:
        return [model.unscoped.count() for model in (Package, AccessToken, AuthorizationCode)]

    before = rows()
    stranger = asking.program.get("/oauth/authorize", asking.parameters())
    asking.ask()

    assert stranger.status_code == 302
    assert urlsplit(stranger["Location"]).path == "/login"
    [back] = parse_qs(urlsplit(stranger["Location"]).query)["next"]
    assert back.startswith("/oauth/authorize?response_type=code")
    assert rows() == before


def test_authorize_redirects_to_sign_in(asking: Asking) -> None:
    owner = HttpClient()
    from django.contrib.auth.models import User

    alice = User.objects.get()
    alice.set_password("correct horse")
    alice.save()
    path = asking.program.get("/oauth/authorize", asking.parameters())["Location"]

    wrong = owner.post(path, {"username": "alice", "password": "wrong"})
    signed = owner.post(path, {"username": "alice", "password": "correct horse"})
    page = owner.get(signed["Location"])

    assert wrong.status_code == 200
    assert told(answered(owner, page))["code"]


@pytest.mark.parametrize("elsewhere", ["https://thief.example/", "//thief.example", "javascript:x"])
def test_sign_in_does_not_redirect_to_other_sites(asking: Asking, elsewhere: str) -> None:
    answer = asking.owner.get("/login", {"next": elsewhere})
    form = HttpClient().get("/login", {"next": elsewhere})

    assert answer.status_code == 200 or answer["Location"] == "/admin/"
    assert elsewhere not in form.content.decode()


def test_non_owner_is_asked_to_sign_in(asking: Asking) -> None:
    from django.contrib.auth.models import User

    other = HttpClient()
    other.force_login(User.objects.create_user("mallory", is_staff=True))

    assert other.get("/oauth/authorize", asking.parameters())["Location"].startswith("/login?")
    assert other.post("/oauth/authorize", {"decision": "allow"}).status_code == 403


def test_decision_applies_to_the_signed_request(asking: Asking) -> None:
    page = asking.ask()
    sealed = page.content.decode().partition('name="question" value="')[2].partition('"')[0]
    forged = base64.urlsafe_b64encode(json.dumps(["client_id=x", 1]).encode()).decode()

    for wrong in (sealed[:-2], forged, ""):
        answer = HttpClient()
        answer.cookies = asking.owner.cookies
        refused = answer.post("/oauth/authorize", {"question": wrong, "decision": "allow"})
        assert (refused.status_code, "Location" in refused) == (400, False)


def test_decision_requires_a_csrf_token(asking: Asking) -> None:
    asking.ask()

    refused = asking.owner.post("/oauth/authorize", {"decision": "allow"})

    assert refused.status_code == 403


def test_page_form_may_redirect_to_the_client_only(asking: Asking) -> None:
    policy = asking.ask()["Content-Security-Policy"]

    assert "form-action 'self' http://localhost:33418;" in policy
    assert "frame-ancestors 'none'" in policy


@pytest.mark.parametrize(
    ("redirect_uri", "allowed"),
    [("http://[::1]:5/callback", "http:"), ("cursor://anysphere.mcp/callback", "cursor:")],
)
def test_form_action_falls_back_to_the_scheme(
    world: World, redirect_uri: str, allowed: str
) -> None:
    asking = Asking.registered(redirect_uris=[redirect_uri])

    policy = asking.ask(redirect_uri=redirect_uri)["Content-Security-Policy"]

    assert f"form-action 'self' {allowed};" in policy


def test_unknown_scope_is_ignored(asking: Asking) -> None:
    tokens = asking.tokens(scope="records:read everything")

    assert tokens["scope"] == "pdpp:read"


def test_codes_and_tokens_are_stored_as_keyed_hashes(asking: Asking) -> None:
    from django.db import connection

    code = asking.code()
    tokens = asking.exchange(code).json()
    with connection.cursor() as cursor:
        cursor.execute(STORED)
        stored = " ".join(row[0] for row in cursor)
    for secret in (code, tokens["access_token"], tokens["refresh_token"]):
        assert secret not in stored
        assert secret.encode().hex() not in stored


def test_default_endpoints_without_metadata_work(asking: Asking) -> None:
    page = asking.owner.get("/authorize", asking.parameters())

    code = told(answered(asking.owner, page))["code"]

    sent = {"grant_type": "authorization_code", "code": code, "redirect_uri": CALLBACK}
    sent |= {"client_id": asking.client_id, "resource": MCP}
    sent["code_verifier"] = "a-verifier-of-more-than-forty-three-characters-0123456789"
    assert asking.program.post("/token", sent).status_code == 200


def test_unsupported_grant_type_is_refused(asking: Asking) -> None:
    for grant_type in ("", "password", "client_credentials", "implicit"):
        answer = asking.program.post("/oauth/token", {"grant_type": grant_type})
        assert (answer.status_code, answer.json()["error"]) == (400, "unsupported_grant_type")


LOCALHOST = "http://localhost:8000"


def test_sign_in_under_another_loopback_name_is_one_under_that_name(asking: Asking) -> None:
    for browser in (asking.owner, asking.program):
        browser.defaults["HTTP_HOST"] = "localhost:8000"

    answer = told(asking.answer(asking.ask(resource=f"{LOCALHOST}/mcp")))
    tokens = asking.exchange(answer["code"], resource=f"{LOCALHOST}/mcp").json()

    assert answer["iss"] == LOCALHOST
    assert post(tokens["access_token"]).status_code == 200


def test_another_server_on_this_computer_is_another_resource(asking: Asking) -> None:
    asking.code()
    for origin in ("http://localhost:9999", "http://localhost", "https://localhost:8000"):
        assert told(asking.ask(resource=f"{origin}/mcp"))["error"] == "invalid_target"


def test_errors_under_another_loopback_name_are_of_that_issuer(asking: Asking) -> None:
    asking.code()
    asking.owner.defaults["HTTP_HOST"] = "localhost:8000"

    assert told(asking.ask(resource="https://elsewhere.example"))["iss"] == LOCALHOST
    assert told(asking.answer(asking.ask(), allow=False))["iss"] == LOCALHOST


def test_upper_case_scheme_and_host_of_a_resource_are_normalized(asking: Asking) -> None:
    tokens = asking.tokens(resource="HTTP://LOCALHOST:8000/mcp")

    assert post(tokens["access_token"]).status_code == 200


@pytest.mark.parametrize("path", ["/oauth/par", "/oauth/device_authorization", "/oauth/token"])
def test_wrong_credentials_in_the_header_are_challenged(asking: Asking, path: str) -> None:
    answer = asking.program.post(
        path,
        {"grant_type": "authorization_code", "code": "x"},
        headers={"authorization": "Basic eDp5"},
    )

    assert (answer.status_code, answer.json()["error"]) == (401, "invalid_client")
    assert answer["WWW-Authenticate"] == 'Basic realm="token"'
