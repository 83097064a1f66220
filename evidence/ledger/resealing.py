"""Sealing the chain ends anew, before the key that sealed them is forgotten."""

from django.db import transaction

from evidence.ledger.entries import Head, is_sealed, seal
from evidence.models.ledger import Chain


@transaction.atomic
def seal_anew() -> int:
    """Seals with today's key what an earlier one has sealed; how many ends. One that was not sealed
    here stays as it is, for ``verify`` to name."""
    count = 0
    for row in Chain.unscoped.select_for_update().order_by("chain"):
        head, mark = Head(row.chain, row.seq, bytes(row.digest)), bytes(row.seal)
        if is_sealed(head, mark) and mark != seal(head):
            row.seal = seal(head)
            row.save(update_fields=["seal"])
            count += 1
    return count
