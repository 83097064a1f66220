"""Load and remove demo data and generated records, and create demo tokens.

``var/demo.json`` records that the demo was loaded, so that a removed demo does not come back at the
next start.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import orjson
from django.conf import settings

from demo import generated, life
from evidence.access.grant_states import GrantState, connection_ids, filter_state, with_grant_state
from evidence.access.grant_terms import StreamRequest
from evidence.access.grants import GrantRequest, issue, register_client, revoke_grant
from evidence.access.tokens import create_token
from evidence.models.clients import Client
from evidence.models.connections import Connection
from evidence.models.owners import current_owner
from evidence.write.blobs import put_blob
from evidence.write.connections import create_connection
from evidence.write.declaration_store import declare
from evidence.write.ingest import IngestResult, ingest_lines
from evidence.write.ndjson import NdjsonLine
from evidence.write.record_erasure import erase_connection

if TYPE_CHECKING:
    from evidence.models.grants import Package

TOKEN_LIFETIME = timedelta(hours=24)
CLIENT_NAME = "Demo"

OnProgress = Callable[[IngestResult], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoTokens:
    """Two bearer tokens that can read the demo connections only, each for one resource."""

    rest: str
    mcp: str


def is_demo_loaded() -> bool:
    return "loaded_at" in _read_state()


def load_demo(
    *, now: datetime, on_progress: OnProgress = lambda _: None, last_year: bool = False
) -> IngestResult:
    """Load the demo data, or its last year; call again to complete an interrupted load."""
    records = list(life.last_year() if last_year else life.records())
    result = _load(
        life.declarations(), life.connections(), records, now=now, on_progress=on_progress
    )
    loaded = {(each["connection_id"], each["stream"], each["key"]) for each in records}
    for blob in life.blobs():
        if (blob["connection_id"], blob["stream"], blob["record_key"]) in loaded:
            put_blob(**_blob_arguments(blob), now=now)
    _save_state(loaded_at=now.isoformat())
    return result


def load_generated(
    count: int, *, now: datetime, on_progress: OnProgress = lambda _: None
) -> IngestResult:
    """Load `count` generated records, which are the same for the same count."""
    connections = [
        {name: value for name, value in each.items() if name != "stream"}
        for each in generated.connections()
    ]
    return _load(
        generated.documents(),
        connections,
        generated.records(count),
        now=now,
        on_progress=on_progress,
    )


def _load(
    declarations: Iterable[Mapping[str, Any]],
    connections: Iterable[Mapping[str, Any]],
    records: Iterable[Mapping[str, Any]],
    *,
    now: datetime,
    on_progress: OnProgress,
) -> IngestResult:
    owner_id = current_owner()
    for document in declarations:
        declare(orjson.dumps(document), owner_id=owner_id, now=now)
    existing = set(Connection.unscoped.values_list("connection_id", flat=True))
    for each in connections:
        if each["connection_id"] not in existing:
            create_connection(**each, owner_id=owner_id, now=now, demo=True)
    lines = (NdjsonLine(number, orjson.dumps(each)) for number, each in enumerate(records, start=1))
    return ingest_lines(lines, owner_id=owner_id, now=now, on_progress=on_progress)


def _blob_arguments(blob: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in blob.items() if name != "content"} | {
        "chunks": [blob["content"]]
    }


def remove_demo(*, now: datetime) -> int:
    """Revoke every grant over demo connections only, erase these, and return their number."""
    demo = frozenset(Connection.unscoped.filter(demo=True).values_list("connection_id", flat=True))
    for grant in filter_state(with_grant_state(now), GrantState.ACTIVE):
        if demo.issuperset(connection_ids(grant)):
            revoke_grant(grant.grant_id, now=now)
    for connection_id in demo:
        erase_connection(connection_id)
    return len(demo)


def create_demo_tokens(now: datetime) -> DemoTokens | None:
    """Create tokens for the demo client; None if there is no demo data."""
    demo = frozenset(_demo_connections())
    if not demo:
        return None
    package = _get_or_create_package(demo, now=now)
    rest, mcp = (
        create_token(package, resource=resource, now=now, expires_at=now + TOKEN_LIFETIME)
        for resource in ("/v1", "/mcp")
    )
    return DemoTokens(rest=rest, mcp=mcp)


def _get_or_create_package(demo: frozenset[str], *, now: datetime) -> "Package":
    """Return the demo client's package; issue one if the owner revoked it."""
    client = _get_or_create_client(now)
    grants = filter_state(with_grant_state(now), GrantState.ACTIVE).filter(package__client=client)
    # The owner may have given the client more access, which a demo token must not use.
    packages: dict[str, Package] = {grant.package_id: grant.package for grant in grants}
    for package_id, package in packages.items():
        granted = [grant for grant in grants if grant.package_id == package_id]
        if all(demo.issuperset(connection_ids(grant)) for grant in granted):
            return package
    package, _ = issue(_grant_requests(demo), client=client, now=now)
    return package


def _get_or_create_client(now: datetime) -> Client:
    existing = Client.unscoped.filter(client_id=_read_state().get("client_id")).first()
    if existing is None:
        existing = register_client(CLIENT_NAME, owner_id=current_owner(), now=now)
        _save_state(client_id=existing.client_id)
    return existing


def _grant_requests(demo: frozenset[str]) -> list[GrantRequest]:
    """Return one request per source, for all its streams and demo connections."""
    requests = []
    for document in life.declarations():
        connection_ids = [
            demo_connection["connection_id"]
            for demo_connection in life.connections()
            if demo_connection["connector_key"] == document["connector_key"]
            and demo_connection["connection_id"] in demo
        ]
        streams = [StreamRequest(name=stream["name"]) for stream in document["streams"]]
        if connection_ids:
            requests.append(
                GrantRequest(
                    connection_ids=connection_ids,
                    streams=streams,
                    purpose_description="Trying this server out with the demo data.",
                )
            )
    return requests


def _demo_connections() -> list[str]:
    rows = Connection.unscoped.filter(demo=True).exclude(status=Connection.Status.REVOKED)
    return list(rows.values_list("connection_id", flat=True))


def _read_state() -> dict[str, Any]:
    path = settings.PDPP_VAR / "demo.json"
    return json.loads(path.read_text()) if path.exists() else {}


def _save_state(**facts: str) -> None:
    settings.PDPP_VAR.mkdir(parents=True, exist_ok=True)
    path = settings.PDPP_VAR / "demo.json"
    draft = path.with_suffix(".draft")
    draft.write_text(json.dumps(_read_state() | facts))
    draft.replace(path)
