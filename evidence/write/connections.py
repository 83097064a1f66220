"""Create, rename and configure connections, and store collector state."""

import re
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import count
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import Q

from evidence import limits
from evidence.declarations.declaration import normalize_identity
from evidence.errors import ConnectionNotFound, InvalidRequest, NotFound, StreamNotDeclared
from evidence.models.connections import UNIQUE_NAME, CollectorState, Connection
from evidence.models.sources import Source, load_declarations
from evidence.search.analysis import VERSION
from evidence.write.locks import lock_connection
from evidence.write.ndjson import CODE_MESSAGES, LineRejectedError, reject_nul


def get_source(connector_id: str, *, owner_id: str, param: str = "connector_id") -> Source:
    """Return a declared source by key or absolute id. Raises ``NotFound`` if there is none."""
    # PostgreSQL rejects a NUL character in a parameter.
    name = connector_id.replace("\0", " ")
    has_name = Q(connector_key=name) | Q(source_id=name)
    sources = Source.unscoped.select_related("current_declaration").filter(owner_id=owner_id)
    source = sources.filter(has_name, current_declaration__isnull=False).first()
    if source is None:
        raise NotFound(message=f"No source {connector_id[:64]!r} is declared.", param=param)
    return source


ID_GRAMMAR = re.compile(r"[A-Za-z0-9_-]{1,64}")
LANGUAGE_CODE = re.compile(r"[a-z]{2,3}")


def create_connection(
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
    """Create a connection of a declared source and return its id, by default ``cin_`` + 24 digits.

    ``identities`` are the owner's names in the source; they identify records that the owner wrote.
    A name that is taken gets a number. Raises ``NotFound`` for an unknown source, ``InvalidRequest`` for other invalid arguments.
    """
    language_codes = _validate_languages(languages)
    connection = Connection(
        connection_id=_validate_id(connection_id),
        owner_id=owner_id,
        source=get_source(connector_key, owner_id=owner_id, param="connector_key"),
        display_name=_validate_label(display_name),
        labelled_by_owner=labelled_by_owner,
        languages=language_codes,
        indexed_languages=language_codes,
        indexed_analyser=VERSION,
        identities=validate_identities(identities),
        demo=demo,
        created_at=now,
        updated_at=now,
    )
    _insert(connection)
    return connection.connection_id


def _insert(connection: Connection) -> None:
    """Store a new connection, with a number after its name if the name is taken."""
    label = connection.display_name
    for number in count(2):
        try:
            with transaction.atomic():
                connection.save(force_insert=True)
        except IntegrityError as error:
            if UNIQUE_NAME not in str(error):
                message = f"A connection {connection.connection_id} already exists."
                raise InvalidRequest(message=message, param="connection_id") from error
            connection.display_name = numbered_label(label, number)
        else:
            return


def numbered_label(label: str, number: int) -> str:
    """Return ``Mail 2`` for a second connection that would be called ``Mail``."""
    ending = f" {number}"
    return label[: limits.LABEL_MAX_CHARS - len(ending)] + ending


def list_connections(
    owner_id: str, *, connector_id: str | None = None, status: str | None = None
) -> Sequence[Connection]:
    """List the owner's connections by label, optionally of one source or with one status."""
    rows = Connection.unscoped.filter(owner_id=owner_id).select_related("source")
    if connector_id is not None:
        has_name = Q(source__connector_key=connector_id) | Q(source__source_id=connector_id)
        rows = rows.filter(has_name)
    if status is not None:
        rows = rows.filter(status=status)
    return list(rows.order_by("display_name", "connection_id"))


def rename(connection_id: str, *, display_name: object, owner_id: str, now: datetime) -> Connection:
    """Rename a connection. Raises ``ConnectionNotFound``, ``InvalidRequest``."""
    if not isinstance(display_name, str):
        raise InvalidRequest(message="display_name takes a string.", param="display_name")
    label = _validate_label(display_name)
    row = get_connection(connection_id, owner_id=owner_id)
    if is_name_taken(label, owner_id=owner_id, connection_id=connection_id):
        raise InvalidRequest(
            message=f"Another connection is named {label!r}. Choose another name.",
            param="display_name",
        )
    row.display_name, row.labelled_by_owner, row.updated_at = label, True, now
    row.save(update_fields=["display_name", "labelled_by_owner", "updated_at"])
    return row


def is_name_taken(label: str, *, owner_id: str, connection_id: str) -> bool:
    """Return whether another connection has this name, in any case."""
    named = Connection.unscoped.filter(owner_id=owner_id, display_name__iexact=label)
    return named.exclude(pk=connection_id).exists()


def get_connection(connection_id: str, *, owner_id: str) -> Connection:
    """Return one connection of the owner. Raises ``ConnectionNotFound``."""
    rows = Connection.unscoped.select_related("source")
    row = rows.filter(connection_id=connection_id, owner_id=owner_id).first()
    if row is None:
        raise ConnectionNotFound(message="No connection has this id.", param="connection_id")
    return row


def connection_ids() -> frozenset[str]:
    """Return every existing connection id."""
    return frozenset(Connection.unscoped.values_list("connection_id", flat=True))


def set_languages(connection_id: str, *, languages: Iterable[str], now: datetime) -> bool:
    """Set the languages of a connection's texts, and return whether they changed.

    ``evidence.write.reindex`` then rebuilds search text. Raises ``ConnectionNotFound``,
    ``InvalidRequest``.
    """
    codes = _validate_languages(languages)
    with transaction.atomic():
        lock_connection(connection_id)
        row = Connection.unscoped.get(connection_id=connection_id)
        if row.languages == codes:
            return False
        row.languages, row.updated_at = codes, now
        if not row.change_seq:  # nothing is stored, so nothing is outdated
            row.indexed_languages = codes
        row.save(update_fields=["languages", "indexed_languages", "updated_at"])
        return True


def set_paused(connection_id: str, *, is_paused: bool, now: datetime) -> None:
    """Pause an active connection, or make a paused one active."""
    status = Connection.Status
    before = (status.PAUSED,) if not is_paused else (status.ACTIVE, status.DRAFT)
    rows = Connection.unscoped.filter(connection_id=connection_id, status__in=before)
    rows.update(status=status.PAUSED if is_paused else status.ACTIVE, updated_at=now)


def _validate_id(connection_id: str | None) -> str:
    if connection_id is None:
        return "cin_" + secrets.token_hex(12)
    if not ID_GRAMMAR.fullmatch(connection_id):
        raise InvalidRequest(
            message="connection_id takes 1 to 64 letters, digits, _ or -.", param="connection_id"
        )
    return connection_id


def _validate_label(display_name: str) -> str:
    label = display_name.strip()
    if not 1 <= len(label) <= limits.LABEL_MAX_CHARS or not label.isprintable():
        raise InvalidRequest(
            message=f"display_name takes 1 to {limits.LABEL_MAX_CHARS} printable characters.",
            param="display_name",
        )
    return label


def validate_identities(identities: Iterable[str]) -> list[str]:
    """Return normalized identities without duplicates. Raises ``InvalidRequest``."""
    checked = [normalize_identity(identity) for identity in identities]
    if not all(
        identity.isprintable() and len(identity) <= limits.LABEL_MAX_CHARS for identity in checked
    ):
        raise InvalidRequest(
            message=f"identities takes up to {limits.LABEL_MAX_CHARS} printable characters each.",
            param="identities",
        )
    return list(dict.fromkeys(filter(None, checked)))


def _validate_languages(languages: Iterable[str]) -> list[str]:
    checked = [language.strip().lower() for language in languages]
    if not all(map(LANGUAGE_CODE.fullmatch, checked)):
        raise InvalidRequest(
            message="languages takes codes of two or three letters, such as en.", param="languages"
        )
    return list(dict.fromkeys(checked))


@dataclass(frozen=True, slots=True)
class SavedState:
    """Collector state of a connection by stream, as JSON; ``updated_at`` is None if nothing was saved."""

    connection_id: str
    connector_key: str
    grant_id: str | None
    state: Mapping[str, Any]
    updated_at: datetime | None


def get_state(connection_id: str, *, owner_id: str, grant_id: str | None = None) -> SavedState:
    """Return the saved state of a connection. Raises ``ConnectionNotFound``."""
    source = get_connection(connection_id, owner_id=owner_id).source
    states = CollectorState.unscoped.filter(connection_id=connection_id, grant_id=grant_id or "")
    row = states.first()
    if row is None:
        return SavedState(connection_id, source.connector_key, grant_id, {}, None)
    return SavedState(connection_id, source.connector_key, grant_id, row.state, row.updated_at)


def put_state(
    connection_id: str,
    *,
    state: Mapping[str, Any],
    owner_id: str,
    now: datetime,
    grant_id: str | None = None,
    within: frozenset[str] | None = None,
) -> SavedState:
    """Save the state of the streams in ``state``; other streams are unchanged (contract 5.4).

    ``within`` lists the streams of the grant. Raises ``ConnectionNotFound``, ``StreamNotDeclared``
    for an undeclared stream, ``InvalidRequest`` for a stream outside the grant or a value that is
    not a JSON object.
    """
    source = get_connection(connection_id, owner_id=owner_id).source
    _validate_state(state, source)
    outside = set() if within is None else state.keys() - within
    if outside:
        raise InvalidRequest(
            message=f"This grant does not include the stream {min(outside)!r}.", param="state"
        )
    with transaction.atomic():
        row, is_new = CollectorState.unscoped.select_for_update().get_or_create(
            connection_id=connection_id,
            grant_id=grant_id or "",
            defaults={"state": dict(state), "updated_at": now},
        )
        if not is_new:
            row.state = {**row.state, **state}
            row.updated_at = now
            row.save(update_fields=["state", "updated_at"])
    return SavedState(connection_id, source.connector_key, grant_id, row.state, row.updated_at)


def _validate_state(state: object, source: Source) -> None:
    if not isinstance(state, Mapping):
        raise InvalidRequest(
            message="state takes an object with one member per stream.", param="state"
        )
    pk = source.current_declaration_id
    streams = load_declarations([pk])[pk].declaration.streams if pk is not None else {}
    for stream in state:
        if stream not in streams:
            raise StreamNotDeclared(param="state")
    try:
        reject_nul(state)
    except LineRejectedError as error:
        raise InvalidRequest(message=CODE_MESSAGES[error.code], param="state") from None
