"""Grants as lines of a list: one query for the grants, one for the labels of connections."""

from collections.abc import Iterable
from dataclasses import dataclass

from django.contrib.admin.utils import quote
from django.urls import reverse
from django.utils.safestring import SafeString

from evidence.access.held import connection_ids, connection_labels, state_of, stream_labels
from evidence.admin.base import owner
from evidence.consent.wording import mark, when
from evidence.models.grants import Grant


@dataclass(frozen=True, slots=True)
class GrantLine:
    url: str
    client: str
    source: str
    connections: str
    streams: str
    issued: str
    ends: str
    state: SafeString


def grant_lines(grants: Iterable[Grant]) -> list[GrantLine]:
    """Of grants from ``grants_with_state``, in their order."""
    labels = connection_labels(owner().pk)
    return [
        GrantLine(
            url=grant_url("change", grant.grant_id),
            client=grant.package.client.display_name,
            source=grant.source.display_name,
            connections=", ".join(labels.get(each, each) for each in connection_ids(grant)),
            streams=", ".join(stream_labels(grant)),
            issued=when(grant.issued_at),
            ends=when(grant.expires_at),
            state=mark(state_of(grant)),
        )
        for grant in grants
    ]


def grant_url(view: str, grant_id: str) -> str:
    return reverse(f"admin:evidence_grant_{view}", args=[quote(grant_id)])
