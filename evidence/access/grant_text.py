"""Grants in words: the same sentences before a grant is issued and ever after. Pure text.

All names come from the declaration and from the owner's own labels, never from a record.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta

from evidence.access.scope import Allowed, GrantTerms, Only, Scope, StreamTerms, TimeRange
from evidence.declarations.declaration import Field, StreamDeclaration
from evidence.errors import Code, Refusal

KINDS: Mapping[str, str] = {
    "number": "number",
    "time": "date and time",
    "date": "date",
    "boolean": "yes or no",
    "string": "text",
    "array": "list",
    "object": "several values",
    "mixed": "anything",
}
ROLES: Mapping[str, str] = {
    "primary-title": "the title",
    "event-time": "when it happened",
    "actor": "who did it",
    "actor-id": "who did it",
    "direction": "sent or received",
    "secondary": "more about it",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamInWords:
    """``sentence`` says it all; ``record_keys`` lists what "single records" are (None: no limit)."""

    label: str
    sentence: str
    record_keys: tuple[str, ...] | None


def in_words(
    terms: StreamTerms, *, stream: StreamDeclaration | None, labels: Mapping[str, str]
) -> StreamInWords:
    """``labels`` are those of the connections; ``stream`` is None where nothing declares it."""
    label = terms.name if stream is None else stream_label(stream)
    parts = [_fields(terms, stream), " of ", _records(terms), _time(terms.time, stream)]
    through = quoted(labels.get(each, each) for each in sorted(terms.connection_ids))
    sentence = f"{label}: {''.join(parts)}, through {through}."
    keys = tuple(sorted(terms.records.names)) if isinstance(terms.records, Only) else None
    return StreamInWords(label=label, sentence=sentence, record_keys=keys)


def stream_label(stream: StreamDeclaration) -> str:
    return stream.label or humanised(stream.name)


def field_label(field: Field) -> str:
    title = field.schema.get("title")
    return title if isinstance(title, str) and title else humanised(field.name)


def field_detail(field: Field) -> str:
    """What the schema says of the field beyond its label: description, role and kind."""
    description = field.schema.get("description")
    said = [description.rstrip(".")] if isinstance(description, str) and description else []
    role = ROLES.get(field.role or "", (field.role or "").replace("-", " "))
    return "; ".join([*said, *filter(None, [role]), KINDS[field.kind]])


def humanised(name: str) -> str:
    """``received_at`` -> ``Received at``."""
    words = name.replace("_", " ").replace("-", " ").strip()
    return words[:1].upper() + words[1:] if words else name


def day(moment: datetime) -> str:
    return f"{moment.day} {moment:%B %Y}"


def quoted(labels: Iterable[str]) -> str:
    """“A”, “B” and “C”."""
    return joined([f"“{label}”" for label in labels])


def joined(words: Sequence[str]) -> str:
    *most, last = words or ["nothing"]
    return f"{', '.join(most)} and {last}" if most else last


def through_day(last: datetime) -> datetime:
    """The exclusive bound after a range that ends with the day of ``last``."""
    return datetime.combine(last.date() + timedelta(days=1), time.min, UTC)


def _fields(terms: StreamTerms, stream: StreamDeclaration | None) -> str:
    if not isinstance(terms.fields, Only):
        return "every field"
    if stream is None:
        return joined(sorted(terms.fields.names))
    if terms.fields.names.issuperset(stream.fields):
        return "every field"
    return joined(
        [field_label(f) for name, f in stream.fields.items() if terms.fields.allows(name)]
    )


def _records(terms: StreamTerms) -> str:
    if not isinstance(terms.records, Only):
        return "all records"
    count = len(terms.records.names)
    return "one single record" if count == 1 else f"{count or 'no'} single records"


def _time(limits: TimeRange | None, stream: StreamDeclaration | None) -> str:
    if limits is None:
        return ""
    verb = _participle(stream.consent_time_field if stream is not None else None)
    since, until = limits.since, limits.until
    if since is not None and until is not None:
        return f" {verb} from {day(since)} to {_last_day(until)}"
    if since is not None:
        return f" {verb} from {day(since)} on"
    return f" {verb} up to {_last_day(until)}" if until is not None else ""


def _last_day(until: datetime) -> str:
    """The last day inside an exclusive bound."""
    return day(until - timedelta(microseconds=1))


def _participle(field: str | None) -> str:
    """``received_at`` -> ``received``, where the name of the time field has such a word."""
    word = (field or "").removesuffix("_at").removesuffix("_on")
    return word if word == "sent" or (word.endswith("ed") and "_" not in word) else "dated"


MOST_NAMED = 12
BY_CODE = {
    Code.GRANT_PAUSED: "Everything that this token stands for is paused.",
    Code.GRANT_CONSUMED: "Everything that this token stands for was for a single use, and is closed.",
    Code.GRANT_EXPIRED: "Everything that this token stands for has expired.",
    Code.GRANT_REVOKED: "Everything that this token stands for was ended.",
    Code.PERMISSION_ERROR: "Only the owner's own token may do this.",
    Code.AMBIGUOUS_CONNECTION: "The call fits several connections that are granted and names none.",
    Code.AMBIGUOUS_SCHEMA_DETAIL: "The call fits several sources that are granted and names none.",
}
NO_CLAUSE = "No clause of a grant: the call itself could not be answered."


def clause_of(refusal: Refusal, scope: Scope, *, stream: str, declared: Collection[str]) -> str:
    """Why a call that was let in was refused. ``stream`` is empty where it named none that any granted
    source ``declared``."""
    if refusal.clause:
        return refusal.clause
    if refusal.code is Code.GRANT_STREAM_NOT_ALLOWED:
        return _streams(scope.grants, stream)
    if refusal.code is Code.CONNECTION_NOT_FOUND:
        return _connections(scope)
    if refusal.code in (Code.NOT_FOUND, Code.BLOB_NOT_FOUND):
        return _rows(scope, stream) if stream else _no_such_stream(declared)
    if refusal.code is Code.RATE_LIMIT_EXCEEDED:
        return refusal.message
    return BY_CODE.get(refusal.code, NO_CLAUSE)


def fields_clause(grant_id: str | None, allowed: Allowed, field: str) -> str:
    return f"Grant {grant_id} freezes the fields {_named(allowed)}; “{field}” is not among them."


def filters_clause(grant_id: str | None, allowed: Allowed, field: str) -> str:
    return (
        f"Grant {grant_id} shows “{field}”, but lets rows be chosen and ordered only by"
        f" {_named(allowed)}."
    )


def _streams(grants: Iterable[GrantTerms], stream: str) -> str:
    return " ".join(
        f"Grant {grant.grant_id} freezes the streams"
        f" {joined([terms.name for terms in grant.streams])}; “{stream}” is not among them."
        for grant in grants
    )


def _connections(scope: Scope) -> str:
    covered = {
        each for grant in scope.grants for terms in grant.streams for each in terms.connection_ids
    }
    names = [facts.display_name for key, facts in scope.connections.items() if key in covered]
    return (
        f"The grants of this token lead to the connections {joined(names[:MOST_NAMED])}; the one asked"
        " for is not among them, or does not have that stream."
    )


def _no_such_stream(declared: Collection[str]) -> str:
    names = joined(sorted(declared)[:MOST_NAMED])
    return f"The sources that are granted declare {names}, and nothing of the name asked for."


def _rows(scope: Scope, stream: str) -> str:
    said = [
        f"Grant {grant.grant_id} shows {_extent(terms)}"
        for grant in scope.grants
        for terms in grant.streams
        if terms.name == stream
    ]
    return f"{'; '.join(said)}. Nothing of the id asked for is among them: hidden, or not there."


def _extent(terms: StreamTerms) -> str:
    if isinstance(terms.records, Only):
        return f"{len(terms.records.names)} single records of {terms.name}"
    return f"the records of {terms.name}{_during(terms.time)}"


def _during(time: TimeRange | None) -> str:
    if time is None:
        return ", whatever their time"
    since = "" if time.since is None else f" from {day(time.since)} on"
    return since + ("" if time.until is None else f" until before {day(time.until)}")


def _named(allowed: Allowed) -> str:
    names = sorted(allowed.names) if isinstance(allowed, Only) else ["(all)"]
    more = len(names) - MOST_NAMED
    return ", ".join(names[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "") or "(none)"
