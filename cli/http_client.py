"""One provider over HTTP: every way in which it can fail becomes a `Failure`."""

import json
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias, TypeVar
from urllib.parse import urlsplit, urlunsplit

import httpx2

from cli import errors
from cli.errors import Failure, from_answer, usage

Json: TypeAlias = dict[str, Any]
Answered = TypeVar("Answered")
Params: TypeAlias = Sequence[tuple[str, str]]
PATIENCE = httpx2.Timeout(60.0, connect=15.0)
_LONGEST_PAUSE = 60.0


def opened() -> httpx2.Client:
    """Redirects are not followed: a bearer goes to the provider and nowhere else."""
    return httpx2.Client(timeout=PATIENCE, follow_redirects=False)


class Provider:
    """Asks one provider; `bearer` is looked up for every request."""

    def __init__(self, url: str, client: httpx2.Client) -> None:
        self.url = url.rstrip("/")
        self._client = client

    def get(self, path: str, params: Params = (), *, bearer: str | None = None) -> Json:
        """The JSON object at a path of the provider, or at an absolute URL."""
        with self.stream(path, params, bearer=bearer) as response:
            response.read()
            return self.body(response)

    def post(
        self, url: str, *, sent: Json | None = None, form: Mapping[str, str] | None = None
    ) -> tuple[int, Json]:
        """Status and body, whatever the status: sign-in endpoints speak through both."""
        try:
            response = self._client.post(self._absolute(url), json=sent, data=form)
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise self._unreachable(url, error) from error
        return response.status_code, _object(response) or {}

    @contextmanager
    def stream(
        self,
        path: str,
        params: Params = (),
        *,
        bearer: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Iterator[httpx2.Response]:
        """A successful answer, its body not read yet."""
        sent = {"Accept": "application/json", **(headers or {})}
        if bearer is not None:
            sent["Authorization"] = f"Bearer {bearer}"
        try:
            with self._client.stream(
                "GET", self._absolute(path), params=list(params), headers=sent
            ) as response:
                if not response.is_success:
                    response.read()
                    raise self._refused(response)
                yield response
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise self._unreachable(path, error) from error

    def body(self, response: httpx2.Response) -> Json:
        """The object in an answer."""
        found = _object(response)
        if found is None:
            raise _no_json(response)
        return found

    def _refused(self, response: httpx2.Response) -> Failure:
        if response.is_redirect:
            return Failure(
                "redirected",
                f"{response.url} redirects to {response.headers.get('location', 'nowhere')}, "
                "and a token is not sent after a redirect.",
                exit_code=errors.PROTOCOL,
                next_step="Name the provider by its final URL, https and all.",
            )
        failure = from_answer(response.status_code, _object(response))
        if (after := response.headers.get("retry-after")) is not None:
            failure.detail["retry_after"] = after
        return failure

    def _absolute(self, path: str) -> str:
        return path if "://" in path else f"{self.url}{path}"

    def _unreachable(self, path: str, error: Exception) -> Failure:
        return Failure(
            "unreachable",
            f"{self._absolute(path).partition('?')[0]} cannot be reached: {_reason(error)}.",
            exit_code=errors.UNAVAILABLE,
            next_step="Check the URL and the network, then run the command again.",
        )


def patiently(ask: Callable[[], Answered], *, tries: int = 5) -> Answered:
    """Ask again where that is worth it: for what runs long and would lose its place."""
    for attempt in range(1, tries + 1):
        try:
            return ask()
        except Failure as failure:
            if attempt == tries or failure.exit_code not in {errors.UNAVAILABLE, errors.TRY_LATER}:
                raise
            time.sleep(_pause(failure, attempt))
    raise AssertionError


def _pause(failure: Failure, attempt: int) -> float:
    after = str(failure.detail.get("retry_after", ""))
    return min(float(after) if after.isdecimal() else 2.0**attempt, _LONGEST_PAUSE)


def _object(response: httpx2.Response) -> Json | None:
    try:
        found = json.loads(response.content)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _no_json(response: httpx2.Response) -> Failure:
    kind = response.headers.get("content-type", "no content type")
    return Failure(
        "not_json",
        f"{response.url.copy_with(query=None)} answered {response.status_code} with {kind}, "
        "not with JSON.",
        exit_code=errors.PROTOCOL,
        next_step="Is this the URL of a PDPP server? Something may stand in front of it.",
    )


def _reason(error: Exception) -> str:
    if isinstance(error, httpx2.TimeoutException):
        return "it did not answer in time"
    return str(error).rstrip(".") or type(error).__name__


_HOST = re.compile(r"[\w.-]+|[0-9a-fA-F:.]+")
_PORTS = {"http": 80, "https": 443}


def normalized(url: str) -> str:
    """Scheme and host in lower case, no default port, no closing slash; a `Failure` of usage for
    what is no http(s) URL. A bare host is meant as https, and the address of the MCP endpoint or of
    the API as that of its server."""
    parts = urlsplit(url if "://" in url else f"https://{url}")
    try:
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if parts.scheme not in _PORTS or not _HOST.fullmatch(host or "") or parts.username is not None:
        raise usage(
            f"{url[:200]!r} is not the URL of a provider.",
            param="URL",
            next_step="Pass something like https://records.example",
        )
    named = f"[{host}]" if ":" in str(host) else str(host)
    if port not in (None, _PORTS[parts.scheme]):
        named = f"{named}:{port}"
    path = parts.path.rstrip("/")
    for endpoint in ("/mcp", "/v1"):
        path = path.removesuffix(endpoint)
    return urlunsplit((parts.scheme, named, path, "", ""))
