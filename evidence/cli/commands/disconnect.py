"""`pdpp disconnect`: give the token back and forget it."""

from typing import Annotated, Any

import typer

from evidence.cli.connecting import discovery
from evidence.cli.credentials import not_connected
from evidence.cli.failures import Failure, from_answer
from evidence.cli.session import Session, command

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
