"""What was disclosed to whom: rows that are added and never changed (design, section 8).

A chain is one grant's, or the owner's own (``own:`` and the owner's id). Rows name records by
random pseudonyms only; erasing a record takes away the one row that says whose pseudonym it was,
and leaves the chains as they are.
"""

from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex
from django.db import models
from typing_extensions import override

from evidence.models.accounts import Owner


class Chain(models.Model):
    """The end of one chain: its latest number and hash, sealed with a key the database lacks."""

    chain = models.TextField(primary_key=True, db_collation="C")
    owner = models.ForeignKey(Owner, on_delete=models.PROTECT, related_name="+")
    seq = models.BigIntegerField(default=0)
    digest = models.BinaryField()
    seal = models.BinaryField()

    unscoped = models.Manager["Chain"]()

    class Meta:
        default_manager_name = "unscoped"

    @override
    def __str__(self) -> str:
        return f"{self.chain}#{self.seq}"


class Disclosure(models.Model):
    """One answer, as far as it concerned one chain.

    ``covered`` is JSON text: what was shown, ``[[connection_id, stream, [field, …]], …]``.
    ``size_bytes`` counts the answer as UTF-8 JSON, or the bytes of a blob that were sent.
    ``digest`` is SHA-256 over ``previous`` and every other column.
    """

    pk = models.CompositePrimaryKey("chain", "seq")
    chain = models.TextField(db_collation="C")
    seq = models.BigIntegerField()
    at = models.DateTimeField()
    client_id = models.TextField()
    token_id = models.TextField()
    request_id = models.TextField()
    route = models.TextField()
    covered = models.TextField()
    record_count = models.IntegerField()
    size_bytes = models.BigIntegerField()
    pseudonyms = ArrayField(models.UUIDField())
    previous = models.BinaryField()
    digest = models.BinaryField()

    unscoped = models.Manager["Disclosure"]()

    class Meta:
        default_manager_name = "unscoped"
        indexes = [
            models.Index(fields=["at"], name="disclosure_at"),
            models.Index(fields=["client_id", "at"], name="disclosure_to_client"),
            GinIndex(fields=["pseudonyms"], name="disclosure_of_record"),
        ]

    @override
    def __str__(self) -> str:
        return f"{self.chain}#{self.seq}"


class Pseudonym(models.Model):
    """The random name under which the ledger knows a record."""

    pk = models.CompositePrimaryKey("connection_id", "stream", "record_key")
    connection_id = models.TextField(db_collation="C")
    stream = models.TextField(db_collation="C")
    record_key = models.TextField(db_collation="C")
    pseudonym = models.UUIDField()

    unscoped = models.Manager["Pseudonym"]()

    class Meta:
        default_manager_name = "unscoped"
        indexes = [models.Index(fields=["pseudonym"], name="pseudonym_of")]

    @override
    def __str__(self) -> str:
        return str(self.pseudonym)


class Checkpoint(models.Model):
    """All ends of all chains at one time, signed together.

    ``note`` is a signed note in the form of transparency logs: origin, size, root hash, and a
    signature that anybody with the public key can check. ``heads`` is what the root was made of,
    JSON text: ``[[chain, seq, digest in hex], …]``.
    """

    owner = models.ForeignKey(Owner, on_delete=models.PROTECT, related_name="+")
    at = models.DateTimeField()
    heads = models.TextField()
    note = models.TextField()

    unscoped = models.Manager["Checkpoint"]()

    class Meta:
        default_manager_name = "unscoped"

    @override
    def __str__(self) -> str:
        return f"ledger at {self.at:%Y-%m-%d %H:%M}"
