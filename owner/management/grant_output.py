"""What ``manage.py grant`` prints, for a person or for a program."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from django.conf import settings

from evidence.access.grant_states import GrantSummary, terms_of
from evidence.access.grant_text import describe_stream, format_day
from evidence.models.accounts import Client
from owner.setup_snippets import RESOURCE_USES, token_snippets

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
    return _json([asdict(grant) for grant in held])


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
    return json.dumps(value, default=_plain, ensure_ascii=False, indent=2)


def _plain(value: object) -> str:
    if isinstance(value, datetime):
        return value.isoformat()
    raise TypeError(f"{type(value).__name__} has no form in JSON")
