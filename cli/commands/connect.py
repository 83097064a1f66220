"""`pdpp connect URL`: ask the owner for access and keep what comes of it."""

import sys
import webbrowser
from typing import Annotated, Any

import typer

from cli import authorization, discovery, errors, http_client
from cli.authorization import SCOPE, Attempt
from cli.credential_cache import Cache
from cli.credentials import not_connected, not_owners
from cli.discovery import Discovered
from cli.errors import Failure, from_answer
from cli.http_client import Provider, normalized
from cli.output import Output, line, tell
from cli.session import AsJson, CacheRoot, Session, command, environment, opened_cache, utc_now

URL = typer.Argument(metavar="URL", help="Where the server is, such as https://records.example")
DEVICE = typer.Option("--device", help="For a machine without a browser: show a code instead.")
NAME = typer.Option("--name", help="What the owner will see as the name of this client.")


def connect(
    url: Annotated[str, URL],
    *,
    device: Annotated[bool, DEVICE] = False,
    no_browser: Annotated[
        bool, typer.Option("--no-browser", help="Only print the address to open.")
    ] = False,
    name: Annotated[str, NAME] = discovery.CLIENT_NAME,
    cache_root: CacheRoot = None,
    as_json: AsJson = False,
) -> None:
    """Ask the owner of a server for access.

    They choose on their own page what it covers.
    """
    out, cache = Output(as_json), opened_cache(environment(), cache_root)
    cache.prepare()
    with http_client.opened() as client:
        asked = Provider(normalized(url), client)
        entry = _entry(asked, cache, name=name, device=device, browser=not (device or no_browser))
        _check(asked, entry)
    cache.write(asked.url, entry)
    told = {"object": "connected", "provider_url": asked.url, "cache": str(cache.path(asked.url))}
    out.body(
        told | _about(entry),
        [f"Connected to {asked.url}; the credential is in {cache.path(asked.url)}."],
    )
    out.note("next: pdpp schema, or pdpp search WORDS")


def _entry(
    asked: Provider, cache: Cache, *, name: str, device: bool, browser: bool
) -> dict[str, Any]:
    found = discovery.discover(asked)
    client = discovery.client(asked, found, cache.read(asked.url), name=name)
    attempt = authorization.begun(asked, found, client, device=device)
    _show(attempt, browser=browser)
    return {
        "provider_url": asked.url,
        "authorization_server": found.issuer,
        "scope": SCOPE,
        "client": client,
        "credential": authorization.awaited(attempt),
        "created_at": utc_now().isoformat(),
    } | _endpoints(found)


def _endpoints(found: Discovered) -> dict[str, str]:
    """What renewing and revoking will need."""
    named = {name: found.endpoint(name) for name in ("token_endpoint", "revocation_endpoint")}
    return {name: url for name, url in named.items() if url is not None}


def _show(attempt: Attempt, *, browser: bool) -> None:
    """On standard error, also for programs: somebody has to open it."""
    tell("Approve the access here:")
    tell(f"  {line(attempt.approval_url)}")
    if attempt.user_code is not None:
        tell(f"  code: {line(attempt.user_code)}")
    if browser and sys.stderr.isatty() and attempt.approval_url.startswith(("https:", "http:")):
        webbrowser.open(attempt.approval_url)
    tell("Waiting for the owner …")


def _check(asked: Provider, entry: dict[str, Any]) -> None:
    """The token reads, and is not the owner's own."""
    token = not_owners(entry["credential"]["access_token"], where="The answer of the server")
    try:
        body = asked.get("/v1/schema", bearer=token)
    except Failure as failure:
        if failure.exit_code == errors.NO_PERMISSION:
            failure.code = "insufficient_scope"
        raise
    bearer = body.get("bearer")
    if isinstance(bearer, dict) and bearer.get("token_kind") == "owner":
        raise Failure(
            "owner_credential",
            "The server gave an owner's token, which this command never keeps.",
            exit_code=errors.NO_PERMISSION,
            next_step="Approve a grant for a client instead.",
        )


def _about(entry: dict[str, Any]) -> dict[str, Any]:
    """What may be told; never the token."""
    credential = entry["credential"]
    told = {name: credential.get(name) for name in ("grant_id", "expires_at", "scope")}
    return {name: value for name, value in told.items() if value is not None}


LOCAL = typer.Option("--local", help="Only forget it here, without telling the server.")


@command
def disconnect(session: Session, *, local: Annotated[bool, LOCAL] = False) -> None:
    """Give the access back and forget it."""
    url, cache = session.provider.url, session.credentials.cache
    entry = cache.read(url)
    if entry is None:
        raise not_connected(f"There is no credential for {url}.", url)
    revoked = not local and _revoked(session, entry)
    cache.forget(url)
    told = {"object": "disconnected", "provider_url": url, "revoked": revoked}
    session.out.body(told, [f"Disconnected from {url}."])
    if not revoked:
        session.out.note("The server was not told: its owner can revoke the grant there.")


def _revoked(session: Session, entry: dict[str, Any]) -> bool:
    """Whether the server took the token back (RFC 7009). Some servers offer no way to say it."""
    endpoint = entry.get("revocation_endpoint") or _endpoint(session)
    if endpoint is None:
        return False
    credential = entry.get("credential") or {}
    form = {"client_id": str((entry.get("client") or {}).get("client_id", ""))}
    for kind in ("refresh_token", "access_token"):
        if token := credential.get(kind):
            sent = {**form, "token": str(token), "token_type_hint": kind}
            status, body = session.provider.post(endpoint, form=sent)
            if status != 200:
                raise _refused(status, body)
    return True


def _endpoint(session: Session) -> str | None:
    return discovery.discover(session.provider).endpoint("revocation_endpoint")


def _refused(status: int, body: dict[str, Any]) -> Failure:
    failure = from_answer(status, body)
    failure.next_step = "pdpp disconnect --local forgets the token without telling the server."
    return failure
