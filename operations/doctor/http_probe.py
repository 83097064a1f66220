"""The state of one diagnosis, its findings, and single HTTP requests without redirects or retries.

A finding is the outcome of a step, the responsible side and the fix. A request that fails tells which
network error or proxy is to blame.
"""

import ipaddress
import json
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any
from urllib.parse import urljoin, urlsplit

import httpx2


class Outcome(StrEnum):
    """The outcome of a step."""

    WORKS = "works"
    WARNS = "warns"
    FAILS = "fails"
    SKIPPED = "skipped"


class Side(StrEnum):
    """The side that can fix a problem."""

    SERVER = "server"
    PROXY = "proxy"
    CLIENT = "client"
    NETWORK = "network"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The result of one step: what it tried and saw, which side must act, and what to change.

    `code` names the diagnosis for programs and is empty when the step works.
    """

    step: str
    outcome: Outcome
    tried: str
    seen: str
    code: str = ""
    side: Side | None = None
    change: str = ""


class StepFailedError(Exception):
    """A step found a problem that stops a host."""

    def __init__(
        self, code: str, side: Side, *, seen: str, change: str, outcome: Outcome = Outcome.FAILS
    ) -> None:
        super().__init__(code)
        self.code = code
        self.side = side
        self.seen = seen
        self.change = change
        self.outcome = outcome


class StepSkippedError(Exception):
    """A step that cannot run from here. The message says why."""


def failure(code: str, side: Side, *, seen: str, change: str) -> StepFailedError:
    """Return the error of a step that fails for every host."""
    return StepFailedError(code, side, seen=seen, change=change)


def warning(code: str, side: Side, *, seen: str, change: str) -> StepFailedError:
    """Return the error of a step that fails for some hosts only."""
    return StepFailedError(code, side, seen=seen, change=change, outcome=Outcome.WARNS)


MAX_TEXT_CHARS = 160
PUBLIC_URL = "PDPP_PUBLIC_URL"
LOCAL_SUFFIXES = (".localhost", ".local", ".internal", ".lan", ".home.arpa")
_TAGS = re.compile(r"<(script|style).*?</\1>|<[^>]*>", re.DOTALL | re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ProbeResponse:
    """Status, headers by lower-case name, and body of a response."""

    url: str
    status: int
    headers: Mapping[str, str]
    text: str

    @property
    def json(self) -> dict[str, Any] | None:
        """The JSON object in the body, or None."""
        try:
            body = json.loads(self.text)
        except ValueError:
            return None
        return body if isinstance(body, dict) else None

    @property
    def is_html(self) -> bool:
        """Whether the body is HTML, which no endpoint for programs of this server sends."""
        return "html" in self.headers.get("content-type", "") or self.text.lstrip()[:1] == "<"

    @property
    def summary(self) -> str:
        """Status, content type and the beginning of the text, for people."""
        kind = self.headers.get("content-type", "no content type").partition(";")[0]
        body = " ".join(_TAGS.sub(" ", self.text).split())
        return f"{self.status} with {kind}: {_cut(body)}" if body else f"{self.status} with {kind}"


@dataclass(frozen=True, slots=True)
class HttpProbe:
    """Sends requests without redirects or retries. Raises StepFailedError for network errors."""

    client: httpx2.Client

    def get(self, url: str, **headers: str) -> ProbeResponse:
        """Send a GET request for JSON."""
        return self._send("GET", url, headers={"accept": "application/json", **headers})

    def post(self, url: str, body: object, **headers: str) -> ProbeResponse:
        """Send a POST request with a JSON body, as for MCP and registration."""
        all_headers = {
            "content-type": "application/json",
            "accept": "application/json, text/event-stream",
            **headers,
        }
        return self._send("POST", url, content=json.dumps(body).encode(), headers=all_headers)

    def post_form(self, url: str, form: Mapping[str, str]) -> ProbeResponse:
        """Send a POST request with a form body, as for the token endpoint."""
        return self._send("POST", url, data=dict(form))

    def _send(
        self, method: str, url: str, *, headers: Mapping[str, str] | None = None, **body: Any
    ) -> ProbeResponse:
        if headers is not None:
            # A proxy that compresses a response for which nobody asked does so for every host.
            headers = {"accept-encoding": "identity"} | {
                name.replace("_", "-"): value for name, value in headers.items()
            }
        try:
            response = self.client.request(
                method, url, headers=headers, follow_redirects=False, **body
            )
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise _network_failure(url, error) from error
        response_headers = {name.lower(): value for name, value in response.headers.items()}
        return ProbeResponse(
            str(response.url), response.status_code, response_headers, response.text
        )


def _network_failure(url: str, error: Exception) -> StepFailedError:
    host = urlsplit(url).netloc
    detail = _cut(str(error) or type(error).__name__)
    if _is_tls_error(error):
        return failure(
            "tls",
            Side.PROXY,
            seen=f"The TLS handshake with {host} failed: {detail}",
            change="Install a certificate for this host name from a public authority, with its "
            "complete chain. Hosts accept no self-signed, expired or incomplete certificate.",
        )
    if isinstance(error, httpx2.TimeoutException):
        return failure(
            "timeout",
            Side.NETWORK,
            seen=f"{host} did not respond in time: {detail}",
            change="Check that the server runs (/healthz on its own machine), that the firewall "
            "opens the port, and that the proxy forwards to the right address.",
        )
    if isinstance(error, httpx2.ConnectError):
        return failure(
            "unreachable",
            Side.NETWORK,
            seen=f"{host} cannot be reached: {detail}",
            change="Check the name in DNS, the port, and that the server or its proxy is running.",
        )
    return failure(
        "broken_answer",
        Side.PROXY,
        seen=f"The connection to {host} broke during the response: {detail}",
        change="Check the log of the proxy: it closes connections, or changes the length or the "
        "encoding of responses.",
    )


def _is_tls_error(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, ssl.SSLError) or "SSL" in str(error) or "TLS" in str(error):
            return True
        error = error.__cause__ or error.__context__
    return False


def _cut(text: str) -> str:
    return text if len(text) <= MAX_TEXT_CHARS else f"{text[: MAX_TEXT_CHARS - 1]}…"


def check_origin(url: str, *, expected: str, what: str) -> None:
    """Raise StepFailedError unless `url` has the origin of `expected`. `what` names the URL."""
    actual, required = urlsplit(url), urlsplit(expected)
    if (actual.scheme, actual.netloc) == (required.scheme, required.netloc):
        return
    origin = f"{required.scheme}://{required.netloc}"
    seen = f"The request went to {origin}, but the server gives {what} as {url}"
    if actual.netloc == required.netloc and (actual.scheme, required.scheme) == ("http", "https"):
        raise failure(
            "http_behind_https",
            Side.SERVER,
            seen=seen,
            change=f"Set {PUBLIC_URL} to the https:// address. Behind a TLS proxy the server cannot "
            "detect it.",
        )
    raise failure(
        "wrong_public_url",
        Side.SERVER,
        seen=seen,
        change=f"Set {PUBLIC_URL} to {origin}, the address that hosts use.",
    )


def is_private(url: str) -> bool:
    """Return whether a URL is valid only on this machine or in this network."""
    host = (urlsplit(url).hostname or "").lower()
    try:
        return not ipaddress.ip_address(host).is_global
    except ValueError:
        return host == "localhost" or host.endswith(LOCAL_SUFFIXES)


_LOGIN_WORDS = ("login", "log in", "sign in", "signin", "password", "sso", "authenticate")


def identify_proxy(response: ProbeResponse) -> StepFailedError | None:
    """Return the diagnosis of a response that the server cannot have sent, or None."""
    challenge = response.headers.get("www-authenticate", "")
    if response.status in {301, 302, 303, 307, 308}:
        return _redirect(response)
    if response.status == 401 and challenge.lower().startswith(("basic", "digest", "negotiate")):
        return _login(f"The proxy itself requires a password ({challenge})")
    is_host_error = response.status == 400 and "host" in response.text.lower()
    if response.status == 421 or (is_host_error and response.json is None):
        return failure(
            "wrong_host",
            Side.PROXY,
            seen=f"The server does not recognize its host name: {response.summary}",
            change="Let the proxy forward the Host header (nginx: proxy_set_header Host $host), or "
            "add the name that it sends to PDPP_ALLOWED_HOSTS.",
        )
    if response.status == 413 and response.is_html:
        return body_limit(response)
    if response.status in {502, 503, 504}:
        return failure(
            "server_not_reached",
            Side.PROXY if response.is_html else Side.SERVER,
            seen=f"The server behind the proxy does not respond: {response.summary}",
            change="Start the server, and check that the proxy forwards to its address and port; "
            "/readyz on the server's own machine shows what is missing.",
        )
    return _html_page(response) if response.is_html else None


def body_limit(response: ProbeResponse) -> StepFailedError:
    """Return the diagnosis of a proxy whose body limit is lower than the server's."""
    return failure(
        "body_limit",
        Side.PROXY,
        seen=f"A request body of ordinary size was rejected: {response.summary}",
        change="Let the proxy accept bodies of at least 1 MB (nginx: client_max_body_size 50m).",
    )


def _redirect(response: ProbeResponse) -> StepFailedError:
    target = urljoin(response.url, response.headers.get("location", ""))
    source, destination = urlsplit(response.url), urlsplit(target)
    seen = f"{response.url} redirects ({response.status}) to {target}"
    is_same_host = source.hostname == destination.hostname
    if (source.scheme, destination.scheme) == ("http", "https") and is_same_host:
        return failure(
            "http_to_https",
            Side.CLIENT,
            seen=seen,
            change="Use the https:// address in the host; it does not follow the redirect.",
        )
    is_same_path = source.path.rstrip("/") == destination.path.rstrip("/")
    if source.netloc == destination.netloc and is_same_path:
        return failure(
            "redirecting_slash",
            Side.PROXY,
            seen=seen,
            change="Stop the proxy from adding or removing the slash at the end of /mcp: a redirect "
            "loses the POST body (nginx: location = /mcp, proxy_pass without a path).",
        )
    if any(word in target.lower() for word in _LOGIN_WORDS) or not is_same_host:
        return _login(seen)
    return failure(
        "redirected",
        Side.PROXY,
        seen=seen,
        change="Let the proxy forward the path to the server unchanged.",
    )


def _login(seen: str) -> StepFailedError:
    return failure(
        "login_in_front",
        Side.PROXY,
        seen=seen,
        change="A login page in front of the server blocks every host. Exempt /mcp, /v1, /oauth and "
        "/.well-known from it; the server requires a token itself.",
    )


def _html_page(response: ProbeResponse) -> StepFailedError:
    text = response.text.lower()
    if response.status == 404:
        return failure(
            "not_forwarded",
            Side.PROXY,
            seen=f"Another server answers {urlsplit(response.url).path}: {response.summary}",
            change="Forward every path to the server, including /.well-known/: some proxies keep it "
            "for certificates (forward all of it except /.well-known/acme-challenge/).",
        )
    if response.status in {200, 401} and any(word in text for word in _LOGIN_WORDS):
        return _login(f"A login page instead of the server's JSON: {response.summary}")
    if response.status in {405, 501}:
        return failure(
            "method_refused",
            Side.PROXY,
            seen=f"A proxy rejected the method: {response.summary}",
            change="Let the proxy forward GET, POST and OPTIONS.",
        )
    return failure(
        "page_in_front",
        Side.PROXY,
        seen=f"An HTML page instead of the server's JSON: {response.summary}",
        change="A firewall, a bot check or a maintenance page answers for the server. Exempt /mcp, "
        "/v1, /oauth and /.well-known from it.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """An MCP host and how it registers.

    `metadata_documents` means that it identifies itself by the URL of a document where the server
    supports that. `cloud` means that its requests come from the internet.
    """

    name: str
    client_name: str
    redirect_uri: str
    metadata_documents: bool = True
    cloud: bool = False

    def registration(self) -> dict[str, Any]:
        """Return the registration request of the host (RFC 7591)."""
        native = self.redirect_uri.startswith("http:")
        return {
            "client_name": f"{self.client_name} (pdpp doctor)",
            "redirect_uris": [self.redirect_uri],
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "token_endpoint_auth_method": "none",
            "application_type": "native" if native else "web",
            "scope": "pdpp:read offline_access",
        }


DEFAULT_HOST = Host(
    name="any",
    client_name="MCP client",
    redirect_uri="http://127.0.0.1:33418/callback",
    metadata_documents=False,
)
CLAUDE = Host(
    name="claude",
    client_name="Claude",
    redirect_uri="https://claude.ai/api/mcp/auth_callback",
    cloud=True,
)
CHATGPT = Host(
    name="chatgpt",
    client_name="ChatGPT",
    redirect_uri="https://chatgpt.com/connector_platform_oauth_redirect",
    cloud=True,
)
CODEX = Host(name="codex", client_name="Codex", redirect_uri="http://127.0.0.1:33418/callback")
GEMINI = Host(
    name="gemini",
    client_name="Gemini CLI",
    redirect_uri="http://localhost:7777/oauth/callback",
    metadata_documents=False,
)
HOSTS = {host.name: host for host in (CLAUDE, CHATGPT, CODEX, GEMINI)}

PROTOCOL_VERSION = "2025-06-18"
INITIALIZE: dict[str, Any] = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": PROTOCOL_VERSION,
        "capabilities": {},
        "clientInfo": {"name": "pdpp doctor", "version": "1"},
    },
}


@dataclass(slots=True)
class ProbeState:
    """What the steps share. `url` is the MCP endpoint as hosts use it; steps set the defaults."""

    url: str
    host: Host
    http: HttpProbe
    bearer: str | None
    challenge: dict[str, str] = field(default_factory=dict)
    challenge_request_id: str = ""
    resource: dict[str, Any] = field(default_factory=dict)
    server: dict[str, Any] = field(default_factory=dict)
    client_id: str = ""
    found_id: str = ""

    @property
    def origin(self) -> str:
        """Scheme, host and port of the endpoint."""
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc}"

    def initialize(self, bearer: str | None = None) -> ProbeResponse:
        """Send the first MCP request of a host."""
        headers = {} if bearer is None else {"authorization": f"Bearer {bearer}"}
        return self.http.post(self.url, INITIALIZE, **headers)


def require_server_response(response: ProbeResponse) -> ProbeResponse:
    """Return the response. Raises StepFailedError if the server cannot have sent it."""
    if (error := identify_proxy(response)) is not None:
        raise error
    return response


def read_document(response: ProbeResponse, *, what: str) -> dict[str, Any]:
    """Return the JSON object of a metadata response. `what` names it in errors."""
    if require_server_response(response).status == 404:
        raise failure(
            "missing_document",
            Side.PROXY,
            seen=f"{response.url}: {response.summary}",
            change=f"Forward {urlsplit(response.url).path} to the server, which serves {what} there.",
        )
    document = response.json
    if response.status != 200 or document is None:
        raise failure(
            "unreadable_document",
            Side.SERVER,
            seen=f"{what} cannot be read: {response.summary}",
            change="Check the log of the server for this request.",
        )
    return document
