"""Send requests to a server over HTTP with retries, and normalize server URLs."""

import json
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias, TypeVar
from urllib.parse import urlsplit, urlunsplit

import httpx2

from cli import errors
from cli.errors import CliError, error_from_response, usage_error

Json: TypeAlias = dict[str, Any]
Params: TypeAlias = Sequence[tuple[str, str]]
Result = TypeVar("Result")
REQUEST_TIMEOUT = httpx2.Timeout(60.0, connect=15.0)
_MAX_RETRY_SECONDS = 60.0
_HOST = re.compile(r"[\w.-]+|[0-9a-fA-F:.]+")
_DEFAULT_PORTS = {"http": 80, "https": 443}


def open_client() -> httpx2.Client:
    """Open an HTTP client that follows no redirects, so that a token goes to its server only."""
    return httpx2.Client(timeout=REQUEST_TIMEOUT, follow_redirects=False)


class ApiClient:
    """Send requests to one server. Raises CliError for every failure."""

    def __init__(self, url: str, client: httpx2.Client) -> None:
        self.url = url.rstrip("/")
        self._client = client

    def get(self, path: str, params: Params = (), *, bearer: str | None = None) -> Json:
        """Return the JSON object at a path of the server or at an absolute URL."""
        return self.send("GET", path, params, bearer=bearer)

    def send(
        self,
        method: str,
        path: str,
        params: Params = (),
        *,
        bearer: str | None = None,
        content: bytes | None = None,
        content_type: str = "application/json",
    ) -> Json:
        """Return the JSON object that answers a request."""
        headers = {} if content is None else {"Content-Type": content_type}
        with self.stream(
            path, params, bearer=bearer, headers=headers, method=method, content=content
        ) as response:
            response.read()
            body = _json_object(response)
        if body is None:
            raise _not_json_error(response)
        return body

    def post(
        self, url: str, *, json_body: Json | None = None, form: Mapping[str, str] | None = None
    ) -> tuple[int, Json]:
        """Return status and body. OAuth endpoints use both, so no status is an error here."""
        try:
            response = self._client.post(self._absolute(url), json=json_body, data=form)
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise self._unreachable_error(url, error) from error
        return response.status_code, _json_object(response) or {}

    @contextmanager
    def stream(
        self,
        path: str,
        params: Params = (),
        *,
        bearer: str | None = None,
        headers: Mapping[str, str] | None = None,
        method: str = "GET",
        content: bytes | None = None,
    ) -> Iterator[httpx2.Response]:
        """Yield a successful response whose body is not read yet."""
        request_headers = {"Accept": "application/json", **(headers or {})}
        if bearer is not None:
            request_headers["Authorization"] = f"Bearer {bearer}"
        try:
            with self._client.stream(
                method,
                self._absolute(path),
                params=list(params),
                headers=request_headers,
                content=content,
            ) as response:
                if not response.is_success:
                    response.read()
                    raise _response_error(response)
                yield response
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise self._unreachable_error(path, error) from error

    def _absolute(self, path: str) -> str:
        return path if "://" in path else f"{self.url}{path}"

    def _unreachable_error(self, path: str, error: Exception) -> CliError:
        if isinstance(error, httpx2.TimeoutException):
            reason = "the request timed out"
        else:
            reason = str(error).rstrip(".") or type(error).__name__
        return CliError(
            "unreachable",
            f"{self._absolute(path).partition('?')[0]} cannot be reached: {reason}.",
            exit_code=errors.UNAVAILABLE,
            next_step="Check the URL and the network, then run the command again.",
        )


def with_retries(request: Callable[[], Result], *, max_tries: int = 5) -> Result:
    """Repeat a request of a long command while the server is unavailable or limits the rate."""
    for attempt in range(1, max_tries + 1):
        try:
            return request()
        except CliError as error:
            is_temporary = error.exit_code in {errors.UNAVAILABLE, errors.TRY_LATER}
            if attempt == max_tries or not is_temporary:
                raise
            retry_after = str(error.detail.get("retry_after", ""))
            seconds = float(retry_after) if retry_after.isdecimal() else 2.0**attempt
            time.sleep(min(seconds, _MAX_RETRY_SECONDS))
    raise AssertionError


def _response_error(response: httpx2.Response) -> CliError:
    if response.is_redirect:
        return CliError(
            "redirected",
            f"{response.url} redirects to {response.headers.get('location', 'no address')}. "
            "Tokens are not sent after a redirect.",
            exit_code=errors.PROTOCOL,
            next_step="Use the final https URL of the server.",
        )
    error = error_from_response(response.status_code, _json_object(response))
    if (retry_after := response.headers.get("retry-after")) is not None:
        error.detail["retry_after"] = retry_after
    return error


def _json_object(response: httpx2.Response) -> Json | None:
    try:
        body = json.loads(response.content)
    except ValueError:
        return None
    return body if isinstance(body, dict) else None


def _not_json_error(response: httpx2.Response) -> CliError:
    content_type = response.headers.get("content-type", "no content type")
    return CliError(
        "not_json",
        f"{response.url.copy_with(query=None)} returned {response.status_code} with "
        f"{content_type}, not JSON.",
        exit_code=errors.PROTOCOL,
        next_step="Check that this is the URL of a PDPP server and that no proxy replaces responses.",
    )


def normalize_url(url: str) -> str:
    """Return scheme and host in lower case, without default port and trailing slash.

    Assumes https for a bare host, and removes the path of the MCP endpoint or of the REST API.
    Raises CliError when the value is not an http or https URL.
    """
    parts = urlsplit(url if "://" in url else f"https://{url}")
    try:
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    is_http = parts.scheme in _DEFAULT_PORTS
    if not is_http or not _HOST.fullmatch(host or "") or parts.username is not None:
        raise usage_error(
            f"{url[:200]!r} is not a server URL.",
            param="URL",
            next_step="Pass a URL such as https://records.example",
        )
    netloc = f"[{host}]" if ":" in str(host) else str(host)
    if port not in (None, _DEFAULT_PORTS[parts.scheme]):
        netloc = f"{netloc}:{port}"
    path = parts.path.rstrip("/")
    for endpoint in ("/mcp", "/v1"):
        path = path.removesuffix(endpoint)
    return urlunsplit((parts.scheme, netloc, path, "", ""))
