"""Text that PostgreSQL or UTF-8 cannot hold gets a typed 4xx on every route of the route table."""

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any
from urllib.parse import quote, urlencode

import pytest
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver

from owner.accounts import sign_in_throttle
from owner.oauth.server import GRANT_TYPES
from tests.owner.consent.client import CALLBACK, CHALLENGE
from tests.owners import sign_up
from tests.world import PERSONAL, World

pytestmark = pytest.mark.slow

HOSTILE = {
    "NUL": b"a\x00b",
    "surrogate and no UTF-8": b"\xed\xa0\x80\xff\xfe",
    "long": b"9" * 3_000,
}
"""As bytes on the wire, percent-encoded."""
JSON_TYPE = "application/json"
FORM_TYPE = "application/x-www-form-urlencoded"
LIBRARY_STATE = [
    "client", "user", "scopes", "extra_credentials", "request_token", "claims", "pdpp_row",
    "pdpp_standing",
]  # fmt: skip
JSON_TEXTS = [
    '{"\\ud800": "\\u0000"}',
    '"a\\u0000b"',
    '"\\ud800"',
    '["\\u0000"]',
    "1" * 400,
    "null",
]
FOUND = {"stream": "messages", "record_id": "m2", "record_key": "m2", "connection_id": PERSONAL}
FORM = [
    "action", "again", "approval", "authorization_details", "client", "client_id", "client_name",
    "client_secret", "code", "code_challenge", "code_verifier", "connection", "connections",
    "decision", "device_code", "extra_credentials", "form", "grant", "grant_type", "issue", "kind",
    "mark", "name", "new_client", "next", "package", "password", "pdpp_row", "pick", "polling_code",
    "question", "redirect_uri", "refresh_token", "request_uri", "resource", "response_type",
    "revision", "scope", "scopes", "start", "state", "token", "token_type_hint", "user",
    "user_code", "username", "_selected_action",
]  # fmt: skip
MEMBERS = ["redirect_uris", "callback_url", "streams", "contacts", "grant_types"]
QUERY = [
    "all", "client", "client_id", "connection", "day", "form", "from", "grant", "id", "kind", "key",
    "name", "next", "o", "offset", "p", "package", "q", "record_key", "redirect_uri", "request_uri",
    "resource", "run", "scope", "size", "state", "stream", "until", "upload", "user_code", "who",
    "with", "_changelist_filters", "_popup",
]  # fmt: skip


def sampled(values: Iterable[Any]) -> list[Any]:
    """Parameters of a test over all routes: `make test` runs the first, `make test-all` all of them."""
    first, *others = values
    return [first, *(pytest.param(value, marks=pytest.mark.slow) for value in others)]


def routes(resolver: URLResolver | None = None, before: str = "") -> Iterator[tuple[str, Any]]:
    """Every pattern with its view, groups of regular expressions as converters."""
    for each in (resolver or get_resolver()).url_patterns:
        pattern = before + re.sub(
            r"\(\?P(<\w+>)[^)]*\)|[\^$]|\\Z|\[.*\]\*", r"\1", str(each.pattern)
        )
        if isinstance(each, URLPattern):
            yield pattern, each.callback
        else:
            yield from routes(each, pattern)


ROUTES = list(routes())


def path(pattern: str, **changed: bytes) -> str:
    def segment(found: re.Match[str]) -> str:
        name = found.group(1)
        return quote(changed.get(name, FOUND.get(name, "1").encode()))

    return "/" + re.sub(r"<(?:\w+:)?(\w+)>", segment, pattern)


def names(pattern: str) -> list[str]:
    return re.findall(r"<(?:\w+:)?(\w+)>", pattern)


def is_for_programs(view: Any) -> bool:
    """Whether the view takes forms and JSON of strangers: OAuth and what belongs to it."""
    return getattr(view, "csrf_exempt", False) and not hasattr(view, "view_class")


def parameters(view: Any) -> list[str]:
    known = getattr(getattr(view, "view_class", None), "parameters", None)
    return QUERY if known is None else sorted(known.model_fields)


@pytest.fixture
def owner(world: World) -> Client:
    """The owner's browser and program in one."""
    bearer = {"Authorization": f"Bearer {world.tokens['alice']}"}
    owner = Client(raise_request_exception=False, headers=bearer)
    owner.force_login(sign_up("alice"))
    return owner


@pytest.fixture
def stranger(world: World) -> Client:
    return Client(raise_request_exception=False)


def failed(client: Client, method: str, address: str, **sent: Any) -> list[str]:
    """The request, where its answer is an error of the server."""
    answer: Any = client.generic(method, address, **sent)
    if answer.streaming:
        b"".join(answer)
    sign_in_throttle.reset_throttle()
    return [f"{method} {address[:200]} {str(sent)[:200]}"] if answer.status_code >= 500 else []


@pytest.mark.parametrize("kind", sampled(HOSTILE))
def test_hostile_text_in_a_path_segment_is_no_error_of_the_server(
    owner: Client, stranger: Client, kind: str
) -> None:
    found: list[str] = []
    for pattern, _ in ROUTES:
        for name in names(pattern):
            address = path(pattern, **{name: HOSTILE[kind]})
            for method in ("GET", "POST", "DELETE"):
                found += failed(stranger, method, address)
                found += failed(owner, method, f"{address}?field=subject&connection_id={PERSONAL}")
    assert found == []


@pytest.mark.parametrize("kind", sampled(HOSTILE))
def test_hostile_text_in_a_query_is_no_error_of_the_server(
    owner: Client, stranger: Client, kind: str
) -> None:
    found: list[str] = []
    for pattern, view in ROUTES:
        known = parameters(view)
        whole = urlencode(dict.fromkeys(known, HOSTILE[kind]))
        found += failed(stranger, "GET", path(pattern), QUERY_STRING=whole)
        found += failed(owner, "POST", path(pattern), QUERY_STRING=whole)
        for name in known if known is not QUERY else ():
            sent = {"field": b"subject"} if "field" in known else {}
            query = urlencode(sent | {name: HOSTILE[kind]})
            found += failed(owner, "GET", path(pattern), QUERY_STRING=query)
        name = quote(HOSTILE[kind])
        found += failed(owner, "GET", path(pattern), QUERY_STRING=f"{name}=1&filter[{name}]=1")
    assert found == []


@pytest.mark.parametrize("kind", sampled(HOSTILE))
def test_hostile_text_in_a_form_is_no_error_of_the_server(
    owner: Client, stranger: Client, kind: str
) -> None:
    found: list[str] = []
    for pattern, view in ROUTES:
        whole = urlencode(dict.fromkeys(FORM, HOSTILE[kind]))
        for client in (owner, stranger):
            found += failed(client, "POST", path(pattern), data=whole, content_type=FORM_TYPE)
        for name in FORM if is_for_programs(view) else ():
            sent = urlencode({name: HOSTILE[kind]})
            found += failed(stranger, "POST", path(pattern), data=sent, content_type=FORM_TYPE)
    assert found == []


@pytest.mark.parametrize("name", LIBRARY_STATE)
def test_a_parameter_named_like_state_of_the_library_is_ignored(
    owner: Client, stranger: Client, name: str
) -> None:
    registration = json.dumps({"redirect_uris": [CALLBACK]})
    registered = stranger.post("/oauth/register", registration, "application/json").json()
    asked = {
        "client_id": registered["client_id"], "response_type": "code", "redirect_uri": CALLBACK,
        "code_challenge": CHALLENGE.decode(), "code_challenge_method": "S256", name: "x",
    }  # fmt: skip
    secrets = dict.fromkeys(("code", "refresh_token", "device_code", "token"), "x")
    forms = [asked, *(asked | secrets | {"grant_type": each} for each in GRANT_TYPES)]
    found = failed(owner, "GET", "/oauth/authorize", QUERY_STRING=urlencode(asked))
    for sent in forms:
        for address in ("par", "token", "revoke", "device_authorization"):
            found += failed(
                stranger, "POST", f"/oauth/{address}", data=urlencode(sent), content_type=FORM_TYPE
            )
    assert found == []


@pytest.mark.parametrize("text", sampled(JSON_TEXTS))
def test_hostile_text_in_json_is_no_error_of_the_server(
    owner: Client, stranger: Client, text: str
) -> None:
    found: list[str] = []
    for pattern, view in ROUTES:
        if not getattr(view, "csrf_exempt", False):
            continue
        members = [f'"{name}": {text}' for name in [*FORM, *MEMBERS]]
        bodies = [text, "{" + ", ".join(members) + "}"]
        if is_for_programs(view):
            bodies += ["{" + each + "}" for each in members]
        for body in bodies:
            found += failed(stranger, "POST", path(pattern), data=body, content_type=JSON_TYPE)
        found += failed(owner, "POST", path(pattern), data=bodies[1], content_type=JSON_TYPE)
    assert found == []


@pytest.mark.parametrize(
    "kind",
    sampled(["multipart/form-data; boundary=a; charset=hex", "multipart/form-data", "a", "",
     "application/x-www-form-urlencoded; charset=hex",
     "application/x-www-form-urlencoded; charset=undefined",
     "multipart/form-data; boundary=a; charset=idna", "application/json; charset=zlib"]),
)  # fmt: skip
def test_an_odd_content_type_is_no_error_of_the_server(
    owner: Client, stranger: Client, kind: str
) -> None:
    body = b'--a\r\nContent-Disposition: form-data; name="code"\r\n\r\n\xff\x00\r\n--a--\r\n'
    found: list[str] = []
    for pattern, _ in ROUTES:
        for client in (owner, stranger):
            found += failed(client, "POST", path(pattern), data=body, content_type=kind)
    assert found == []
