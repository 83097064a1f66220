"""``manage.py grant``: let a client read, list who may, and end it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import orjson
from django.conf import settings
from django.core.management.base import CommandError, CommandParser
from django.db import transaction
from django.utils import timezone
from typing_extensions import override

from evidence.access.grant_states import GrantSummary, connection_labels, list_grants, terms_of
from evidence.access.grant_text import describe_stream, end_of_day, format_day
from evidence.access.grants import issue, revoke_grant, revoke_package
from evidence.access.tokens import create_token
from evidence.errors import ApiException
from evidence.management.argument_types import day, days
from evidence.management.owner_command import OwnerCommand
from evidence.models.clients import Client
from evidence.models.owners import current_owner
from owner.management.grant_request import FLAGS, Named, Wish, client_named, requests
from owner.setup_snippets import EVENTS, MCP, RESOURCE_USES, REST, token_snippets

if TYPE_CHECKING:
    from evidence.models.grants import Grant


@dataclass(frozen=True, slots=True, kw_only=True)
class Issued:
    """``labels`` are those of the connections; ``tokens`` maps resources to bearers."""

    client: Client
    package_id: str
    grants: "Sequence[Grant]"
    expires_at: datetime
    labels: Mapping[str, str]
    tokens: Mapping[str, str]


def issued_as_text(issued: Issued) -> str:
    return "\n".join(_issued_lines(issued))


def issued_as_json(issued: Issued) -> str:
    return _json(
        {
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
            "tokens": [
                {"resource": resource, "token": bearer}
                for resource, bearer in issued.tokens.items()
            ],
        }
    )


def list_as_text(held: Sequence[GrantSummary]) -> str:
    return "\n".join(line for grant in held for line in _held_lines(grant)) or "No grants."


def list_as_json(held: Sequence[GrantSummary]) -> str:
    return _json(held)


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


def _json(value: object) -> str:
    return orjson.dumps(value, option=orjson.OPT_INDENT_2).decode()


RESOURCES = {
    "mcp": (MCP,),
    "rest": (REST,),
    "both": (MCP, REST),
    "events": (MCP, EVENTS),
}
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
            self._list(as_json=options["json"])
        elif options["revoke"] is not None:
            self._revoke(options["revoke"])
        else:
            self._grant(options)

    def _list(self, *, as_json: bool) -> None:
        now = timezone.now()
        held = list_grants(current_owner(), now=now)
        self.stdout.write(list_as_json(held) if as_json else list_as_text(held))

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
        written = issued_as_json if options["json"] else issued_as_text
        self.stdout.write(written(issued))

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
