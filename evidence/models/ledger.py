"""Ledger chains, disclosures, pseudonyms and checkpoints; rows are append-only (design, section 8).

Each grant has a chain, and so has the owner (``own:`` and the owner's id). Rows name records by
random pseudonyms and keyed digests. Erasing a record deletes only the row that links it to its
pseudonym and has the key of its digests.
"""

from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.functions import RandomUUID
from django.contrib.postgres.indexes import GinIndex
from django.db import models
from typing_extensions import override

from evidence.models.owners import Owned


class Chain(Owned):
    """The head of one chain: its latest number and hash, sealed with a key outside the database."""

    chain = models.TextField(primary_key=True, db_collation="C")
    seq = models.BigIntegerField(default=0)
    digest = models.BinaryField()
    seal = models.BinaryField()

    @override
    def __str__(self) -> str:
        return f"{self.chain}#{self.seq}"


class Disclosure(Owned):
    """One response, as far as it concerns one chain.

    ``covered`` is JSON text of the disclosed fields and the number of records, if there are any:
    ``[[connection_id, stream, [field, …], records], …]``.
    ``size_bytes`` is the size of the response as UTF-8 JSON, or the number of blob bytes sent.
    ``record_digests`` has one digest per record, in the order of ``pseudonyms``.
    ``digest`` is SHA-256 over ``previous`` and every other column.
    """

    pk = models.CompositePrimaryKey("owner_id", "chain", "seq")
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
    record_digests = ArrayField(models.BinaryField())
    previous = models.BinaryField()
    digest = models.BinaryField()

    class Meta(Owned.Meta):
        indexes = [
            models.Index(fields=["owner", "at"], name="disclosure_at"),
            models.Index(fields=["owner", "client_id", "at"], name="disclosure_to_client"),
            GinIndex(fields=["pseudonyms"], name="disclosure_of_record"),
        ]

    @override
    def __str__(self) -> str:
        return f"{self.chain}#{self.seq}"


class Pseudonym(Owned):
    """The random name of a record in the ledger.

    ``nonce`` is the key of the record's digests in the ledger. Only this row has it, so nobody can
    test a guess against a digest after the row is deleted.
    """

    pk = models.CompositePrimaryKey("owner_id", "connection_id", "stream", "record_key")
    connection_id = models.TextField(db_collation="C")
    stream = models.TextField(db_collation="C")
    record_key = models.TextField(db_collation="C")
    pseudonym = models.UUIDField()
    nonce = models.UUIDField(db_default=RandomUUID())

    class Meta(Owned.Meta):
        indexes = [models.Index(fields=["owner", "pseudonym"], name="pseudonym_of")]

    @override
    def __str__(self) -> str:
        return str(self.pseudonym)


class Checkpoint(Owned):
    """All chain heads at one time, signed together.

    ``note`` is a signed note as in transparency logs: origin, size, root hash and a signature that
    the public key verifies. ``heads`` is the root's input as JSON text:
    ``[[chain, seq, digest in hex], …]``.
    """

    at = models.DateTimeField()
    heads = models.TextField()
    note = models.TextField()

    @override
    def __str__(self) -> str:
        return f"ledger at {self.at:%Y-%m-%d %H:%M}"
