"""Answers that are not the server's own: what stands in front of it, told by what it sends."""

from urllib.parse import urljoin, urlsplit

from operations.doctor.findings import Side, Wrong, wrong
from operations.doctor.http_probe import Answer

_SIGN_IN = ("login", "log in", "sign in", "signin", "password", "sso", "authenticate")


def stranger(answer: Answer) -> Wrong | None:
    """The diagnosis for an answer that the server cannot have given; None where it can."""
    if answer.status in {301, 302, 303, 307, 308}:
        return _redirect(answer)
    if _basic(answer):
        return _password(answer)
    if answer.status == 421 or _wrong_host(answer):
        return _host(answer)
    if answer.status == 413 and answer.is_page:
        return body_limit(answer)
    if answer.status in {502, 503, 504}:
        return _upstream(answer)
    if answer.is_page:
        return _page(answer)
    return None


def body_limit(answer: Answer) -> Wrong:
    """Something in front takes less than the server."""
    return wrong(
        "body_limit",
        Side.PROXY,
        seen=f"A body of ordinary size was refused: {answer.in_words}",
        change="Let the proxy take bodies of at least 1 MB (nginx: client_max_body_size 50m).",
    )


def _redirect(answer: Answer) -> Wrong:
    target = urljoin(answer.url, answer.headers.get("location", ""))
    here, there = urlsplit(answer.url), urlsplit(target)
    seen = f"{answer.url} redirects ({answer.status}) to {target}"
    if (here.scheme, there.scheme) == ("http", "https") and here.hostname == there.hostname:
        return wrong(
            "http_to_https",
            Side.CLIENT,
            seen=seen,
            change="Give the host the https:// address itself; it does not follow the redirect.",
        )
    if here.netloc == there.netloc and here.path.rstrip("/") == there.path.rstrip("/"):
        return wrong(
            "redirecting_slash",
            Side.PROXY,
            seen=seen,
            change="Stop the proxy from adding or removing the slash at the end of /mcp: a POST is "
            "lost in a redirect (nginx: location = /mcp, proxy_pass without a path).",
        )
    if any(word in target.lower() for word in _SIGN_IN) or here.hostname != there.hostname:
        return _login(seen)
    return wrong(
        "redirected",
        Side.PROXY,
        seen=seen,
        change="Let the proxy pass the path through to the server as it is.",
    )


def _login(seen: str) -> Wrong:
    return wrong(
        "login_in_front",
        Side.PROXY,
        seen=seen,
        change="A sign-in page stands in front of the server, and no host can pass it. Exempt /mcp, "
        "/v1, /oauth and /.well-known from it; the server asks for a token itself.",
    )


def _basic(answer: Answer) -> bool:
    challenge = answer.headers.get("www-authenticate", "").lower()
    return answer.status == 401 and challenge.startswith(("basic", "digest", "negotiate"))


def _password(answer: Answer) -> Wrong:
    return _login(f"The proxy asks for a password itself ({answer.headers['www-authenticate']})")


def _wrong_host(answer: Answer) -> bool:
    return answer.status == 400 and "host" in answer.text.lower() and answer.json is None


def _host(answer: Answer) -> Wrong:
    return wrong(
        "wrong_host",
        Side.PROXY,
        seen=f"The server does not take this request as its own: {answer.in_words}",
        change="Let the proxy pass the Host header on (nginx: proxy_set_header Host $host), or add the "
        "name that it sends to PDPP_ALLOWED_HOSTS.",
    )


def _upstream(answer: Answer) -> Wrong:
    return wrong(
        "server_not_reached",
        Side.PROXY if answer.is_page else Side.SERVER,
        seen=f"The server behind does not answer: {answer.in_words}",
        change="Start the server, and check that the proxy forwards to its address and port; "
        "/readyz on the server's own machine says what it lacks.",
    )


def _page(answer: Answer) -> Wrong:
    text = answer.text.lower()
    if answer.status == 404:
        return wrong(
            "not_forwarded",
            Side.PROXY,
            seen=f"{urlsplit(answer.url).path} ends in somebody else's page: {answer.in_words}",
            change="Forward every path to the server, /.well-known/ too: some proxies keep that one "
            "for certificates (forward all of it but /.well-known/acme-challenge/).",
        )
    if answer.status in {200, 401} and any(word in text for word in _SIGN_IN):
        return _login(f"A page to sign in instead of the server's JSON: {answer.in_words}")
    if answer.status in {405, 501}:
        return wrong(
            "method_refused",
            Side.PROXY,
            seen=f"The method was refused on the way: {answer.in_words}",
            change="Let the proxy pass GET, POST and OPTIONS through.",
        )
    return wrong(
        "page_in_front",
        Side.PROXY,
        seen=f"A page for browsers instead of the server's JSON: {answer.in_words}",
        change="Something in front answers for the server (a firewall, a check for robots, a "
        "maintenance page). Exempt /mcp, /v1, /oauth and /.well-known from it.",
    )
