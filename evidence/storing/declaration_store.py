"""Taking a declaration: check it, keep it exactly, and make the records that exist fit it.

It all happens in one transaction that holds the source, which every writer of its records needs a
share of. Readers go on under the present declaration until the next one is there complete; a run
that is killed has changed nothing.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import orjson
from django.db import transaction

from evidence.declarations.declaration import SourceDeclaration as Declaration
from evidence.declarations.errors import Fault, FaultCode
from evidence.declarations.storage_layout import Layout, build_layout, needs_reindex
from evidence.declarations.validation import accept
from evidence.errors import ConnectorInvalid, InvalidRequest
from evidence.models.connections import Connection
from evidence.models.sources import Source, SourceDeclaration, declared
from evidence.storing.connections import declared_source
from evidence.storing.reindex import rederive
from evidence.storing.rows import recount_declared
from evidence.storing.targets import target_of

OnProgress = Callable[[int], object]
NAMES = frozenset({"connector_key", "connector_id", "source"})
"""Members that say of which source a document is."""


@dataclass(frozen=True, slots=True)
class Accepted:
    """The source and the revision that is current now; ``changed`` is false when it was before."""

    connector_key: str
    source_id: str
    source_pk: int
    declaration_id: int
    revision: int
    version: str
    changed: bool


def declare(
    document: str | bytes,
    *,
    owner_id: str,
    now: datetime,
    on_progress: OnProgress | None = None,
) -> Accepted:
    """Makes ``document`` the current declaration of its source; the same once more does nothing.

    Raises ``ConnectorInvalid`` with all ``faults`` of {code, path, message}, ``InvalidRequest``
    where it does not even say of which connector it is. ``on_progress`` is told how many records
    have been derived anew, batch by batch.
    """
    snapshot, node = _read(document)
    _check_named(node)
    declaration = accept(node)
    with transaction.atomic():
        source = _hold_source(declaration, owner_id)
        current = source.current_declaration
        if current is not None and _canonical(orjson.loads(current.snapshot)) == _canonical(node):
            return _accepted(source, current, changed=False)
        previous: Layout | None = current.layout if current else None
        layout = build_layout(declaration, previous)
        row = SourceDeclaration.unscoped.create(
            source=source,
            revision=current.revision + 1 if current else 1,
            version=declaration.version,
            snapshot=snapshot,
            layout=layout,
            created_at=now,
        )
        _rederive(source, row, needs_reindex(previous, layout), on_progress)
        if current is not None:
            _recount(source, current, row)
        _switch(source, row, declaration)
    return _accepted(source, row, changed=True)


def declaration(connector_id: str, *, owner_id: str) -> Any:
    """What is declared of a source now. Raises ``NotFound``."""
    current = declared_source(connector_id, owner_id=owner_id).current_declaration
    return None if current is None else orjson.loads(current.snapshot)


def _read(document: str | bytes) -> tuple[str, Any]:
    """The exact text and what it says. Raises ``ConnectorInvalid`` for what is not JSON."""
    try:
        text = document if isinstance(document, str) else document.decode()
        return text, orjson.loads(text)
    except (UnicodeDecodeError, orjson.JSONDecodeError) as error:
        raise _invalid(FaultCode.INVALID_TEXT, "$", "Is not JSON in UTF-8.") from error


def _check_named(node: object) -> None:
    if isinstance(node, Mapping) and not node.keys() & NAMES:
        raise InvalidRequest(
            message="The declaration names no connector: give connector_key or connector_id.",
            param="connector_key",
        )


def _invalid(code: FaultCode, path: str, message: str) -> ConnectorInvalid:
    """The refusal of a document with one fault."""
    fault = Fault(code, path, message)
    return ConnectorInvalid(message=f"{path}: {message}", faults=[fault._asdict()])


def _hold_source(declaration: Declaration, owner_id: str) -> Source:
    """The source of the declaration, locked; a new one where there is none."""
    named = Source.unscoped.filter(owner_id=owner_id, connector_key=declaration.connector_key)
    if named.exclude(source_id=declaration.source_id).exists():
        raise _invalid(
            FaultCode.INVALID_MEMBER_VALUE, "$.connector_key", "Another source has this key."
        )
    # A declaration that is joined is the one of before the lock, or none.
    held = Source.unscoped.select_for_update()
    source, _ = held.get_or_create(
        owner_id=owner_id,
        source_id=declaration.source_id,
        defaults={
            "kind": declaration.source_kind,
            "connector_key": declaration.connector_key,
            "display_name": declaration.display_name,
        },
    )
    return source


def _rederive(
    source: Source,
    row: SourceDeclaration,
    streams: frozenset[str],
    on_progress: OnProgress | None,
) -> None:
    current = declared([row.pk])[row.pk]
    done = 0
    for connection in Connection.unscoped.filter(source=source).order_by("connection_id"):
        for stream in sorted(streams & current.declaration.streams.keys()):
            for count in rederive(target_of(connection, current, stream=stream)):
                done += count
                if on_progress is not None:
                    on_progress(done)


def _recount(source: Source, previous: SourceDeclaration, row: SourceDeclaration) -> None:
    """Recount the freshness of each stream whose declared fields changed."""
    documents = declared([previous.pk, row.pk])
    earlier = documents[previous.pk].declaration.streams
    connection_ids = Connection.unscoped.filter(source=source).values_list("pk", flat=True)
    for name, stream in documents[row.pk].declaration.streams.items():
        if name not in earlier or earlier[name].fields.keys() != stream.fields.keys():
            for connection_id in connection_ids:
                recount_declared(connection_id, name, stream.fields)


def _switch(source: Source, row: SourceDeclaration, declaration: Declaration) -> None:
    source.kind = declaration.source_kind
    source.connector_key = declaration.connector_key
    source.display_name = declaration.display_name
    source.current_declaration = row
    source.save()


def _canonical(node: object) -> bytes:
    return orjson.dumps(node, option=orjson.OPT_SORT_KEYS)


def _accepted(source: Source, row: SourceDeclaration, *, changed: bool) -> Accepted:
    return Accepted(
        connector_key=source.connector_key,
        source_id=source.source_id,
        source_pk=source.pk,
        declaration_id=row.pk,
        revision=row.revision,
        version=row.version,
        changed=changed,
    )
