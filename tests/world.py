"""The cast. Alice owns the records, Bob holds a narrow grant, Charlie must see nothing of it.

Alice has two mailboxes of one source, a chat workspace whose stream has the mailboxes' name, and a
bank account. Bob reads some fields of her mail since 2026; Charlie reads her bank account only;
Dora holds a package over everything.
"""

import io
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from django.core.management import call_command
from django.test import Client as HttpClient
from django.test.client import ClientHandler

from evidence.access.grant_terms import StreamRequest
from evidence.access.grants import GrantRequest, issue, register_client
from evidence.access.tokens import create_owner_token, create_token
from evidence.models.grants import Grant, Package
from evidence.models.owners import Owner, acting_for, get_or_create_owner
from evidence.search.embedding import configured_embedder
from evidence.write.connections import create_connection
from evidence.write.declaration_store import declare
from evidence.write.ingest import IngestResult, ingest_lines
from evidence.write.ndjson import NdjsonLine
from evidence.write.vectors import embed_missing, prepare_table
from tests.distributed import cluster
from tests.owners import OWNER_ID

HANDLER = ClientHandler(enforce_csrf_checks=False)
"""Loads the middleware once, which takes as long as a seventh of a request."""
NOW = datetime(2026, 11, 1, 12, tzinfo=UTC)
PERSONAL, WORK, CHAT, BANK = "cin_personal", "cin_work", "cin_chat", "cin_bank"
BOBS_FIELDS = ("id", "subject", "from_name", "received_at", "body_text", "thread_id")


def _string(**more: Any) -> dict[str, Any]:
    return {"type": ["string", "null"]} | more


MAIL: dict[str, Any] = {
    "protocol_version": "0.1.0",
    "connector_id": "https://registry.example/connectors/mail",
    "connector_key": "mail",
    "version": "1.0.0",
    "display_name": "Mail",
    "streams": [
        {
            "name": "messages",
            "description": "Mail messages.",
            "semantics": "mutable_state",
            "display": {"label": "Your messages", "detail": "Sender, subject, date and text."},
            "schema": {
                "type": "object",
                "required": ["id"],
                "properties": {
                    "id": {"type": "string"},
                    "thread_id": _string(),
                    "subject": _string(x_pdpp_role="primary-title"),
                    "from_name": _string(x_pdpp_role="actor"),
                    "from_email": _string(x_pdpp_role="actor-id"),
                    "received_at": _string(format="date-time", x_pdpp_role="event-time"),
                    "labels": {"type": "array", "items": {"type": "string"}},
                    "is_seen": {"type": "boolean"},
                    "size_bytes": {"type": ["integer", "null"]},
                    "body_text": _string(x_pdpp_role="secondary"),
                },
            },
            "primary_key": ["id"],
            "cursor_field": "received_at",
            "consent_time_field": "received_at",
            "selection": {"fields": True, "resources": True},
            "views": [
                {"id": "envelope", "label": "Envelope", "fields": ["id", "subject", "received_at"]},
                {"id": "sizes", "label": "Sizes", "fields": ["id", "size_bytes"]},
            ],
            "relationships": [
                {
                    "name": "thread",
                    "stream": "threads",
                    "foreign_key": "thread_id",
                    "cardinality": "has_one",
                }
            ],
            "query": {
                "search": {
                    "lexical_fields": ["subject", "from_name", "from_email", "body_text"],
                    "semantic_fields": ["body_text"],
                },
                "range_filters": {
                    "received_at": ["gte", "gt", "lte", "lt"],
                    "size_bytes": ["gte", "lt"],
                },
                "expand": [{"name": "thread"}],
                "aggregations": {
                    "count": True,
                    "count_distinct": ["from_name"],
                    "sum": ["size_bytes"],
                    "min": ["received_at", "size_bytes"],
                    "max": ["received_at", "size_bytes"],
                    "group_by": ["from_name", "is_seen"],
                    "group_by_time": ["received_at"],
                },
            },
        },
        {
            "name": "threads",
            "description": "Conversations.",
            "semantics": "mutable_state",
            "schema": {
                "type": "object",
                "required": ["id"],
                "properties": {"id": {"type": "string"}, "topic": _string()},
            },
            "primary_key": ["id"],
            "selection": {"fields": True, "resources": True},
            "relationships": [
                {
                    "name": "messages",
                    "stream": "messages",
                    "foreign_key": "thread_id",
                    "cardinality": "has_many",
                }
            ],
            "query": {"expand": [{"name": "messages", "default_limit": 2, "max_limit": 5}]},
        },
    ],
}

WORKSPACE: dict[str, Any] = {
    "protocol_version": "0.1.0",
    "connector_id": "https://registry.example/connectors/workspace",
    "connector_key": "workspace",
    "version": "1.0.0",
    "display_name": "Workspace",
    "streams": [
        {
            "name": "messages",
            "description": "Chat messages.",
            "semantics": "mutable_state",
            "display": {"label": "Your chat", "detail": "Channel, author and text."},
            "schema": {
                "type": "object",
                "required": ["id"],
                "properties": {
                    "id": {"type": "string"},
                    "channel": _string(),
                    "author": _string(x_pdpp_role="actor"),
                    "sent_at": _string(format="date-time", x_pdpp_role="event-time"),
                    "text": _string(x_pdpp_role="primary-title"),
                },
            },
            "primary_key": ["id"],
            "cursor_field": "sent_at",
            "consent_time_field": "sent_at",
            "selection": {"fields": True, "resources": True},
            "query": {
                "search": {"lexical_fields": ["text"]},
                "aggregations": {"count": True, "group_by": ["channel"]},
            },
        }
    ],
}

ACCOUNT: dict[str, Any] = {
    "protocol_version": "0.1.0",
    "connector_id": "https://registry.example/connectors/account",
    "connector_key": "account",
    "version": "1.0.0",
    "display_name": "Bank",
    "streams": [
        {
            "name": "transactions",
            "description": "Posted transactions; amounts are integer cents.",
            "semantics": "append_only",
            "display": {"label": "Your transactions", "detail": "Date, amount and payee."},
            "schema": {
                "type": "object",
                "required": ["id", "date", "amount"],
                "properties": {
                    "id": {"type": "string"},
                    "date": {"type": "string", "format": "date", "x_pdpp_role": "event-time"},
                    "amount": {"type": "integer", "x_pdpp_type": "currency"},
                    "currency": {"type": "string"},
                    "name": _string(x_pdpp_role="primary-title"),
                    "memo": _string(),
                },
            },
            "primary_key": ["id"],
            "cursor_field": "date",
            "consent_time_field": "date",
            "selection": {"fields": True, "resources": True},
            "query": {
                "search": {"lexical_fields": ["name", "memo"]},
                "range_filters": {"date": ["gte", "lt"], "amount": ["gte", "gt", "lte", "lt"]},
                "aggregations": {
                    "count": True,
                    "sum": ["amount"],
                    "group_by": ["name"],
                    "group_by_time": ["date"],
                },
            },
        }
    ],
}


def mail(key: str, received_at: str | None, **more: Any) -> dict[str, Any]:
    return {"id": key, "received_at": received_at, **more}


RECORDS: tuple[tuple[str, str, dict[str, Any]], ...] = (
    (PERSONAL, "messages", mail("m0", "2025-06-01T08:00:00Z", subject="Old lease draft",
        from_name="Eva Lang", body_text="The lease as it was in summer 2025.", size_bytes=10)),
    (PERSONAL, "messages", mail("m1", "2026-01-10T09:00:00Z", subject="Lease signed",
        from_name="Eva Lang", from_email="eva@example.org", thread_id="t1", is_seen=True,
        size_bytes=2000, labels=["home"],
        body_text="Dear Alice, we signed the lease for Lindenstraße 12 today. "
        "The deposit is 2,340 euros, due by 1 February.")),
    (PERSONAL, "messages", mail("m2", "2026-01-12T10:00:00Z", subject="Re: Lease signed",
        from_name="Alice", thread_id="t1", is_seen=False, size_bytes=500,
        body_text="Wonderful, I will transfer the deposit tomorrow.")),
    (PERSONAL, "messages", mail("m3", "2026-03-05T18:30:00Z", subject="Dinner on Friday?",
        from_name="Jonas Weber", is_seen=True, size_bytes=700,
        body_text="Shall we meet at the café near the canal? 京都のお土産もあります。")),
    (PERSONAL, "messages", mail("m4", None, subject="A note without a date",
        from_name="Alice", is_seen=True, size_bytes=100, body_text="Remember the plants.")),
    (WORK, "messages", mail("m1", "2026-02-01T07:00:00Z", subject="Budget review",
        from_name="Mara Novak", is_seen=True, size_bytes=4000,
        body_text="The budget review moves to Thursday. Secret figures are attached.")),
    (WORK, "messages", mail("w2", "2026-02-03T07:00:00Z", subject="Invoice INV-2026/0042",
        from_name="Mara Novak", is_seen=False, size_bytes=4200,
        body_text="Please pay the invoice by the end of the month.")),
    (PERSONAL, "threads", {"id": "t1", "topic": "The lease"}),
    (CHAT, "messages", {"id": "c1", "channel": "general", "author": "Mara", "sent_at":
        "2026-02-01T08:00:00Z", "text": "The budget deck is ready"}),
    (CHAT, "messages", {"id": "c2", "channel": "random", "author": "Jonas", "sent_at":
        "2026-02-02T08:00:00Z", "text": "Lunch at the canal?"}),
    (BANK, "transactions", {"id": "b1", "date": "2026-01-13", "amount": -234000, "currency": "EUR",
        "name": "Eva Lang", "memo": "Deposit Lindenstrasse"}),
    (BANK, "transactions", {"id": "b2", "date": "2026-01-20", "amount": 410000, "currency": "EUR",
        "name": "Acme GmbH", "memo": "Salary"}),
    (BANK, "transactions", {"id": "b3", "date": "2026-02-20", "amount": 410000, "currency": "EUR",
        "name": "Acme GmbH", "memo": "Salary"}),
)  # fmt: skip


NEIGHBOR = "neighbor"


def move_in() -> None:
    """Add another owner with connections, records, apps and readings under the same ids as the cast."""
    Owner.unscoped.create(owner_id=NEIGHBOR, display_name="Neighbor", created_at=NOW)
    with acting_for(NEIGHBOR):
        records = [(*place, _overheard(data)) for *place, data in RECORDS]
        more = [(*place, data | {"id": f"n{data['id']}"}) for *place, data in records]
        neighbor = World.build_for(NEIGHBOR, (*records, *more))
    for name in ("alice", "dora"):
        assert neighbor.get("/v1/streams/messages/records", name, connection_id=PERSONAL).ids


def _overheard(data: Mapping[str, Any]) -> dict[str, Any]:
    """The same record of a neighbor: no text, number or date of it may ever be heard."""
    heard = {"subject", "body_text", "text", "memo", "topic"}
    return {
        name: f"{value} overheard lease deposit" if name in heard and value else value
        for name, value in data.items()
    }


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back over HTTP."""

    status: int
    body: Any
    headers: Mapping[str, str]

    @property
    def error(self) -> dict[str, Any]:
        error: dict[str, Any] = self.body["error"]
        return error

    @property
    def ids(self) -> list[str]:
        """The record ids of a list or of search hits."""
        return [each.get("id") or each["record_key"] for each in self.body["data"]]


@dataclass
class World:
    owner_id: str
    tokens: dict[str, str] = field(default_factory=dict)
    packages: dict[str, Package] = field(default_factory=dict)
    grants: dict[str, list[Grant]] = field(default_factory=dict)

    @classmethod
    def build(cls) -> "World":
        owner_id = get_or_create_owner(NOW).owner_id
        with acting_for(owner_id):
            return cls.build_for(owner_id, RECORDS)

    @classmethod
    def build_beside(cls) -> "World":
        """The cast beside a neighbor: another owner, whose apps, connections and records have the same ids.

        The neighbor's texts are longer, there are more of them, and an app has read them all.
        """
        move_in()
        Owner.unscoped.create(owner_id=OWNER_ID, created_at=NOW, is_administrator=True)
        return cls.build_for(OWNER_ID, RECORDS)

    @classmethod
    def build_for(cls, owner_id: str, records: Iterable[tuple[Any, ...]]) -> "World":
        world = cls(owner_id=owner_id)
        for document in (MAIL, WORKSPACE, ACCOUNT):
            world.declare(document)
        for connection_id, key, label in (
            (PERSONAL, "mail", "Personal mail"),
            (WORK, "mail", "Work mail"),
            (CHAT, "workspace", "Workspace"),
            (BANK, "account", "Bank account"),
        ):
            world.connect(connection_id, key, label)
        world.put(*records)
        world.tokens["alice"] = create_owner_token(owner_id=world.owner_id, now=NOW)
        world.grant(
            "bob",
            GrantRequest(
                connection_ids=[PERSONAL, WORK],
                streams=[
                    StreamRequest(
                        name="messages",
                        fields=BOBS_FIELDS,
                        since=datetime(2026, 1, 1, tzinfo=UTC),
                    )
                ],
            ),
        )
        world.grant(
            "charlie",
            GrantRequest(connection_ids=[BANK], streams=[StreamRequest(name="transactions")]),
        )
        world.grant(
            "dora",
            GrantRequest(
                connection_ids=[PERSONAL, WORK],
                streams=[StreamRequest(name="messages"), StreamRequest(name="threads")],
            ),
            GrantRequest(connection_ids=[CHAT], streams=[StreamRequest(name="messages")]),
            GrantRequest(connection_ids=[BANK], streams=[StreamRequest(name="transactions")]),
        )
        return world

    def declare(self, document: Mapping[str, Any]) -> None:
        declare(json.dumps(document), owner_id=self.owner_id, now=NOW)

    def connect(
        self,
        connection_id: str,
        connector_key: str,
        label: str,
        *,
        identities: Iterable[str] = (),
        languages: Iterable[str] = ("en", "de"),
    ) -> None:
        create_connection(
            connector_key,
            display_name=label,
            owner_id=self.owner_id,
            now=NOW,
            languages=list(languages),
            identities=identities,
            connection_id=connection_id,
        )

    def put(
        self, *records: tuple[str, str, Mapping[str, Any]], emitted_at: str = "2026-10-01T00:00:00Z"
    ) -> IngestResult:
        """Records of (connection, stream, data), keyed by their ``id``."""
        return self.send(
            {
                "connection_id": connection_id,
                "stream": stream,
                "key": data["id"],
                "data": data,
                "emitted_at": emitted_at,
            }
            for connection_id, stream, data in records
        )

    def send(self, lines: Iterable[Mapping[str, Any]]) -> IngestResult:
        encoded = [NdjsonLine(n, json.dumps(line).encode()) for n, line in enumerate(lines, 1)]
        return ingest_lines(encoded, owner_id=self.owner_id, now=NOW)

    def embed(self) -> bool:
        """Vectors for whatever has none; whether there can be any."""
        embedder = configured_embedder()
        if embedder is not None and cluster.programs() is not None:
            call_command("distribute", shards=4, stdout=io.StringIO())
        if embedder is None or not prepare_table(embedder):
            return False
        list(embed_missing(embedder))
        return True

    def grant(self, name: str, *requests: GrantRequest, days: int = 3650) -> str:
        """A package for a client called ``name``; tokens ``name`` for REST, ``name@mcp`` for MCP."""
        client = register_client(name.title(), owner_id=self.owner_id, now=NOW)
        package, grants = issue(requests, client=client, now=NOW)
        ends = NOW + timedelta(days=days)
        self.packages[name], self.grants[name] = package, grants
        self.tokens[name] = create_token(package, resource="/v1", now=NOW, expires_at=ends)
        self.tokens[f"{name}@mcp"] = create_token(
            package, resource="/mcp", now=NOW, expires_at=ends
        )
        return self.tokens[name]

    def get(self, path: str, who: str | None = "bob", **query: Any) -> Answer:
        """``GET path`` as somebody; ``filter__size_bytes__gte=1`` is ``filter[size_bytes][gte]``."""
        return self.call("GET", path, who, **query)

    def call(self, method: str, path: str, who: str | None = "bob", **query: Any) -> Answer:
        headers = {} if who is None else {"Authorization": f"Bearer {self.tokens.get(who, who)}"}
        flat = {_bracketed(name): value for name, value in query.items()}
        client = HttpClient(headers=headers)
        client.handler = HANDLER
        response = client.generic(method, path, query_params=flat)
        content = b"".join(response) if response.streaming else response.content
        is_json = response.headers.get("Content-Type", "").startswith("application/json")
        body = json.loads(content) if is_json and content else content
        return Answer(response.status_code, body, dict(response.headers))


def _bracketed(name: str) -> str:
    first, *rest = name.split("__")
    return first + "".join(f"[{part}]" for part in rest)
