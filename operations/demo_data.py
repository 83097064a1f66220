"""The demo life in this installation: loading it, taking it away, and handing it to an agent.

What was done is remembered in ``var/demo.json``, not in the database: a demo that its owner took
away must not come back with the next start.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import orjson
from django.conf import settings

from demo import life
from evidence.access.grant_states import State, connection_ids, grants_with_state, in_state
from evidence.access.grant_terms import StreamRequest
from evidence.access.grants import GrantRequest, issue, mint_token, register_client, revoke_grant
from evidence.models.accounts import Client, the_owner
from evidence.models.connections import Connection
from evidence.storing.blobs import put_blob
from evidence.storing.connections import connect
from evidence.storing.declaration_store import declare
from evidence.storing.ingest import Outcome, ingest_lines
from evidence.storing.ndjson import Line
from evidence.storing.record_erasure import erase_connection

if TYPE_CHECKING:
    from evidence.models.grants import Package

TOKEN_LIFETIME = timedelta(hours=24)
CLIENT = "Demo"

OnProgress = Callable[[Outcome], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoTokens:
    """Two bearers over the demo connections alone, each good at one resource."""

    rest: str
    mcp: str


def was_loaded() -> bool:
    return "loaded_at" in _remembered()


def load(*, now: datetime, on_progress: OnProgress) -> Outcome:
    """Declare, connect and ingest. Running it again completes what was cut short."""
    owner_id = the_owner(now).owner_id
    for document in life.declarations():
        declare(orjson.dumps(document), owner_id=owner_id, now=now)
    known = set(Connection.unscoped.values_list("connection_id", flat=True))
    for each in life.connections():
        if each["connection_id"] not in known:
            connect(**each, owner_id=owner_id, now=now, demo=True)
    outcome = ingest_lines(_lines(), owner_id=owner_id, now=now, on_progress=on_progress)
    for blob in life.blobs():
        put_blob(**_in_one_piece(blob), now=now)
    _remember(loaded_at=now.isoformat())
    return outcome


def _lines() -> Iterator[Line]:
    for number, record in enumerate(life.records(), start=1):
        yield Line(number, orjson.dumps(record))


def _in_one_piece(blob: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in blob.items() if name != "content"} | {
        "chunks": [blob["content"]]
    }


def remove(*, now: datetime) -> int:
    """End every grant over nothing but demo connections, then erase those; how many there were.

    The demo does not come back with the next start, only with ``manage.py demo load``.
    """
    demo = frozenset(Connection.unscoped.filter(demo=True).values_list("connection_id", flat=True))
    for grant in in_state(grants_with_state(now), State.ACTIVE):
        if demo.issuperset(connection_ids(grant)):
            revoke_grant(grant.grant_id, now=now)
    for connection_id in demo:
        erase_connection(connection_id)
    return len(demo)


def tokens(now: datetime) -> DemoTokens | None:
    """New bearers for the demo client, or None where there is no demo."""
    demo = frozenset(_connections())
    if not demo:
        return None
    package = _package(demo, now=now)
    rest, mcp = (
        mint_token(package, resource=resource, now=now, expires_at=now + TOKEN_LIFETIME)
        for resource in ("/v1", "/mcp")
    )
    return DemoTokens(rest=rest, mcp=mcp)


def _package(demo: frozenset[str], *, now: datetime) -> "Package":
    """What the demo client holds; issued once, and again after the owner has revoked it."""
    client = _client(now)
    held = in_state(grants_with_state(now), State.ACTIVE).filter(package__client=client)
    # The owner may have given the client more; a demo token must not open that.
    packages = {grant.package_id: grant.package for grant in held}
    for package_id, package in packages.items():
        grants = [grant for grant in held if grant.package_id == package_id]
        if demo.issuperset(one for grant in grants for one in connection_ids(grant)):
            return package
    package, _ = issue(_requests(demo), client=client, now=now)
    return package


def _client(now: datetime) -> Client:
    known = Client.unscoped.filter(client_id=_remembered().get("client_id")).first()
    if known is None:
        known = register_client(CLIENT, owner_id=the_owner(now).owner_id, now=now)
        _remember(client_id=known.client_id)
    return known


def _requests(demo: frozenset[str]) -> list[GrantRequest]:
    """One grant for each source, of all its streams through all its demo connections."""
    requests = []
    for document in life.declarations():
        here = [
            each["connection_id"]
            for each in life.connections()
            if each["connector_key"] == document["connector_key"] and each["connection_id"] in demo
        ]
        streams = [StreamRequest(name=stream["name"]) for stream in document["streams"]]
        if here:
            requests.append(
                GrantRequest(
                    connection_ids=here,
                    streams=streams,
                    purpose_description="Trying this server out with the demo life.",
                )
            )
    return requests


def _connections() -> list[str]:
    rows = Connection.unscoped.filter(demo=True).exclude(status=Connection.Status.REVOKED)
    return list(rows.values_list("connection_id", flat=True))


def _remembered() -> dict[str, Any]:
    path = settings.PDPP_VAR / "demo.json"
    return json.loads(path.read_text()) if path.exists() else {}


def _remember(**facts: str) -> None:
    settings.PDPP_VAR.mkdir(parents=True, exist_ok=True)
    path = settings.PDPP_VAR / "demo.json"
    draft = path.with_suffix(".draft")
    draft.write_text(json.dumps(_remembered() | facts))
    draft.replace(path)
