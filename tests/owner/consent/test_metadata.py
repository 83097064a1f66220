"""What a client reads before it does anything, word for word."""

import hashlib
import re

import pytest
from django.test import Client as HttpClient
from pytest_django import Settings

from mcp_adapter.server import TOOLS

ORIGIN = "https://records.example"


@pytest.fixture
def documents(settings: Settings) -> HttpClient:
    settings.PDPP_PUBLIC_URL = ORIGIN
    return HttpClient()


def test_authorization_server_metadata_is_complete(documents: HttpClient) -> None:
    answer = documents.get("/.well-known/oauth-authorization-server")

    assert answer["Cache-Control"] == "no-store"
    assert answer.json() == {
        "issuer": ORIGIN,
        "authorization_endpoint": f"{ORIGIN}/oauth/authorize",
        "token_endpoint": f"{ORIGIN}/oauth/token",
        "introspection_endpoint": f"{ORIGIN}/introspect",
        "revocation_endpoint": f"{ORIGIN}/oauth/revoke",
        "pushed_authorization_request_endpoint": f"{ORIGIN}/oauth/par",
        "registration_endpoint": f"{ORIGIN}/oauth/register",
        "device_authorization_endpoint": f"{ORIGIN}/oauth/device_authorization",
        "agent_connect_endpoint": f"{ORIGIN}/agent-connect",
        "scopes_supported": ["pdpp:read", "offline_access"],
        "response_types_supported": ["code"],
        "response_modes_supported": ["query"],
        "grant_types_supported": [
            "urn:ietf:params:oauth:grant-type:device_code",
            "authorization_code",
            "refresh_token",
        ],
        "code_challenge_methods_supported": ["S256"],
        "token_endpoint_auth_methods_supported": [
            "none",
            "client_secret_basic",
            "client_secret_post",
        ],
        "revocation_endpoint_auth_methods_supported": [
            "none",
            "client_secret_basic",
            "client_secret_post",
        ],
        "introspection_endpoint_auth_methods_supported": ["client_secret_basic"],
        "authorization_details_types_supported": ["https://pdpp.dev/data-access"],
        "authorization_response_iss_parameter_supported": True,
        "client_id_metadata_document_supported": True,
        "pdpp_registration_modes_supported": ["dynamic", "client_id_metadata_document"],
        "pdpp_pre_registered_public_clients": [],
        "pdpp_authorization_details_types_supported": ["https://pdpp.dev/data-access"],
        "pdpp_provider_connect_capabilities": ["cli_device_connect", "third_party_client_connect"],
        "pdpp_device_authorization_profiles_supported": [
            {"profile": "grant_scoped_mcp"},
            {"profile": "collector", "scope": "pdpp:collect"},
        ],
    }


def test_the_endpoint_for_agents_says_all_of_itself(documents: HttpClient) -> None:
    assert documents.get("/.well-known/oauth-protected-resource/mcp").json() == {
        "resource": f"{ORIGIN}/mcp",
        "resource_name": "PDPP personal records",
        "authorization_servers": [ORIGIN],
        "bearer_methods_supported": ["header"],
        "scopes_supported": ["pdpp:read"],
        "pdpp_core_query_base": f"{ORIGIN}/v1",
        "pdpp_provider_connect_version": "0.1.0",
        "pdpp_self_export_supported": False,
        "pdpp_token_kinds_supported": ["client", "mcp_package"],
        "pdpp_agent_discovery": {
            "advisory": True,
            "recommended_flow": "pdpp connect",
            "skill": f"{ORIGIN}/.well-known/skills/read-personal-data/SKILL.md",
            "skill_catalog": f"{ORIGIN}/.well-known/skills/index.json",
            "skill_name": "read-personal-data",
            "cli": {
                "bin_name": "pdpp",
                "connect_command": f"pdpp connect {ORIGIN}",
                "no_owner_token": True,
            },
            "mcp": {
                "endpoint": f"{ORIGIN}/mcp",
                "transport": "streamable_http",
                "setup_intent": "grant_scoped_read",
                "tool_surface": "profile_free_normal_read",
                "no_owner_token": True,
            },
        },
    }


def test_the_root_document_adds_what_a_program_of_rest_needs(documents: HttpClient) -> None:
    root = documents.get("/.well-known/oauth-protected-resource").json()

    assert (root["resource"], root["authorization_servers"]) == (ORIGIN, [ORIGIN])
    assert set(root) == {
        "authorization_servers",
        "bearer_methods_supported",
        "capabilities",
        "pdpp_agent_discovery",
        "pdpp_core_query_base",
        "pdpp_discovery_hints",
        "pdpp_extension_parameters",
        "pdpp_provider_connect_version",
        "pdpp_self_export_supported",
        "pdpp_token_kinds_supported",
        "resource",
        "resource_name",
        "scopes_supported",
    }


@pytest.mark.parametrize(
    "name", ["authorization_endpoint", "device_authorization_endpoint", "agent_connect_endpoint"]
)
def test_advertised_endpoints_exist(documents: HttpClient, name: str) -> None:
    found = documents.get("/.well-known/oauth-authorization-server").json()
    paths = [value.removeprefix(ORIGIN) for key, value in found.items() if key.endswith("endpoint")]

    for path in paths:
        assert documents.options(path).status_code != 404, path
    assert found[name].startswith(ORIGIN)


def test_metadata_uses_the_public_url(documents: HttpClient) -> None:
    answer = documents.get("/.well-known/oauth-authorization-server", headers={"Host": "localhost"})

    assert answer.json()["issuer"] == ORIGIN


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("localhost:8000", "http://localhost:8000"),
        ("LOCALHOST:8000", "http://localhost:8000"),
        ("[::1]:8000", "http://[::1]:8000"),
        ("127.0.0.1:8000", "http://127.0.0.1:8000"),
        ("localhost:9999", "http://127.0.0.1:8000"),
        ("localhost", "http://127.0.0.1:8000"),
        ("testserver", "http://127.0.0.1:8000"),
    ],
)
def test_loopback_server_describes_itself_under_the_requested_name(host: str, url: str) -> None:
    client = HttpClient(HTTP_HOST=host)

    server = client.get("/.well-known/oauth-authorization-server").json()
    resource = client.get("/.well-known/oauth-protected-resource/mcp").json()
    refused = client.get("/v1/schema")

    assert (server["issuer"], server["token_endpoint"]) == (url, f"{url}/oauth/token")
    assert (resource["resource"], resource["authorization_servers"]) == (f"{url}/mcp", [url])
    assert f'"{url}/.well-known/oauth-protected-resource"' in refused["WWW-Authenticate"]
    assert refused.json()["error"]["resource_metadata"].startswith(url)


@pytest.mark.parametrize("host", ["localhost", "localhost:8000", "127.0.0.1"])
def test_public_server_describes_itself_under_its_own_name_only(
    documents: HttpClient, host: str
) -> None:
    server = documents.get("/.well-known/oauth-authorization-server", headers={"host": host})

    assert server.json()["issuer"] == ORIGIN


CORS_PATHS = (
    "/.well-known/oauth-authorization-server",
    "/.well-known/oauth-protected-resource",
    "/.well-known/oauth-protected-resource/mcp",
    "/oauth/register",
    "/oauth/token",
    "/oauth/revoke",
)


@pytest.mark.django_db
@pytest.mark.parametrize("method", ["GET", "POST", "OPTIONS"])
@pytest.mark.parametrize("path", CORS_PATHS)
def test_pages_of_all_origins_may_sign_in_where_the_server_is_public(
    documents: HttpClient, path: str, method: str
) -> None:
    answer = documents.generic(method, path, headers={"origin": "https://app.example"})

    assert answer["Access-Control-Allow-Origin"] == "*"
    assert "Access-Control-Allow-Credentials" not in answer
    if method == "OPTIONS":
        assert answer.status_code == 204
        assert "mcp-protocol-version" in answer["Access-Control-Allow-Headers"]


@pytest.mark.django_db
@pytest.mark.parametrize("path", CORS_PATHS)
@pytest.mark.parametrize(
    "url",
    ["http://127.0.0.1:8000", "https://localhost", "https://192.168.1.5", "https://nas.local",
     "http://records.example"],
)  # fmt: skip
def test_no_page_of_another_origin_signs_in_at_a_private_server(
    settings: Settings, url: str, path: str
) -> None:
    settings.PDPP_PUBLIC_URL = url

    for method in ("GET", "POST", "OPTIONS"):
        answer = HttpClient().generic(method, path, headers={"origin": "https://app.example"})
        assert "Access-Control-Allow-Origin" not in answer


@pytest.mark.django_db
@pytest.mark.parametrize(
    "path",
    ["/oauth/register", "/register", "/oauth/device_authorization", "/oauth/par", "/agent-connect"],
)
def test_no_page_of_another_origin_registers_apps_at_a_private_server(
    settings: Settings, path: str
) -> None:
    settings.PDPP_PUBLIC_URL = "http://127.0.0.1:8000"
    settings.CSRF_TRUSTED_ORIGINS = ["http://127.0.0.1:8000"]

    for origin in ("https://evil.example", "null"):
        answer = HttpClient().post(path, "{}", "text/plain", headers={"origin": origin})
        assert answer.status_code == 403
    for headers in ({}, {"origin": "http://127.0.0.1:8000"}):
        assert HttpClient().post(path, "{}", "text/plain", headers=headers).status_code != 403
    settings.PDPP_PUBLIC_URL = "https://records.example"
    other = HttpClient().post(path, "{}", "text/plain", headers={"origin": "https://app.example"})
    assert other.status_code != 403, "apps in a browser sign in at a public server"


@pytest.mark.django_db
@pytest.mark.parametrize("path", ["/oauth/authorize", "/login", "/v1/schema", "/introspect", "/"])
def test_other_addresses_are_closed_to_pages_of_other_origins(
    documents: HttpClient, path: str
) -> None:
    answer = documents.get(path, headers={"origin": "https://app.example"})

    assert "Access-Control-Allow-Origin" not in answer


def test_the_skill_is_in_the_catalog_and_names_only_what_exists(documents: HttpClient) -> None:
    discovery = documents.get("/.well-known/oauth-protected-resource").json()[
        "pdpp_agent_discovery"
    ]
    answer = documents.get(discovery["skill"].removeprefix(ORIGIN))
    [skill] = documents.get(discovery["skill_catalog"].removeprefix(ORIGIN)).json()["skills"]

    text = answer.content.decode()
    _, head, body = text.split("---\n", 2)
    about = dict(line.split(": ", 1) for line in head.splitlines())
    assert answer["Content-Type"].startswith("text/markdown")
    assert about == {"name": skill["name"], "description": skill["description"]}
    assert re.fullmatch("[a-z0-9-]{1,64}", about["name"])
    assert len(about["description"]) <= 1_024
    assert skill["digest"] == f"sha256:{hashlib.sha256(answer.content).hexdigest()}"
    assert f"{ORIGIN}/mcp" in body
    called = set(re.findall(r"`(\w+)\(", body)) | {"query_records", "aggregate"}
    assert called <= set(TOOLS)
