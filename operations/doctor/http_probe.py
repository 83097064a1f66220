"""One request, as a host sends it, and what came of it. Troubles of the way there are diagnoses."""

import ipaddress
import json
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import httpx2

from operations.doctor.findings import Side, Wrong, wrong

LONGEST_SHOWN = 160
_TAGS = re.compile(r"<(script|style).*?</\1>|<[^>]*>", re.DOTALL | re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Answer:
    """Status, headers by lower-case name, and the body."""

    url: str
    status: int
    headers: Mapping[str, str]
    text: str

    @property
    def json(self) -> dict[str, Any] | None:
        """The object in the body, if there is one."""
        try:
            found = json.loads(self.text)
        except ValueError:
            return None
        return found if isinstance(found, dict) else None

    @property
    def is_page(self) -> bool:
        """Whether this is meant for a browser, which no endpoint of ours for programs sends."""
        return "html" in self.headers.get("content-type", "") or self.text.lstrip()[:1] == "<"

    @property
    def in_words(self) -> str:
        """Status, type and the beginning of the body, as a person would report it."""
        kind = self.headers.get("content-type", "no content type").partition(";")[0]
        body = " ".join(_TAGS.sub(" ", self.text).split())
        return f"{self.status} with {kind}: {_cut(body)}" if body else f"{self.status} with {kind}"


@dataclass(frozen=True, slots=True)
class Asking:
    """Sends requests; nothing is followed and nothing is retried."""

    client: httpx2.Client

    def get(self, url: str, **headers: str) -> Answer:
        """GET, for JSON."""
        return self._ask("GET", url, None, {"accept": "application/json", **headers})

    def post(self, url: str, body: object, **headers: str) -> Answer:
        """POST of JSON, as MCP and registration send it."""
        sent = {
            "content-type": "application/json",
            "accept": "application/json, text/event-stream",
            **headers,
        }
        return self._ask("POST", url, json.dumps(body).encode(), sent)

    def submit(self, url: str, form: Mapping[str, str]) -> Answer:
        """POST of a form, as the token endpoint takes it."""
        try:
            return _answer(self.client.post(url, data=dict(form), follow_redirects=False))
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise _trouble(url, error) from error

    def _ask(
        self, method: str, url: str, content: bytes | None, headers: Mapping[str, str]
    ) -> Answer:
        # Whoever compresses what was asked for plain does so to every host.
        named = {"accept-encoding": "identity"} | {
            name.replace("_", "-"): value for name, value in headers.items()
        }
        try:
            response = self.client.request(
                method, url, content=content, headers=named, follow_redirects=False
            )
            return _answer(response)
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise _trouble(url, error) from error


def _answer(response: httpx2.Response) -> Answer:
    headers = {name.lower(): value for name, value in response.headers.items()}
    return Answer(str(response.url), response.status_code, headers, response.text)


def _trouble(url: str, error: Exception) -> Wrong:
    parts = urlsplit(url)
    told = _cut(str(error) or type(error).__name__)
    if _is_tls(error):
        return wrong(
            "tls",
            Side.PROXY,
            seen=f"The TLS handshake with {parts.netloc} failed: {told}",
            change="Install a certificate for this very host name from a public authority, with its "
            "whole chain; hosts accept no self-signed, expired or incomplete one.",
        )
    if isinstance(error, httpx2.TimeoutException):
        return wrong(
            "timeout",
            Side.NETWORK,
            seen=f"{parts.netloc} did not answer in time: {told}",
            change="Check that the server runs (/healthz on its own machine), that the firewall lets "
            "the port through, and that the proxy reaches the right address.",
        )
    if isinstance(error, httpx2.ConnectError):
        return wrong(
            "unreachable",
            Side.NETWORK,
            seen=f"Nothing can be reached at {parts.netloc}: {told}",
            change="Check the name in DNS, the port, and that the server or its proxy is running.",
        )
    return wrong(
        "broken_answer",
        Side.PROXY,
        seen=f"The connection to {parts.netloc} broke while it answered: {told}",
        change="Look into the log of the proxy: it closes connections, or alters the length or the "
        "encoding of answers.",
    )


def _is_tls(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, ssl.SSLError) or "SSL" in str(error) or "TLS" in str(error):
            return True
        error = error.__cause__ or error.__context__
    return False


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST_SHOWN else f"{text[: LONGEST_SHOWN - 1]}…"


PUBLIC = "PDPP_PUBLIC_URL"
LOCAL = (".localhost", ".local", ".internal", ".lan", ".home.arpa")


def misplaced(told: str, *, wanted: str, what: str) -> Wrong | None:
    """The diagnosis where `told` is not on the origin of `wanted`; None where it is."""
    there, here = urlsplit(told), urlsplit(wanted)
    seen = f"The server was asked at {here.scheme}://{here.netloc}, and gives {what} as {told}"
    if (there.scheme, there.netloc) == (here.scheme, here.netloc):
        return None
    if there.netloc == here.netloc and (there.scheme, here.scheme) == ("http", "https"):
        return wrong(
            "http_behind_https",
            Side.SERVER,
            seen=seen,
            change=f"Set {PUBLIC} to the https:// address: behind a TLS proxy the server cannot know.",
        )
    return wrong(
        "wrong_public_url",
        Side.SERVER,
        seen=seen,
        change=f"Set {PUBLIC} to {here.scheme}://{here.netloc}, the address that hosts are given.",
    )


def is_private(url: str) -> bool:
    """Whether the address means something only on this machine or in this network."""
    host = (urlsplit(url).hostname or "").lower()
    try:
        return not ipaddress.ip_address(host).is_global
    except ValueError:
        return host == "localhost" or host.endswith(LOCAL)
