"""Store import runs, their receipts and the options of each connection."""

import base64
import re
import secrets
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any, ClassVar, NamedTuple

from django.conf import settings
from django.db import transaction
from django.db.models import Max, Q, QuerySet
from typing_extensions import override

from evidence.errors import InvalidRequest
from evidence.models.connections import Connection
from evidence.models.owners import current_owner
from evidence.write import stored_keys
from evidence.write.app_data import AppData
from evidence.write.connections import create_connection
from evidence.write.declaration_store import declare
from importers.core.importer import ChoiceNeeded, InstalledImporter, Options
from importers.core.results import Issue
from importers.core.text import replace_unstorable
from importers.models import ImportChoice, ImportReceipt, ImportRun, SyncedItem, WaitingExport
from importers.runs import uploads

MAX_RECEIPTS = 10_000
DATE_ORDER = "date_order"


@dataclass(frozen=True, slots=True)
class ImportTarget:
    """The connection that records go to; ``connection_id`` is None if it does not exist yet."""

    importer: InstalledImporter
    name: str
    connection_id: str | None
    owner_id: str
    languages: tuple[str, ...] = ()
    labelled_by_owner: bool = False


class PendingReceipt(NamedTuple):
    """A receipt that is not saved yet."""

    item: int
    file: str
    location: str
    issue: Issue


def find_target(
    importer: InstalledImporter, *, name: str | None, owner_id: str, languages: tuple[str, ...] = ()
) -> ImportTarget:
    """Return the connection with this name or id, by default with the label of the importer.

    A connection whose label another one has got a number; without a name, it is found again. Raises
    ``InvalidRequest`` for the name of a connection that is revoked or of another source.
    """
    name_or_id = name or importer.label
    known = Connection.unscoped.filter(owner_id=owner_id).select_related("source")
    candidates = known.filter(source__connector_key=importer.connector_key)
    candidates = candidates.exclude(status=Connection.Status.REVOKED)
    match = (
        candidates.filter(connection_id=name_or_id).first()
        or candidates.filter(display_name__iexact=name_or_id).first()
        or (None if name else _find_numbered(candidates, importer.label))
    )
    if match:
        return ImportTarget(importer, match.display_name, match.connection_id, owner_id, languages)
    other = known.filter(Q(connection_id=name_or_id) | Q(display_name__iexact=name_or_id)).first()
    if name and other is not None:
        is_other_source = other.source.connector_key != importer.connector_key
        reason = "a connection of another source" if is_other_source else "revoked"
        raise InvalidRequest(
            message=f"{name_or_id} is {reason}. Choose another for {importer.title}.",
            param="connection",
        )
    return ImportTarget(
        importer, name_or_id, None, owner_id, languages, labelled_by_owner=name is not None
    )


def _find_numbered(candidates: QuerySet[Connection], label: str) -> Connection | None:
    """Return the first connection that was called `label` with a number because it was taken."""
    numbered = candidates.filter(
        display_name__regex=rf"^{re.escape(label)} [0-9]+$", labelled_by_owner=False
    )
    return numbered.order_by("created_at", "connection_id").first()


@transaction.atomic
def ensure_connection(target: ImportTarget, *, now: datetime) -> str:
    """Update the declaration, and return the id of the connection, created if it does not exist.

    ``declare`` locks the source, so concurrent calls create one connection.
    """
    importer = target.importer
    declare(importer.declaration, owner_id=target.owner_id, now=now)
    if target.connection_id:
        return target.connection_id
    name = target.name if target.labelled_by_owner else None
    current = find_target(importer, name=name, owner_id=target.owner_id)
    return current.connection_id or create_connection(
        importer.connector_key,
        display_name=target.name,
        owner_id=target.owner_id,
        languages=target.languages,
        labelled_by_owner=target.labelled_by_owner,
        now=now,
    )


def stopped_runs(owner_id: str, *, since: datetime) -> Sequence[ImportRun]:
    """Return the runs that stopped and that no later run of the same export continued.

    Counts runs that started since then. Two queries; the latest run comes first.
    """
    rows = ImportRun.unscoped.filter(owner_id=owner_id, started_at__gte=since)
    latest = rows.values("connection", "fingerprint").annotate(last=Max("started_at"))
    newest = {(row["connection"], row["fingerprint"]): row["last"] for row in latest}
    stopped = rows.filter(status=ImportRun.Status.STOPPED).order_by("-started_at")
    return [run for run in stopped if newest[run.connection_id, run.fingerprint] == run.started_at]


def start_or_resume(
    target: ImportTarget,
    *,
    connection_id: str,
    label: str,
    fingerprint: str,
    total: int,
    now: datetime,
) -> ImportRun:
    """Return the unfinished run of this export, or a new one."""
    runs = ImportRun.unscoped.filter(
        connection_id=connection_id, kind=target.importer.name, fingerprint=fingerprint
    )
    run = runs.exclude(status=ImportRun.Status.FINISHED).order_by("-started_at").first()
    if run is None:
        run = ImportRun(
            run_id="imp_" + secrets.token_hex(12),
            owner_id=target.owner_id,
            connection_id=connection_id,
            kind=target.importer.name,
            label=label,
            fingerprint=fingerprint,
            bytes_total=total,
            started_at=now,
        )
    run.status, run.updated_at = ImportRun.Status.RUNNING, now
    run.save()
    return run


def has_finished(target: ImportTarget, fingerprint: str) -> bool:
    """Return whether a run has finished this export."""
    return ImportRun.unscoped.filter(
        connection_id=target.connection_id,
        kind=target.importer.name,
        fingerprint=fingerprint,
        status=ImportRun.Status.FINISHED,
    ).exists()


def restart(run: ImportRun, receipts: Sequence[PendingReceipt], *, now: datetime) -> None:
    """Reset a run to its first item, and replace its receipts."""
    run.items_done = run.bytes_done = run.doubles = run.left_out = run.remarked = 0
    run.totals = {}
    with transaction.atomic():
        ImportReceipt.unscoped.filter(run=run).delete()
        save_progress(run, receipts, now=now)


def save_progress(run: ImportRun, receipts: Sequence[PendingReceipt], *, now: datetime) -> None:
    """Save the run with further receipts, of which a run keeps MAX_RECEIPTS."""
    free = max(0, MAX_RECEIPTS - run.left_out - run.remarked)
    remarked = sum(receipt.issue.code.text.is_imported for receipt in receipts)
    run.remarked += remarked
    run.left_out += len(receipts) - remarked
    run.updated_at = now
    with transaction.atomic():
        run.save()
        ImportReceipt.unscoped.bulk_create(
            ImportReceipt(
                connection_id=run.connection_id,
                run=run,
                item=receipt.item,
                file=replace_unstorable(receipt.file)[:1_000],
                place=replace_unstorable(receipt.location)[:200],
                code=receipt.issue.code,
                detail=replace_unstorable(receipt.issue.detail)[:200],
            )
            for receipt in receipts[:free]
        )


def list_receipts(run_id: str, *, limit: int | None = None) -> Iterable[ImportReceipt]:
    return ImportReceipt.unscoped.filter(run_id=run_id).order_by("pk")[:limit]


def find_run(run_id: str, *, owner_id: str) -> ImportRun | None:
    runs = ImportRun.unscoped.select_related("connection")
    return runs.filter(run_id=run_id, owner_id=owner_id).first()


def latest_runs(owner_id: str, *, limit: int) -> list[ImportRun]:
    runs = ImportRun.unscoped.select_related("connection").filter(owner_id=owner_id)
    return list(runs.order_by("-started_at", "run_id")[:limit])


def load_options(target: ImportTarget, options: Options) -> Options:
    """Complete the options with answers and stored records of the connection."""
    if target.connection_id is None:
        return options
    importer = target.importer
    if importer.series_stream:
        keys = stored_keys.first_of_series(target.connection_id, importer.series_stream)
        options = replace(options, series_keys=keys)
    for stream, names in importer.twin_fields.items() if importer.twin_prefix else ():
        digests = stored_keys.twin_digests(
            target.connection_id, stream, prefix=importer.twin_prefix, fields=names
        )
        options = replace(options, twins=base64.b64encode(digests).decode())
    choices = ImportChoice.unscoped.filter(connection_id=target.connection_id)
    remembered = dict(choices.values_list("name", "value"))
    if not importer.stored_fields:
        return replace(options, date_order=options.date_order or remembered.get(DATE_ORDER))
    stored = {
        stream: stored_keys.fields_by_key(target.connection_id, stream, fields=names)
        for stream, names in importer.stored_fields.items()
    }
    return replace(options, remembered=remembered, stored=stored)


def find_doubt(target: ImportTarget, prepared: Options) -> ChoiceNeeded | None:
    """Return the first question of an importer that the records of the connection do not answer."""
    if target.connection_id is None:
        return None
    has_any = partial(stored_keys.has_any, target.connection_id)
    for doubt in prepared.doubts:
        if has_any("accounts", [doubt["account"]]) and not has_any("transactions", doubt["keys"]):
            return ChoiceNeeded(doubt["question"], evidence=doubt["evidence"], flag=doubt["flag"])
    return None


def answers_to_save(
    importer: InstalledImporter, *, given: Options, prepared: Options
) -> dict[str, Any]:
    """Return what the owner answered; what an export showed is detected again in the next one."""
    if importer.stored_fields:
        return dict(prepared.answers)
    return {DATE_ORDER: given.date_order} if given.date_order else {}


def save_answers(connection_id: str, answers: Mapping[str, Any]) -> None:
    for name, value in answers.items():
        ImportChoice.unscoped.update_or_create(
            connection_id=connection_id, name=name, defaults={"value": value}
        )


class ImportData(AppData):
    """Runs, receipts, choices, uploads, and the accounts and items of live sources."""

    connection_tables: ClassVar = {
        "importers_importreceipt": "import receipts",
        "importers_importchoice": "import choices",
        "importers_importrun": "imports",
        "importers_synceditem": "notes of sources",
        "importers_sourceaccount": "accounts of sources",
    }

    @override
    def forget_keys(self, connection_id: str, stream: str, keys: Collection[str]) -> None:
        # The notes stay, so that the items are not read again.
        items = SyncedItem.unscoped.filter(connection_id=connection_id, stream=stream)
        items.filter(record_key__in=list(keys)).update(record_key="")

    @override
    def delete_quotes(self, connection_id: str, *, before: datetime | None) -> Counter[str]:
        # Receipts may quote unreadable input without naming its record, so none can be kept.
        receipts = ImportReceipt.unscoped.filter(connection_id=connection_id)
        if before is not None:
            receipts = receipts.filter(run__updated_at__lt=before)
        return Counter({"import receipts": receipts.delete()[0]})

    @override
    def delete_owner(self, owner_id: str) -> Counter[str]:
        waiting, _ = WaitingExport.unscoped.filter(owner_id=owner_id).delete()
        return Counter({"questions about exports": waiting})

    @override
    def delete_files(self, connection_id: str | None, *, include_queued: bool) -> None:
        runs = ImportRun.unscoped.all()
        if connection_id is not None:
            runs = runs.filter(connection_id=connection_id)
        uploads.delete_uploads(
            settings.PDPP_VAR / "imports",
            owner_id=current_owner(),
            run_ids=list(runs.values_list("pk", flat=True)),
            is_everything=connection_id is None,
            include_queued=include_queued,
        )
