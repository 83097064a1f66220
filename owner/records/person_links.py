"""Link the names on the owner's pages to the pages of people."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from django.urls import reverse

from owner.records.models import PersonCount
from owner.records.person_identities import (
    PersonName,
    describe_identity,
    owner_identities,
    people_of,
    subject_of,
    with_country,
)
from owner.records.record_summaries import RecordSummary
from owner.site import owner
from owner.text import one_line


@dataclass(frozen=True, slots=True)
class PersonLink:
    """A name with the page of the person; without a page, the URL is empty."""

    name: str
    url: str


def link_people(summaries: Iterable[RecordSummary]) -> None:
    """Set the page of whom each record is from or about, unless it is the owner. One query."""
    found = [
        (each, subject.identity)
        for each in summaries
        if each.roles.names_people
        and not each.is_by_owner
        and (subject := subject_of(each.roles, each.record.data, each.connection_id)) is not None
    ]
    country = country_for(identity for _, identity in found)
    urls = person_urls({with_country(identity, country) for _, identity in found})
    for summary, identity in found:
        summary.person_url = urls.get(with_country(identity, country), "")


def people_in(summary: RecordSummary) -> list[PersonLink]:
    """Return the people of a record besides its subject, with their pages. One query."""
    if not summary.roles.names_people or summary.roles.is_contact_card:
        return []
    people = _others(summary)
    urls = person_urls({each.identity for each in people})
    return [
        PersonLink(
            one_line(each.name or describe_identity(each.identity)), urls.get(each.identity, "")
        )
        for each in people
    ]


def _others(summary: RecordSummary) -> list[PersonName]:
    roles, data, connection = summary.roles, summary.record.data, summary.record.connection
    subject = subject_of(roles, data, connection.connection_id)
    country = owner().country
    people = people_of(
        roles,
        data,
        connection_id=connection.connection_id,
        identities=connection.identities,
        owner=owner_identities(connection.identities, country),
        country=country,
    )
    own = None if subject is None else with_country(subject.identity, country)
    return [each for each in people if each.identity != own]


def country_for(identities: Iterable[str]) -> str:
    """Return the owner's country if some identity may need it. One query, none for addresses alone."""
    return owner().country if any(not each.startswith("mail:") for each in identities) else ""


def person_url(person: str) -> str:
    return reverse("person", args=[person])


def person_urls(identities: Iterable[str]) -> Mapping[str, str]:
    """Return the page of each identity that occurs in a record."""
    rows = PersonCount.unscoped.filter(identity__in=list(identities))
    return {
        identity: person_url(person)
        for identity, person in rows.values_list("identity", "person").distinct()
    }
