"""``manage.py grant``: let a client read, list who may, and end it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import groupby
from typing import Any, TypeAlias

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
from evidence.models.grants import Grant, Package
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


Name: TypeAlias = tuple[str | None, str, str | None]
"""``[SOURCE/]STREAM[:REST]``, where SOURCE is the short name of a source."""


def parse_name(text: str) -> Name:
    # Neither a source nor a stream has a colon or a slash in its name; a key may have both.
    name, colon, rest = text.partition(":")
    source, slash, stream = name.rpartition("/")
    return source if slash else None, stream, rest if colon else None


def means(name: Name, source: str, stream: str) -> bool:
    return name[1] == stream and name[0] in (None, source)


def requests(options: Mapping[str, Any], *, expires_at: datetime) -> list[GrantRequest]:
    """Return a request for each source among the connections. No stream named means every stream.

    Raises ``ConnectionNotFound``, ``StreamNotDeclared`` and ``InvalidRequest``.
    """
    ids = set(options["connection"])
    rows = Connection.unscoped.select_related("source").filter(
        owner_id=current_owner(), connection_id__in=ids
    )
    connections = list(rows.order_by("source__connector_key", "connection_id"))
    if missing := ids - {each.connection_id for each in connections}:
        text = f"No such connection: {', '.join(sorted(missing))}."
        raise ConnectionNotFound(message=text, param="connections")
    declared: dict[str, list[str]] = {}
    for each in connections:
        pk = each.source.current_declaration_id
        streams = [] if pk is None else list(load_declarations([pk])[pk].declaration.streams)
        declared[each.source.connector_key] = streams
    named = {
        param: [parse_name(text) for text in options[option]]
        for param, option in (("streams", "stream"), ("resources", "record"))
    }
    _check_names(named, declared)
    until: datetime | None = options["until"]
    return [
        GrantRequest(
            connection_ids=[each.connection_id for each in group],
            streams=[
                StreamRequest(
                    name=stream,
                    fields=_fields(named["streams"], source, stream),
                    resources=[rest or "" for _, _, rest in _of(named["resources"], source, stream)]
                    or None,
                    since=options["since"],
                    until=None if until is None else end_of_day(until),
                )
                for stream in _chosen(named, source, declared[source])
            ],
            purpose_description=options["purpose"],
            expires_at=expires_at,
        )
        for source, group in groupby(connections, key=lambda each: each.source.connector_key)
    ]


def _of(names: Iterable[Name], source: str, stream: str) -> list[Name]:
    return [name for name in names if means(name, source, stream)]


def _check_names(
    named: Mapping[str, Sequence[Name]], declared: Mapping[str, Sequence[str]]
) -> None:
    """Refuse a name that means nothing, or a typing error would go unseen."""
    known = [(source, stream) for source, streams in declared.items() for stream in streams]
    for param, names in named.items():
        for name in names:
            text = f"{name[0]}/{name[1]}" if name[0] else name[1]
            if name[2] == "":
                raise InvalidRequest(message=f"Nothing follows the colon of {text}:.", param=param)
            if not any(means(name, *each) for each in known):
                streams = ", ".join("/".join(each) for each in known)
                message = f"No stream {text} in these connections; they have: {streams}."
                raise StreamNotDeclared(message=message, param=param)


def _chosen(
    named: Mapping[str, Sequence[Name]], source: str, declared: Sequence[str]
) -> Sequence[str]:
    """Return the streams of a source that are granted."""
    streams, records = named["streams"], named["resources"]
    chosen = [each for each in declared if not streams or _of(streams, source, each)]
    if not chosen:
        text = f"No stream of {source} is named, though a connection of it is."
        raise InvalidRequest(message=text, param="streams")
    for name in records:
        of_source = [each for each in declared if means(name, source, each)]
        if of_source and not set(of_source) & set(chosen):
            text = f"The stream of {_text(name)} is not among those granted."
            raise InvalidRequest(message=text, param="resources")
    return chosen


def _text(name: Name) -> str:
    source, stream, rest = name
    return f"{source}/{stream}:{rest}" if source else f"{stream}:{rest}"


def _fields(names: Sequence[Name], source: str, stream: str) -> list[str] | None:
    """Return the fields named for a stream; None, which is all, where it is named without any."""
    lists = [rest for _, _, rest in _of(names, source, stream)]
    if not lists or None in lists:
        return None
    return [field for rest in lists for field in (rest or "").split(",") if field]


def clients_of_name(name: str, *, owner_id: str) -> list[str]:
    """The ids of all clients that are called so, or have it for their id."""
    found = Client.unscoped.filter(Q(display_name=name) | Q(client_id=name), owner_id=owner_id)
    return list(found.values_list("client_id", flat=True))


def _issued_lines(
    package: Package, grants: Sequence[Grant], expires_at: datetime, bearers: Mapping[str, str]
) -> Iterator[str]:
    labels = connection_labels(current_owner())
    yield f"{package.client.display_name} may read, until {format_day(expires_at)}:"
    for grant in grants:
        for terms, stream in terms_of(grant):
            yield f"  - {describe_stream(terms, stream=stream, labels=labels).sentence}"
    yield f"End it with  manage.py grant --revoke {package.package_id}"
    for resource, bearer in bearers.items():
        yield from ("", f"Token {RESOURCE_USES[resource]}, shown this once:", f"  {bearer}")
        for recipe in token_snippets(bearer, resource=resource, url=settings.PDPP_PUBLIC_URL):
            yield from (f"{recipe.app}:", *(f"  {line}" for line in recipe.lines))


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
        now, owner_id = timezone.now(), current_owner()
        expires_at = now + timedelta(days=options["days"])
        try:
            with transaction.atomic():
                wanted = requests(options, expires_at=expires_at)
                # The latest client of that name, or a new one.
                name = options["client"]
                known = Client.unscoped.filter(owner_id=owner_id, display_name=name.strip())
                client = known.order_by("-created_at", "client_id").first() or register_client(
                    name, owner_id=owner_id, now=now
                )
                package, grants = issue(wanted, client=client, now=now)
                bearers = {
                    each: create_token(package, resource=each, now=now)
                    for each in RESOURCES[options["resources"]]
                }
        except ApiException as refusal:
            about = FLAGS.get(refusal.param or "")
            told = refusal.message if about is None else f"{about}: {refusal.message}"
            raise CommandError(told) from refusal
        members = {
            "client_id": client.client_id,
            "client": client.display_name,
            "package_id": package.package_id,
            "grants": [
                {
                    "grant_id": grant.grant_id,
                    "source": grant.source.connector_key,
                    "streams": [stream["name"] for stream in grant.streams],
                }
                for grant in grants
            ],
            "expires_at": expires_at,
            "tokens": [{"resource": each, "token": bearer} for each, bearer in bearers.items()],
        }
        lines = _issued_lines(package, grants, expires_at, bearers)
        self._print(members, lines, as_json=options["json"])
