"""``manage.py grant``: let a client read, list who may, and end it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby
from typing import Any

import orjson
from django.conf import settings
from django.core.management.base import CommandError, CommandParser
from django.db import transaction
from django.db.models import Q
from django.utils import timezone
from typing_extensions import override

from evidence.access.grant_states import GrantSummary, connection_labels, list_grants, terms_of
from evidence.access.grant_terms import StreamRequest
from evidence.access.grant_text import describe_stream, end_of_day, format_day
from evidence.access.grants import (
    GrantRequest,
    issue,
    register_client,
    revoke_grant,
    revoke_package,
)
from evidence.access.tokens import create_token
from evidence.errors import ApiException, ConnectionNotFound, InvalidRequest, StreamNotDeclared
from evidence.management.argument_types import day, days
from evidence.management.owner_command import OwnerCommand
from evidence.models.clients import Client
from evidence.models.connections import Connection
from evidence.models.grants import Grant
from evidence.models.owners import current_owner
from evidence.models.sources import load_declarations
from owner.setup_snippets import EVENTS, MCP, RESOURCE_USES, REST, token_snippets

FLAGS: Mapping[str, str] = {
    "client": "--client",
    "connections": "--connection",
    "fields": "--stream",
    "resources": "--record",
    "since": "--since",
    "streams": "--stream",
    "until": "--until",
}
"""Parameter of a refusal -> flag that it is about."""


@dataclass(frozen=True, slots=True)
class Named:
    """``[SOURCE/]STREAM[:REST]``, where SOURCE is the short name of a source."""

    source: str | None
    stream: str
    rest: str | None

    @classmethod
    def read(cls, text: str) -> "Named":
        # Neither a source nor a stream has a colon or a slash in its name; a key may have both.
        name, colon, rest = text.partition(":")
        source, slash, stream = name.rpartition("/")
        return cls(source if slash else None, stream, rest if colon else None)

    def means(self, source: str, stream: str) -> bool:
        return self.stream == stream and self.source in (None, source)

    @override
    def __str__(self) -> str:
        return f"{self.source}/{self.stream}" if self.source else self.stream


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What the flags say. No stream named means every stream."""

    connection_ids: Sequence[str]
    streams: Sequence[Named]
    records: Sequence[Named]
    since: datetime | None
    until: datetime | None
    purpose: str
    expires_at: datetime


def client_named(name: str, *, owner_id: str, now: datetime) -> Client:
    """The latest client of that name, or a new one. Raises ``InvalidRequest`` for a bad name."""
    known = Client.unscoped.filter(owner_id=owner_id, display_name=name.strip())
    found = known.order_by("-created_at", "client_id").first()
    return found or register_client(name, owner_id=owner_id, now=now)


def requests(wish: Wish, *, owner_id: str) -> list[GrantRequest]:
    """A request for each source among the connections.

    Raises ``ConnectionNotFound``, ``StreamNotDeclared`` and ``InvalidRequest``.
    """
    connections = _connections(wish.connection_ids, owner_id=owner_id)
    streams = {
        (each.source.connector_key, name): None for each in connections for name in _declared(each)
    }
    _check_names(wish, streams=list(streams))
    return [
        GrantRequest(
            connection_ids=[each.connection_id for each in group],
            streams=_streams(wish, source=key, declares=[s for k, s in streams if k == key]),
            purpose_description=wish.purpose,
            expires_at=wish.expires_at,
        )
        for key, group in groupby(connections, key=lambda each: each.source.connector_key)
    ]


def _connections(connection_ids: Sequence[str], *, owner_id: str) -> list[Connection]:
    """In the order of their sources."""
    rows = Connection.unscoped.select_related("source").filter(
        owner_id=owner_id, connection_id__in=connection_ids
    )
    found = list(rows.order_by("source__connector_key", "connection_id"))
    missing = set(connection_ids) - {each.connection_id for each in found}
    if missing:
        raise ConnectionNotFound(
            message=f"No such connection: {', '.join(sorted(missing))}.", param="connections"
        )
    return found


def _declared(connection: Connection) -> Sequence[str]:
    current = connection.source.current_declaration_id
    return (
        [] if current is None else list(load_declarations([current])[current].declaration.streams)
    )


def _check_names(wish: Wish, *, streams: Sequence[tuple[str, str]]) -> None:
    """Every name means something, or a typing error would go unseen."""
    for param, names in (("streams", wish.streams), ("resources", wish.records)):
        for name in names:
            if name.rest == "":
                raise InvalidRequest(message=f"Nothing follows the colon of {name}:.", param=param)
            if not any(name.means(source, stream) for source, stream in streams):
                known = ", ".join(f"{source}/{stream}" for source, stream in streams)
                raise StreamNotDeclared(
                    message=f"No stream {name} in these connections; they have: {known}.",
                    param=param,
                )


def _streams(wish: Wish, *, source: str, declares: Sequence[str]) -> list[StreamRequest]:
    chosen = [
        StreamRequest(
            name=stream,
            fields=_fields(wish.streams, source=source, stream=stream),
            resources=_keys(wish.records, source=source, stream=stream),
            since=wish.since,
            until=wish.until,
        )
        for stream in declares
        if not wish.streams or any(name.means(source, stream) for name in wish.streams)
    ]
    if not chosen:
        raise InvalidRequest(
            message=f"No stream of {source} is named, though a connection of it is.",
            param="streams",
        )
    unused = [
        name
        for name in wish.records
        if any(name.means(source, stream) for stream in declares)
        and not any(name.means(source, request.name) for request in chosen)
    ]
    if unused:
        raise InvalidRequest(
            message=f"The stream of {unused[0]}:{unused[0].rest} is not among those granted.",
            param="resources",
        )
    return chosen


def _fields(names: Sequence[Named], *, source: str, stream: str) -> list[str] | None:
    """The fields named for a stream; None, which is all, where it is named without any."""
    lists = [name.rest for name in names if name.means(source, stream)]
    if not lists or None in lists:
        return None
    return [field for rest in lists for field in (rest or "").split(",") if field]


def _keys(names: Sequence[Named], *, source: str, stream: str) -> list[str] | None:
    keys = [name.rest or "" for name in names if name.means(source, stream)]
    return keys or None


def clients_of_name(name: str, *, owner_id: str) -> list[str]:
    """The ids of all clients that are called so, or have it for their id."""
    found = Client.unscoped.filter(Q(display_name=name) | Q(client_id=name), owner_id=owner_id)
    return list(found.values_list("client_id", flat=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class Issued:
    """``labels`` are those of the connections; ``tokens`` maps resources to bearers."""

    client: Client
    package_id: str
    grants: Sequence[Grant]
    expires_at: datetime
    labels: Mapping[str, str]
    tokens: Mapping[str, str]


def issued_members(issued: Issued) -> dict[str, Any]:
    """Return what was issued, as JSON has it."""
    return {
        "client_id": issued.client.client_id,
        "client": issued.client.display_name,
        "package_id": issued.package_id,
        "grants": [
            {
                "grant_id": grant.grant_id,
                "source": grant.source.connector_key,
                "streams": [stream["name"] for stream in grant.streams],
            }
            for grant in issued.grants
        ],
        "expires_at": issued.expires_at,
        "tokens": [{"resource": name, "token": bearer} for name, bearer in issued.tokens.items()],
    }


def _issued_lines(issued: Issued) -> Iterator[str]:
    yield f"{issued.client.display_name} may read, until {format_day(issued.expires_at)}:"
    for grant in issued.grants:
        for terms, stream in terms_of(grant):
            words = describe_stream(terms, stream=stream, labels=issued.labels)
            yield f"  - {words.sentence}"
    yield f"End it with  manage.py grant --revoke {issued.package_id}"
    for resource, bearer in issued.tokens.items():
        yield ""
        yield f"Token {RESOURCE_USES[resource]}, shown this once:"
        yield f"  {bearer}"
        for recipe in token_snippets(bearer, resource=resource, url=settings.PDPP_PUBLIC_URL):
            yield f"{recipe.app}:"
            yield from (f"  {line}" for line in recipe.lines)


def _held_lines(grant: GrantSummary) -> Iterator[str]:
    ends = "never ends" if grant.expires_at is None else f"ends {format_day(grant.expires_at)}"
    yield f"{grant.grant_id}  {grant.state.value}, {ends}"
    yield f"  {grant.client} reads {', '.join(grant.streams)} of {grant.source}"
    yield f"  through {', '.join(grant.connections)}; package {grant.package_id}"


RESOURCES = {"mcp": (MCP,), "rest": (REST,), "both": (MCP, REST), "events": (MCP, EVENTS)}
DAYS = 90


class Command(OwnerCommand):
    """Connections of several sources make a package: a grant for each source, one token for all."""

    help = "Let a client read some of your records, and print its tokens. They are shown once."

    @override
    def add_arguments(self, parser: CommandParser) -> None:
        instead = parser.add_mutually_exclusive_group()
        instead.add_argument("--list", action="store_true", help="List the grants instead.")
        instead.add_argument("--revoke", metavar="ID", help="End a grant or a package instead.")
        parser.add_argument("--client", metavar="NAME", help="Who gets access; new or known.")
        for flag, metavar, meaning in (
            ("--connection", "ID", "A connection it may read."),
            (
                "--stream",
                "[SOURCE/]NAME[:FIELD,FIELD]",
                "A stream, and which fields of it (default: every stream, every field).",
            ),
            ("--record", "[SOURCE/]STREAM:KEY", "A single record; others stay hidden."),
        ):
            parser.add_argument(
                flag,
                metavar=metavar,
                action="append",
                default=[],
                help=f"{meaning} May be given several times.",
            )
        parser.add_argument("--since", type=day, metavar="DAY", help="Only what is of that day on.")
        parser.add_argument("--until", type=day, metavar="DAY", help="Up to the end of that day.")
        parser.add_argument("--purpose", default="", help="What for, in your own words.")
        parser.add_argument(
            "--days", type=days, default=DAYS, help="How long it holds (default: %(default)s)."
        )
        parser.add_argument(
            "--for",
            dest="resources",
            choices=RESOURCES,
            default="both",
            help="Tokens for agents (mcp), programs (rest), both (default), or agents that also"
            " subscribe to changes (events).",
        )
        parser.add_argument("--json", action="store_true", help="Print JSON.")

    @override
    def handle(self, *args: Any, **options: Any) -> None:
        if options["list"]:
            held = list_grants(current_owner(), now=timezone.now())
            lines = [line for grant in held for line in _held_lines(grant)] or ["No grants."]
            self._print(held, lines, as_json=options["json"])
        elif options["revoke"] is not None:
            self._revoke(options["revoke"])
        else:
            self._grant(options)

    def _print(self, members: object, lines: Iterable[str], *, as_json: bool) -> None:
        text = orjson.dumps(members, option=orjson.OPT_INDENT_2).decode()
        self.stdout.write(text if as_json else "\n".join(lines))

    def _revoke(self, named: str) -> None:
        revoke = revoke_package if named.startswith("pkg_") else revoke_grant
        if not revoke(named, now=timezone.now()):
            raise CommandError(
                f"--revoke: {named} names nothing, or has ended before;"
                " manage.py grant --list shows what there is."
            )
        self.stdout.write(f"{named} has ended.")

    def _grant(self, options: dict[str, Any]) -> None:
        for flag in ("client", "connection"):
            if not options[flag]:
                raise CommandError(f"--{flag} is needed, or --list, or --revoke ID.")
        try:
            issued = self._issued(options)
        except ApiException as refusal:
            about = FLAGS.get(refusal.param or "")
            told = refusal.message if about is None else f"{about}: {refusal.message}"
            raise CommandError(told) from refusal
        self._print(issued_members(issued), _issued_lines(issued), as_json=options["json"])

    @transaction.atomic
    def _issued(self, options: dict[str, Any]) -> Issued:
        now = timezone.now()
        owner_id = current_owner()
        until = options["until"]
        wish = Wish(
            connection_ids=list(dict.fromkeys(options["connection"])),
            streams=[Named.read(text) for text in options["stream"]],
            records=[Named.read(text) for text in options["record"]],
            since=options["since"],
            until=None if until is None else end_of_day(until),
            purpose=options["purpose"],
            expires_at=now + timedelta(days=options["days"]),
        )
        wanted = requests(wish, owner_id=owner_id)
        client = client_named(options["client"], owner_id=owner_id, now=now)
        package, grants = issue(wanted, client=client, now=now)
        resources = RESOURCES[options["resources"]]
        return Issued(
            client=client,
            package_id=package.package_id,
            grants=grants,
            expires_at=wish.expires_at,
            labels=connection_labels(owner_id),
            tokens={each: create_token(package, resource=each, now=now) for each in resources},
        )
