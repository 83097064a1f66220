"""Making and taking away the owner's connections."""

import re
import secrets
from collections.abc import Iterable, Sequence
from datetime import datetime

from django.db import IntegrityError, transaction
from django.db.models import Q

from evidence import limits
from evidence.analyser import VERSION
from evidence.declarations.authorship import known_as
from evidence.models.connections import Connection
from evidence.refusals import ConnectionNotFound, InvalidRequest
from evidence.storing.locking import hold_one
from evidence.storing.sources import declared_source

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
    is then to be indexed anew, batch by batch, by ``evidence.storing.reindexing``.

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
