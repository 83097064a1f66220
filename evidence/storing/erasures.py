"""Orders to erase and their receipts: what was removed, how much, when and by whom. No contents."""

import secrets
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime

from django.db import transaction
from django.db.models import Max

from evidence.models.erasures import Erasure
from evidence.storing.erasing import Tally

Of = Erasure.Of


def order(
    of: Of,
    *,
    owner_id: str,
    by: str,
    now: datetime,
    connection_id: str = "",
    stream: str = "",
    record_digest: bytes | None = None,
    before: datetime | None = None,
    tombstones: bool = True,
) -> Erasure:
    """An erasure that goes on until it is finished; the unfinished one of the same, if there is."""
    with transaction.atomic():
        same = Erasure.unscoped.select_for_update().filter(
            owner_id=owner_id, of=of, connection_id=connection_id, stream=stream,
            finished_at=None, record_digest=record_digest, tombstones=tombstones,
            before__isnull=before is None,
        )  # fmt: skip
        return same.first() or Erasure.unscoped.create(
            erasure_id="ers_" + secrets.token_hex(12),
            owner_id=owner_id,
            of=of,
            by=by,
            connection_id=connection_id,
            stream=stream,
            record_digest=record_digest,
            before=before,
            tombstones=tombstones,
            wanted_at=now,
            updated_at=now,
        )


@contextmanager
def a_step(erasure_id: str, *, now: datetime) -> Iterator[Erasure | None]:
    """A transaction that removes some rows and counts them; None where all is done. Of two runs of
    one erasure one waits for the other."""
    with transaction.atomic():
        row = Erasure.unscoped.select_for_update().get(erasure_id=erasure_id)
        if row.finished_at is not None:
            yield None
            return
        yield row
        row.updated_at = now
        row.save(update_fields=["removed", "kept", "updated_at", "finished_at"])


def count(row: Erasure, tally: Tally) -> None:
    """Adds to what the receipt says; inside a step."""
    row.removed = +(Counter(row.removed) + tally.removed)
    row.kept = +(Counter(row.kept) + tally.kept)


def unfinished() -> list[Erasure]:
    return list(Erasure.unscoped.filter(finished_at=None).order_by("wanted_at", "erasure_id"))


def at_rest_since() -> datetime | None:
    """When something was last erased of what is to be; None where nothing is."""
    unfinished_ones = Erasure.unscoped.filter(finished_at=None)
    found: datetime | None = unfinished_ones.aggregate(at=Max("updated_at"))["at"]
    return found


def receipt(erasure_id: str, *, owner_id: str) -> Erasure | None:
    return Erasure.unscoped.filter(erasure_id=erasure_id, owner_id=owner_id).first()


def receipts(owner_id: str, *, most: int) -> list[Erasure]:
    """The latest first."""
    rows = Erasure.unscoped.filter(owner_id=owner_id).order_by("-wanted_at", "erasure_id")
    return list(rows[:most])
