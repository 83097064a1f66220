"""Recognize responses of proxies, firewalls and login pages in front of the server."""

from urllib.parse import urljoin, urlsplit

from operations.doctor.findings import Side, StepFailedError, failure
from operations.doctor.http_probe import ProbeResponse

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
