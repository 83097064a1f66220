"""Describe grants and refusals in plain language, without reading records.

The sentences are the same before and after a grant is issued. All names come from the declaration and
the owner's labels.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta

from evidence.access.scope import MAX_NAMES, GrantTerms, Only, Scope, StreamTerms, TimeRange
from evidence.declarations.declaration import Field, StreamDeclaration
from evidence.errors import ApiException, Code

KIND_LABELS: Mapping[str, str] = {
    "number": "number",
    "time": "date and time",
    "date": "date",
    "boolean": "yes or no",
    "string": "text",
    "array": "list",
    "object": "several values",
    "mixed": "anything",
}
ACRONYMS: Mapping[str, str] = {word: word.upper() for word in ("bic", "html", "iban", "url")}
_THREAD, _THREAD_NAMES = "conversation", frozenset({"conversation", "conversation_id"})
UNIT_SUFFIXES = frozenset({"bytes", "m", "minutes", "seconds"})
"""Last words of field names that say the unit of a number."""
ROLE_LABELS: Mapping[str, str] = {
    "primary-title": "the title",
    "event-time": "when it happened",
    "actor": "who did it",
    "actor-id": "who did it",
    "address": "how to reach them",
    "direction": "sent or received",
    "participant": "who took part",
    "place": "where it was",
    "secondary": "more about it",
    "thread": "the conversation it belongs to",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamDescription:
    """The description of one stream of a grant.

    ``record_keys`` lists the single records of the sentence; None means all records.
    """

    label: str
    text: str
    record_keys: tuple[str, ...] | None

    @property
    def sentence(self) -> str:
        return f"{self.label}: {self.text}."


def merge_descriptions(streams: Iterable[StreamDescription]) -> list[StreamDescription]:
    """Describe the streams that are granted in the same way in one sentence, in order."""
    merged: dict[object, StreamDescription] = {}
    labels: dict[object, list[str]] = {}
    for each in streams:
        # Equal keys in two streams name different records.
        key = each.text if each.record_keys is None else (each.label, each.text)
        merged.setdefault(key, each)
        labels.setdefault(key, []).append(each.label)
    return [replace(each, label=join_words(labels[key])) for key, each in merged.items()]


def describe_stream(
    terms: StreamTerms, *, stream: StreamDeclaration | None, labels: Mapping[str, str]
) -> StreamDescription:
    """Describe the terms of a stream. ``labels`` are the connection labels.

    ``stream`` is None if the current declaration does not have it.
    """
    label = terms.name if stream is None else stream_label(stream)
    parts = [_fields(terms, stream), " of ", _records(terms), _time(terms.time, stream)]
    connections = quote_labels(labels.get(id_, id_) for id_ in sorted(terms.connection_ids))
    text = f"{''.join(parts)}, through {connections}"
    keys = tuple(sorted(terms.records.names)) if isinstance(terms.records, Only) else None
    return StreamDescription(label=label, text=text, record_keys=keys)


def stream_label(stream: StreamDeclaration) -> str:
    """Return what a stream contains: ``Chat messages`` for the label “Your chat messages”.

    Several people may share a connection, and its own name says whose it is.
    """
    words = (stream.label or humanize(stream.name)).removeprefix("Your ")
    return words[:1].upper() + words[1:]


def field_label(field: Field, fields: Collection[str]) -> str:
    """Return the title, else the name in words: ``Read`` for ``is_read``, ``Account`` for ``account_id``.

    Words that pages show with the value are left out, such as its unit. `fields` are the names of
    the stream, so that no id is called like another field.
    """
    title = field.schema.get("title")
    if isinstance(title, str) and title:
        return title
    name = field.name.removeprefix("is_") if field.kind == "boolean" else field.name
    target = name.removesuffix("_id")
    if target != name:
        name = _THREAD if target == "thread" and _THREAD_NAMES.isdisjoint(fields) else target
        return humanize(name if name not in fields else f"{name}_id")
    return humanize(name.removesuffix(f"_{unit_of(field)}"))


def unit_of(field: Field) -> str:
    """Return ``seconds`` for a number ``duration_seconds``; empty without a known unit."""
    name, _, unit = field.name.rpartition("_")
    return unit if name and field.kind == "number" and unit in UNIT_SUFFIXES else ""


def field_detail(field: Field) -> str:
    """Return description, role and kind of a field."""
    description = field.schema.get("description")
    texts = [description.rstrip(".")] if isinstance(description, str) and description else []
    role = ROLE_LABELS.get(field.role or "", (field.role or "").replace("-", " "))
    return "; ".join([*texts, *filter(None, [role]), KIND_LABELS[field.kind]])


def humanize(name: str) -> str:
    """Return ``Received at`` for ``received_at``."""
    words = name.replace("_", " ").replace("-", " ").strip()
    words = " ".join(ACRONYMS.get(word, word) for word in words.split(" "))
    return words[:1].upper() + words[1:] if words else name


def format_day(moment: date) -> str:
    return f"{moment.day} {moment:%B %Y}"


MAX_LABEL = 80


def quote_labels(labels: Iterable[str]) -> str:
    """Return ``“A”, “B” and “C”``, with long labels cut."""
    cut = (label if len(label) <= MAX_LABEL else f"{label[:MAX_LABEL]}…" for label in labels)
    return join_words([f"“{label}”" for label in cut])


def join_words(words: Sequence[str]) -> str:
    *others, last = words or ["nothing"]
    return f"{', '.join(others)} and {last}" if others else last


def end_of_day(last: datetime) -> datetime:
    """Return the exclusive bound of a range that ends with the day of ``last``."""
    return datetime.combine(last.date() + timedelta(days=1), time.min, UTC)


def _fields(terms: StreamTerms, stream: StreamDeclaration | None) -> str:
    if not isinstance(terms.fields, Only):
        return "every field"
    if stream is None:
        return join_words(sorted(terms.fields.names))
    if terms.fields.names.issuperset(stream.fields):
        return "every field"
    return join_words(
        [
            field_label(field, stream.fields)
            for name, field in stream.fields.items()
            if terms.fields.allows(name)
        ]
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
        return f" {verb} from {format_day(since)} to {_last_day(until)}"
    if since is not None:
        return f" {verb} from {format_day(since)} on"
    return f" {verb} up to {_last_day(until)}" if until is not None else ""


def _last_day(until: datetime) -> str:
    """Return the last day before an exclusive bound."""
    return format_day(until - timedelta(microseconds=1))


def _participle(field: str | None) -> str:
    """Return ``received`` for the time field ``received_at``, or ``dated`` for other names."""
    word = (field or "").removesuffix("_at").removesuffix("_on")
    return word if word == "sent" or (word.endswith("ed") and "_" not in word) else "dated"


CLAUSE_BY_CODE = {
    Code.GRANT_PAUSED: "Every grant of this token is paused.",
    Code.GRANT_CONSUMED: "Every grant of this token was for a single use, and is closed.",
    Code.GRANT_EXPIRED: "Every grant of this token has expired.",
    Code.GRANT_REVOKED: "Every grant of this token was revoked.",
    Code.PERMISSION_ERROR: "Only the owner's own token may do this.",
    Code.AMBIGUOUS_CONNECTION: "The call matches several granted connections and names none.",
    Code.AMBIGUOUS_SCHEMA_DETAIL: "The call matches several granted sources and names none.",
}
NO_CLAUSE = "No clause of a grant: the call itself is invalid."


def explain_refusal(
    error: ApiException, scope: Scope, *, stream: str, declared: Collection[str]
) -> str:
    """Return why an authenticated call was refused.

    ``stream`` is empty if the call named no stream that a granted source ``declared``.
    """
    if error.clause:
        return error.clause
    if error.code is Code.GRANT_STREAM_NOT_ALLOWED:
        return _streams(scope.grants, stream)
    if error.code is Code.CONNECTION_NOT_FOUND:
        return _connections(scope)
    if error.code in (Code.NOT_FOUND, Code.BLOB_NOT_FOUND):
        return _rows(scope, stream) if stream else _no_such_stream(declared)
    if error.code is Code.RATE_LIMIT_EXCEEDED:
        return error.message
    return CLAUSE_BY_CODE.get(error.code, NO_CLAUSE)


def _streams(grants: Iterable[GrantTerms], stream: str) -> str:
    return " ".join(
        f"Grant {grant.grant_id} includes the streams"
        f" {join_words([terms.name for terms in grant.streams])}; it does not include “{stream}”."
        for grant in grants
    )


def _connections(scope: Scope) -> str:
    covered = {
        id_ for grant in scope.grants for terms in grant.streams for id_ in terms.connection_ids
    }
    names = [facts.display_name for key, facts in scope.connections.items() if key in covered]
    return (
        f"The grants of this token include the connections {join_words(names[:MAX_NAMES])}; not the"
        " requested one, or not that stream of it."
    )


def _no_such_stream(declared: Collection[str]) -> str:
    names = join_words(sorted(declared)[:MAX_NAMES])
    return f"The granted sources declare {names}, but not the requested stream."


def _rows(scope: Scope, stream: str) -> str:
    extents = [
        f"Grant {grant.grant_id} shows {_extent(terms)}"
        for grant in scope.grants
        for terms in grant.streams
        if terms.name == stream
    ]
    return f"{'; '.join(extents)}. The requested id is hidden or does not exist."


def _extent(terms: StreamTerms) -> str:
    if isinstance(terms.records, Only):
        return f"{len(terms.records.names)} single records of {terms.name}"
    return f"the records of {terms.name}{_time_limits(terms.time)}"


def _time_limits(time: TimeRange | None) -> str:
    if time is None:
        return " of any time"
    since = "" if time.since is None else f" from {format_day(time.since)} on"
    return since + ("" if time.until is None else f" before {format_day(time.until)}")
