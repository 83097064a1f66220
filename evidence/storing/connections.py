"""Making and taking away the owner's connections."""

import re
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import Q

from evidence import limits
from evidence.declarations.authorship import known_as
from evidence.errors import ConnectionNotFound, InvalidRequest, NotFound, StreamNotDeclared
from evidence.models.connections import CollectorState, Connection
from evidence.models.sources import Source, declared
from evidence.search.analysis import VERSION
from evidence.storing.locks import hold_one
from evidence.storing.ndjson import refuse_nul
from evidence.storing.receipts import MEANINGS, Rejected


def declared_source(connector_id: str, *, owner_id: str, param: str = "connector_id") -> Source:
    """The source of that key or absolute id. Raises ``NotFound`` where none is declared."""
    # No name has a NUL character, and no column can be compared with one.
    name = connector_id.replace("\0", " ")
    called = Q(connector_key=name) | Q(source_id=name)
    sources = Source.unscoped.select_related("current_declaration").filter(owner_id=owner_id)
    source = sources.filter(called, current_declaration__isnull=False).first()
    if source is None:
        raise NotFound(message=f"No source {connector_id[:64]!r} is declared.", param=param)
    return source


ID_GRAMMAR = re.compile(r"[A-Za-z0-9_-]{1,64}")
LANGUAGE = re.compile(r"[a-z]{2,3}")


def connect(
    connector_key: str,
    *,
    display_name: str,
    owner_id: str,
    now: datetime,
    languages: Iterable[str] = (),
    identities: Iterable[str] = (),
    connection_id: str | None = None,
    labelled_by_owner: bool = False,
    demo: bool = False,
) -> str:
    """A new connection of a declared source; its id, ``cin_`` and 24 hex digits unless given.

    ``identities`` are how the source calls the owner, so that what the owner wrote can be told from
    what others did. Raises ``NotFound`` for a source, ``InvalidRequest`` for what will not do.
    """
    spoken = _checked_languages(languages)
    new = Connection(
        connection_id=_checked_id(connection_id),
        owner_id=owner_id,
        source=declared_source(connector_key, owner_id=owner_id, param="connector_key"),
        display_name=_checked_label(display_name),
        labelled_by_owner=labelled_by_owner,
        languages=spoken,
        indexed_languages=spoken,
        indexed_analyser=VERSION,
        identities=checked_identities(identities),
        demo=demo,
        created_at=now,
        updated_at=now,
    )
    try:
        with transaction.atomic():
            new.save(force_insert=True)
    except IntegrityError as error:
        raise InvalidRequest(
            message=f"A connection {new.connection_id} exists already.", param="connection_id"
        ) from error
    return new.connection_id


def owned(
    owner_id: str, *, connector_id: str | None = None, status: str | None = None
) -> Sequence[Connection]:
    """The owner's connections by label, of one connector or in one status where asked."""
    rows = Connection.unscoped.filter(owner_id=owner_id).select_related("source")
    if connector_id is not None:
        called = Q(source__connector_key=connector_id) | Q(source__source_id=connector_id)
        rows = rows.filter(called)
    if status is not None:
        rows = rows.filter(status=status)
    return list(rows.order_by("display_name", "connection_id"))


def rename(connection_id: str, *, display_name: object, owner_id: str, now: datetime) -> Connection:
    """Gives a connection another label. Raises ``ConnectionNotFound``, ``InvalidRequest``."""
    if not isinstance(display_name, str):
        raise InvalidRequest(message="display_name takes a text.", param="display_name")
    label = _checked_label(display_name)
    row = owned_row(connection_id, owner_id=owner_id)
    row.display_name, row.labelled_by_owner, row.updated_at = label, True, now
    row.save(update_fields=["display_name", "labelled_by_owner", "updated_at"])
    return row


def owned_row(connection_id: str, *, owner_id: str) -> Connection:
    """One connection of the owner; raises ``ConnectionNotFound``."""
    rows = Connection.unscoped.select_related("source")
    row = rows.filter(connection_id=connection_id, owner_id=owner_id).first()
    if row is None:
        raise ConnectionNotFound(param="connection_id")
    return row


def connection_ids() -> frozenset[str]:
    """Every id that is taken."""
    return frozenset(Connection.unscoped.values_list("connection_id", flat=True))


def set_languages(connection_id: str, *, languages: Iterable[str], now: datetime) -> bool:
    """Names the languages of a connection's texts; whether that changed anything. What is stored
    is then to be indexed anew, batch by batch, by ``evidence.storing.reindex``.

    Raises ``ConnectionNotFound``, ``InvalidRequest`` for what is no language.
    """
    checked = _checked_languages(languages)
    with transaction.atomic():
        hold_one(connection_id)
        row = Connection.unscoped.get(connection_id=connection_id)
        if row.languages == checked:
            return False
        row.languages, row.updated_at = checked, now
        if not row.change_seq:  # nothing was ever stored, so nothing is indexed otherwise
            row.indexed_languages = checked
        row.save(update_fields=["languages", "indexed_languages", "updated_at"])
        return True


def _checked_id(connection_id: str | None) -> str:
    if connection_id is None:
        return "cin_" + secrets.token_hex(12)
    if not ID_GRAMMAR.fullmatch(connection_id):
        raise InvalidRequest(
            message="A connection id has 1 to 64 letters, digits, _ or -.", param="connection_id"
        )
    return connection_id


def _checked_label(display_name: str) -> str:
    label = display_name.strip()
    if not 1 <= len(label) <= limits.LABEL_MAX_CHARS or not label.isprintable():
        raise InvalidRequest(
            message=f"A label has 1 to {limits.LABEL_MAX_CHARS} printable characters.",
            param="display_name",
        )
    return label


def checked_identities(identities: Iterable[str]) -> list[str]:
    """As they are compared, each once; raises ``InvalidRequest``."""
    checked = [known_as(each) for each in identities]
    if not all(each.isprintable() and len(each) <= limits.LABEL_MAX_CHARS for each in checked):
        raise InvalidRequest(
            message=f"An identity has at most {limits.LABEL_MAX_CHARS} printable characters.",
            param="identities",
        )
    return list(dict.fromkeys(filter(None, checked)))


def _checked_languages(languages: Iterable[str]) -> list[str]:
    checked = [language.strip().lower() for language in languages]
    if not all(map(LANGUAGE.fullmatch, checked)):
        raise InvalidRequest(
            message="A language is a code of two or three letters, such as en.", param="languages"
        )
    return list(dict.fromkeys(checked))


@dataclass(frozen=True, slots=True)
class Remembered:
    """``state`` maps a stream to whatever its collector wants back; ``updated_at`` None: never."""

    connector_key: str
    grant_id: str | None
    state: Mapping[str, Any]
    updated_at: datetime | None


def get_state(connector_id: str, *, owner_id: str, grant_id: str | None = None) -> Remembered:
    """What was put last, or nothing. Raises ``NotFound`` for a source that is not declared."""
    source = declared_source(connector_id, owner_id=owner_id)
    row = CollectorState.unscoped.filter(source=source, grant_id=grant_id or "").first()
    if row is None:
        return Remembered(source.connector_key, grant_id, {}, None)
    return Remembered(source.connector_key, grant_id, row.state, row.updated_at)


def put_state(
    connector_id: str,
    *,
    state: Mapping[str, Any],
    owner_id: str,
    now: datetime,
    grant_id: str | None = None,
    within: frozenset[str] | None = None,
) -> Remembered:
    """Puts the streams named in ``state`` and leaves the others as they were (contract 5.4).

    ``within`` are the streams of the grant that it is kept for. Raises ``NotFound`` for a source
    that is not declared, ``StreamNotDeclared`` for a stream that it does not declare,
    ``InvalidRequest`` for one that is not within and for what is no JSON object.
    """
    source = declared_source(connector_id, owner_id=owner_id)
    _check(state, source)
    outside = set() if within is None else state.keys() - within
    if outside:
        raise InvalidRequest(
            message=f"The grant does not cover the stream {min(outside)!r}.", param="state"
        )
    with transaction.atomic():
        row, made = CollectorState.unscoped.select_for_update().get_or_create(
            source=source,
            grant_id=grant_id or "",
            defaults={"state": dict(state), "updated_at": now},
        )
        if not made:
            row.state = {**row.state, **state}
            row.updated_at = now
            row.save(update_fields=["state", "updated_at"])
    return Remembered(source.connector_key, grant_id, row.state, row.updated_at)


def _check(state: object, source: Source) -> None:
    if not isinstance(state, Mapping):
        raise InvalidRequest(message="state is an object of one member a stream.", param="state")
    pk = source.current_declaration_id
    streams = declared([pk])[pk].declaration.streams if pk is not None else {}
    for stream in state:
        if stream not in streams:
            raise StreamNotDeclared(param="state")
    try:
        refuse_nul(state)
    except Rejected as refusal:
        raise InvalidRequest(message=MEANINGS[refusal.code], param="state") from None
