"""`pdpp connect`, `pdpp collect login` and `pdpp disconnect`: request access to a server, and revoke it."""

import os
import platform
import sys
import webbrowser
from typing import Annotated, Any

import typer

from cli import authorization, errors, http_client
from cli.authorization import COLLECT_SCOPE, SCOPE, AuthorizationRequest
from cli.credentials import (
    COLLECTORS,
    CacheEntry,
    CredentialCache,
    not_connected_error,
    reject_owner_token,
)
from cli.errors import CliError, error_from_response
from cli.http_client import ApiClient, normalize_url
from cli.output import Output, one_line, print_message
from cli.session import AsJson, CacheRoot, Session, command, open_cache, utc_now

URL = typer.Argument(metavar="URL", help="The server, for example https://records.example")
DEVICE = typer.Option("--device", help="Show a code, for a machine without a browser.")
NAME = typer.Option("--name", help="The client name that the owner sees.")
COLLECTOR_NAME = typer.Option("--name", help="The name that the owner sees; default: this machine.")
NoBrowser = Annotated[bool, typer.Option("--no-browser", help="Only print the address to open.")]
LOCAL = typer.Option("--local", help="Delete the credential here without revoking it.")


def connect(
    url: Annotated[str, URL],
    *,
    device: Annotated[bool, DEVICE] = False,
    no_browser: NoBrowser = False,
    name: Annotated[str, NAME] = authorization.CLIENT_NAME,
    cache_root: CacheRoot = None,
    as_json: AsJson = False,
) -> None:
    """Ask the owner of a server for access.

    The owner chooses on the server's page what the access covers.
    """
    out, cache = Output(as_json), open_cache(os.environ, cache_root)
    cache.create_directories()
    with http_client.open_client() as client:
        api = ApiClient(normalize_url(url), client)
        browser = not (device or no_browser)
        entry = _request_access(api, cache, name=name, device=device, browser=browser)
        _check_token(api, entry)
    cache.write(api.url, entry)
    path = cache.path(api.url)
    body = {"object": "connected", "provider_url": api.url, "cache": str(path)}
    out.result(
        body | _public_members(entry), [f"Connected to {api.url}. The credential is in {path}."]
    )
    out.note("next: pdpp schema, or pdpp search WORDS")


def _request_access(
    api: ApiClient, cache: CredentialCache, *, name: str, device: bool, browser: bool
) -> CacheEntry:
    metadata = authorization.discover(api)
    client = authorization.client_registration(api, metadata, cache.read(api.url), name=name)
    request = authorization.start(api, metadata, client, device=device)
    _print_request(request, browser=browser)
    entry = {
        "provider_url": api.url,
        "authorization_server": metadata.issuer,
        "scope": SCOPE,
        "client": client,
        "credential": {"scope": SCOPE} | authorization.wait_for_decision(request),
        "created_at": utc_now().isoformat(),
    }
    for endpoint in ("token_endpoint", "revocation_endpoint"):
        if (url := metadata.endpoint(endpoint)) is not None:
            entry[endpoint] = url
    return entry


def _print_request(request: AuthorizationRequest, *, browser: bool) -> None:
    """Print where to approve to standard error, also with --json: a person must open it."""
    print_message("Approve the access here:")
    print_message(f"  {one_line(request.approval_url)}")
    if request.user_code is not None:
        print_message(f"  code: {one_line(request.user_code)}")
    if browser and sys.stderr.isatty() and request.approval_url.startswith(("https:", "http:")):
        webbrowser.open(request.approval_url)
    print_message("Waiting for the owner …")


def login(
    url: Annotated[str, URL],
    *,
    no_browser: NoBrowser = False,
    name: Annotated[str | None, COLLECTOR_NAME] = None,
    cache_root: CacheRoot = None,
    as_json: AsJson = False,
) -> None:
    """Ask the owner of a server for a token that stores records.

    The owner chooses on the server's page which connections it may write to.
    """
    out, cache = Output(as_json), open_cache(os.environ, cache_root, COLLECTORS)
    cache.create_directories()
    with http_client.open_client() as client:
        api = ApiClient(normalize_url(url), client)
        metadata = authorization.discover(api)
        name = name or f"pdpp collect on {platform.node()}"
        registration = authorization.client_registration(api, metadata, None, name=name)
        request = authorization.start_collector(api, metadata, registration)
        _print_request(request, browser=not no_browser)
        credential = authorization.wait_for_decision(request)
    reject_owner_token(credential["access_token"], location="The response of the server")
    if credential.get("scope") != COLLECT_SCOPE:
        raise CliError(
            "wrong_token",
            "The server sent a token that is not a collector's. It was not stored.",
            exit_code=errors.PROTOCOL,
            next_step="Its owner should revoke it.",
        )
    entry = {"provider_url": api.url, "credential": credential, "created_at": utc_now().isoformat()}
    cache.write(api.url, entry)
    path = cache.path(api.url)
    body = {"object": "collector_connected", "provider_url": api.url, "cache": str(path)}
    out.result(body, [f"Signed in at {api.url}. The token is in {path}."])
    out.note("next: pdpp collect MANIFEST -- COMMAND")


def _check_token(api: ApiClient, entry: CacheEntry) -> None:
    """Raise CliError if the token cannot read or is an owner token."""
    token = reject_owner_token(
        entry["credential"]["access_token"], location="The response of the server"
    )
    try:
        body = api.get("/v1/schema", bearer=token)
    except CliError as error:
        if error.exit_code == errors.NO_PERMISSION:
            error.code = "insufficient_scope"
        raise
    bearer = body.get("bearer")
    if isinstance(bearer, dict) and bearer.get("token_kind") == "owner":
        raise CliError(
            "owner_credential",
            "The server issued an owner token. This command accepts only grants' tokens.",
            exit_code=errors.NO_PERMISSION,
            next_step="Approve a grant for a client instead.",
        )


def _public_members(entry: CacheEntry) -> dict[str, Any]:
    """Return the members of the credential that may be printed, which excludes the token."""
    credential = entry["credential"]
    members = {name: credential.get(name) for name in ("grant_id", "expires_at", "scope")}
    return {name: value for name, value in members.items() if value is not None}


@command
def disconnect(session: Session, *, local: Annotated[bool, LOCAL] = False) -> None:
    """Revoke the access and delete the credential."""
    url, cache = session.api.url, session.credentials.cache
    entry = cache.read(url)
    if entry is None:
        raise not_connected_error(f"There is no credential for {url}.", url)
    revoked = not local and _revoke(session, entry)
    cache.delete(url)
    body = {"object": "disconnected", "provider_url": url, "revoked": revoked}
    session.out.result(body, [f"Disconnected from {url}."])
    if not revoked:
        session.out.note("The token was not revoked: its owner can revoke the grant on the server.")


def _revoke(session: Session, entry: CacheEntry) -> bool:
    """Revoke both tokens (RFC 7009). Returns False if the server has no revocation endpoint."""
    endpoint = entry.get("revocation_endpoint") or authorization.discover(session.api).endpoint(
        "revocation_endpoint"
    )
    if endpoint is None:
        return False
    credential = entry.get("credential") or {}
    client_id = str((entry.get("client") or {}).get("client_id", ""))
    for kind in ("refresh_token", "access_token"):
        if token := credential.get(kind):
            form = {"client_id": client_id, "token": str(token), "token_type_hint": kind}
            status, body = session.api.post(endpoint, form=form)
            if status != 200:
                error = error_from_response(status, body)
                error.next_step = "pdpp disconnect --local deletes the token without revoking it."
                raise error
    return True
