"""The rows about imports: where they go, how far they are, what was said and what was chosen."""

import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import NamedTuple

from django.db import transaction

from evidence.errors import InvalidRequest
from evidence.models.connections import Connection
from evidence.models.imports import ImportChoice, ImportReceipt, ImportRun
from evidence.storing.connections import connect
from evidence.storing.declaration_store import declare
from importers.core.importer import Kind, Options
from importers.core.results import MEANINGS, Remark
from importers.core.text import storable

RECEIPTS_KEPT = 10_000
DATE_ORDER = "date_order"
COLUMNS = "columns"


@dataclass(frozen=True, slots=True)
class Target:
    """Where records go. ``connection_id`` is None while the connection is still to be made."""

    kind: Kind
    name: str
    connection_id: str | None
    owner_id: str
    languages: tuple[str, ...] = ()
    labelled_by_owner: bool = False


class Said(NamedTuple):
    """A receipt in the making."""

    item: int
    file: str
    place: str
    remark: Remark


def target(
    kind: Kind, *, name: str | None, owner_id: str, languages: tuple[str, ...] = ()
) -> Target:
    """The connection of this name or id; without a name the kind's own. Raises ``InvalidRequest``
    when the name is ambiguous, or that of a connection of another source."""
    wanted = name or kind.label
    ours = Connection.unscoped.filter(
        owner_id=owner_id, source__connector_key=kind.connector_key
    ).exclude(status=Connection.Status.REVOKED)
    found = list(ours.filter(connection_id=wanted) or ours.filter(display_name=wanted)[:2])
    if len(found) > 1:
        raise InvalidRequest(
            message=f"Several connections are called {wanted!r}; give the id of one.",
            param="connection",
        )
    if not found and Connection.unscoped.filter(connection_id=wanted).exists():
        raise InvalidRequest(
            message=f"{wanted} is a connection of another source and cannot hold {kind.title}.",
            param="connection",
        )
    if found:
        known = found[0]
        return Target(kind, known.display_name, known.connection_id, owner_id, languages)
    return Target(kind, wanted, None, owner_id, languages, labelled_by_owner=name is not None)


@transaction.atomic
def made(wanted: Target, *, now: datetime) -> str:
    """The id of the target's connection, made where there is none, under the declaration that
    this version of the importer brings. Two that begin at once make one."""
    declare(wanted.kind.declaration, owner_id=wanted.owner_id, now=now)  # which holds the source
    known = wanted if wanted.connection_id else _looked_for_again(wanted)
    return known.connection_id or connect(
        wanted.kind.connector_key,
        display_name=wanted.name,
        owner_id=wanted.owner_id,
        languages=wanted.languages,
        labelled_by_owner=wanted.labelled_by_owner,
        now=now,
    )


def _looked_for_again(wanted: Target) -> Target:
    return target(wanted.kind, name=wanted.name, owner_id=wanted.owner_id)


def begin(
    kind: Kind, *, connection_id: str, owner_id: str, label: str, fingerprint: str, total: int,
    now: datetime,
) -> ImportRun:  # fmt: skip
    """The run of this export that did not finish, else a new one."""
    same = ImportRun.unscoped.filter(
        connection_id=connection_id, kind=kind.name, fingerprint=fingerprint
    )
    run = same.exclude(status=ImportRun.Status.FINISHED).order_by("-started_at").first()
    if run is None:
        run = ImportRun(
            run_id="imp_" + secrets.token_hex(12),
            owner_id=owner_id,
            connection_id=connection_id,
            kind=kind.name,
            label=label,
            fingerprint=fingerprint,
            bytes_total=total,
            started_at=now,
        )
    run.status, run.updated_at = ImportRun.Status.RUNNING, now
    run.save()
    return run


def finished_before(kind: Kind, *, connection_id: str | None, fingerprint: str) -> bool:
    """Whether an export with this fingerprint was read to its end."""
    return ImportRun.unscoped.filter(
        connection_id=connection_id,
        kind=kind.name,
        fingerprint=fingerprint,
        status=ImportRun.Status.FINISHED,
    ).exists()


def start_over(run: ImportRun, said: Sequence[Said], *, now: datetime) -> None:
    """From the first item; what was said before is said anew."""
    run.items_done = run.bytes_done = run.doubles = run.left_out = run.remarked = 0
    with transaction.atomic():
        ImportReceipt.unscoped.filter(run=run).delete()
        save(run, said, now=now)


def save(run: ImportRun, said: Sequence[Said], *, now: datetime) -> None:
    """Keeps how far the run is, with what was said on the way."""
    room = max(0, RECEIPTS_KEPT - run.left_out - run.remarked)
    for each in said:
        if MEANINGS[each.remark.code].kept:
            run.remarked += 1
        else:
            run.left_out += 1
    run.updated_at = now
    with transaction.atomic():
        run.save()
        ImportReceipt.unscoped.bulk_create(_receipt(run, each) for each in said[:room])


def _receipt(run: ImportRun, said: Said) -> ImportReceipt:
    return ImportReceipt(
        connection_id=run.connection_id,
        run=run,
        item=said.item,
        file=storable(said.file)[:1_000],
        place=storable(said.place)[:200],
        code=said.remark.code,
        detail=storable(said.remark.detail)[:200],
    )


def receipts_of(run_id: str, *, most: int | None = None) -> Iterable[ImportReceipt]:
    return ImportReceipt.unscoped.filter(run_id=run_id).order_by("pk")[:most]


def run_of(run_id: str, *, owner_id: str) -> ImportRun | None:
    runs = ImportRun.unscoped.select_related("connection")
    return runs.filter(run_id=run_id, owner_id=owner_id).first()


def latest_runs(owner_id: str, *, most: int) -> list[ImportRun]:
    runs = ImportRun.unscoped.select_related("connection").filter(owner_id=owner_id)
    return list(runs.order_by("-started_at", "run_id")[:most])


def recall(wanted: Target, options: Options) -> Options:
    """What is said now, and what was said of this connection before."""
    if wanted.connection_id is None:
        return options
    rows = ImportChoice.unscoped.filter(connection_id=wanted.connection_id)
    known = dict(rows.values_list("name", "value"))
    return replace(
        options,
        date_order=options.date_order or known.get(DATE_ORDER),
        columns=options.columns or known.get(COLUMNS) or {},
    )


def remember(connection_id: str, options: Options) -> None:
    for name, value in ((DATE_ORDER, options.date_order), (COLUMNS, options.columns)):
        if value:
            ImportChoice.unscoped.update_or_create(
                connection_id=connection_id, name=name, defaults={"value": value}
            )
