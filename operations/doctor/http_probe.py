"""Send one HTTP request without redirects or retries, and turn network errors into diagnoses."""

import ipaddress
import json
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

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
