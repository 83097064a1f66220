"""Publish a source declaration and migrate its records to it.

One transaction locks the source against all writers of its records. Readers use the previous
declaration until it commits, and an interrupted run changes nothing.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import orjson
from django.db import transaction

from evidence.declarations.declaration import SourceDeclaration as Declaration
from evidence.declarations.schema_validation import DeclarationError, DeclarationErrorCode
from evidence.declarations.storage_layout import Layout, build_layout, needs_reindex
from evidence.declarations.validation import parse_valid
from evidence.errors import ConnectorInvalid, InvalidRequest
from evidence.models.connections import Connection
from evidence.models.sources import Source, SourceDeclaration, load_declarations
from evidence.write.connections import get_source
from evidence.write.reindex import recompute_stream
from evidence.write.rows import recount_declared
from evidence.write.targets import build_target

OnProgress = Callable[[int], object]
SOURCE_MEMBERS = frozenset({"connector_key", "connector_id", "source"})
"""Members that identify the source of a declaration."""


@dataclass(frozen=True, slots=True)
class PublishedDeclaration:
    """The current declaration of a source; ``changed`` is False if it was already current."""

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
) -> PublishedDeclaration:
    """Make ``document`` the current declaration of its source, unless it already is.

    ``on_progress`` receives the number of records recomputed so far, after each batch. Raises
    ``ConnectorInvalid`` with all ``faults`` of {code, path, message}, ``InvalidRequest`` if the
    document does not name its source.
    """
    snapshot, node = _read(document)
    _require_source_name(node)
    declaration = parse_valid(node)
    with transaction.atomic():
        source = _lock_source(declaration, owner_id)
        current = source.current_declaration
        if current is not None and _canonical(orjson.loads(current.snapshot)) == _canonical(node):
            return _published(source, current, changed=False)
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
        _recompute_records(source, row, needs_reindex(previous, layout), on_progress)
        if current is not None:
            _recount_freshness(source, current, row)
        _set_current(source, row, declaration)
    return _published(source, row, changed=True)


def current_declaration(connector_id: str, *, owner_id: str) -> Any:
    """Return the current declaration of a source as JSON. Raises ``NotFound``."""
    current = get_source(connector_id, owner_id=owner_id).current_declaration
    return None if current is None else orjson.loads(current.snapshot)


def _read(document: str | bytes) -> tuple[str, Any]:
    """Return the exact text and its JSON value. Raises ``ConnectorInvalid`` for invalid JSON."""
    try:
        text = document if isinstance(document, str) else document.decode()
        return text, orjson.loads(text)
    except (UnicodeDecodeError, orjson.JSONDecodeError) as error:
        raise _invalid(
            DeclarationErrorCode.INVALID_TEXT, "$", "Not valid JSON in UTF-8."
        ) from error


def _require_source_name(node: object) -> None:
    if isinstance(node, Mapping) and not node.keys() & SOURCE_MEMBERS:
        raise InvalidRequest(
            message="The declaration names no source; add connector_key or connector_id.",
            param="connector_key",
        )


def _invalid(code: DeclarationErrorCode, path: str, message: str) -> ConnectorInvalid:
    error = DeclarationError(code, path, message)
    return ConnectorInvalid(message=f"{path}: {message}", faults=[error._asdict()])


def _lock_source(declaration: Declaration, owner_id: str) -> Source:
    """Lock the source of the declaration; create it if necessary."""
    same_key = Source.unscoped.filter(owner_id=owner_id, connector_key=declaration.connector_key)
    if same_key.exclude(source_id=declaration.source_id).exists():
        raise _invalid(
            DeclarationErrorCode.INVALID_MEMBER_VALUE,
            "$.connector_key",
            "Another source has this key.",
        )
    # Without select_related: a join would return the declaration from before the lock.
    sources = Source.unscoped.select_for_update()
    source, _ = sources.get_or_create(
        owner_id=owner_id,
        source_id=declaration.source_id,
        defaults={
            "kind": declaration.source_kind,
            "connector_key": declaration.connector_key,
            "display_name": declaration.display_name,
        },
    )
    return source


def _recompute_records(
    source: Source,
    row: SourceDeclaration,
    streams: frozenset[str],
    on_progress: OnProgress | None,
) -> None:
    current = load_declarations([row.pk])[row.pk]
    total = 0
    for connection in Connection.unscoped.filter(source=source).order_by("connection_id"):
        for stream in sorted(streams & current.declaration.streams.keys()):
            for count in recompute_stream(build_target(connection, current, stream=stream)):
                total += count
                if on_progress is not None:
                    on_progress(total)


def _recount_freshness(source: Source, previous: SourceDeclaration, row: SourceDeclaration) -> None:
    """Recount the freshness of each stream whose declared fields changed."""
    documents = load_declarations([previous.pk, row.pk])
    previous_streams = documents[previous.pk].declaration.streams
    connection_ids = Connection.unscoped.filter(source=source).values_list("pk", flat=True)
    for name, stream in documents[row.pk].declaration.streams.items():
        if (
            name not in previous_streams
            or previous_streams[name].fields.keys() != stream.fields.keys()
        ):
            for connection_id in connection_ids:
                recount_declared(connection_id, name, stream.fields)


def _set_current(source: Source, row: SourceDeclaration, declaration: Declaration) -> None:
    source.kind = declaration.source_kind
    source.connector_key = declaration.connector_key
    source.display_name = declaration.display_name
    source.current_declaration = row
    source.save()


def _canonical(node: object) -> bytes:
    return orjson.dumps(node, option=orjson.OPT_SORT_KEYS)


def _published(source: Source, row: SourceDeclaration, *, changed: bool) -> PublishedDeclaration:
    return PublishedDeclaration(
        connector_key=source.connector_key,
        source_id=source.source_id,
        source_pk=source.pk,
        declaration_id=row.pk,
        revision=row.revision,
        version=row.version,
        changed=changed,
    )
