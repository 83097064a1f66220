"""Send one HTTP request without redirects or retries, and diagnose network errors and proxies.

Proxies, firewalls and login pages in front of the server are recognized by their responses.
"""

import ipaddress
import json
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urljoin, urlsplit

import httpx2

from operations.doctor.findings import Side, StepFailedError, failure

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
