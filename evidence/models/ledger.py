"""Disclosures, the records that they showed, and checkpoints; rows are only added (design, section 8).

Each grant has a chain of disclosures, and so has the owner (``own:`` and the owner's id). A disclosure
names records by keyed digests. Erasing a record deletes only the row that has the key of its digest.
"""

from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import BrinIndex, GinIndex
from django.db import models
from typing_extensions import override

from evidence.models.owners import Owned


class Disclosure(Owned):
    """One answer, as far as it concerns one chain; an entry of the ledger.

    ``covered`` is JSON text of the disclosed fields and the number of records, if there are any:
    ``[[connection_id, stream, [field, …], records], …]``.
    ``counted`` is the number of records behind a number that the answer shows, such as a sum.
    ``size_bytes`` is the size of the answer as UTF-8 JSON, or the number of blob bytes sent.
    ``record_digests`` has the digest of each record (``DisclosedRecord``).
    ``seal`` is an HMAC of the columns before it, under a key that the database does not have.
    ``seq`` and ``digest`` are set once, by the job that signs: the number of the entry in its chain,
    and SHA-256 over the digest of the entry before it and every other column.
    """

    entry_id = models.UUIDField(primary_key=True)
    chain = models.TextField(db_collation="C")
    at = models.DateTimeField()
    client_id = models.TextField()
    token_id = models.TextField()
    request_id = models.TextField()
    route = models.TextField()
    covered = models.TextField()
    record_count = models.IntegerField()
    counted = models.BigIntegerField(null=True)
    size_bytes = models.BigIntegerField()
    record_digests = ArrayField(models.BinaryField())
    seal = models.BinaryField()
    seq = models.BigIntegerField(null=True)
    digest = models.BinaryField(null=True)

    class Meta(Owned.Meta):
        constraints = [
            models.UniqueConstraint(
                fields=["owner", "chain", "seq"], name="disclosure_once_a_number"
            )
        ]
        indexes = [
            models.Index(fields=["owner", "at"], name="disclosure_at"),
            models.Index(fields=["owner", "client_id", "at"], name="disclosure_to_client"),
            models.Index(
                fields=["owner", "chain"],
                name="disclosure_unsigned",
                condition=models.Q(seq__isnull=True),
            ),
            GinIndex(fields=["record_digests"], name="disclosure_of_record"),
        ]

    @override
    def __str__(self) -> str:
        return f"{self.chain} at {self.at}"


class DisclosedRecord(Owned):
    """A record that some disclosure showed, and the nonce of its digest.

    ``digest`` is an HMAC of the connection id, the stream and the key under ``nonce``. Only this row
    has the nonce, so nobody can test a guess against a digest after the row is deleted.
    """

    pk = models.CompositePrimaryKey("owner_id", "connection_id", "stream", "record_key")
    connection_id = models.TextField(db_collation="C")
    stream = models.TextField(db_collation="C")
    record_key = models.TextField(db_collation="C")
    nonce = models.BinaryField()
    digest = models.BinaryField()

    class Meta(Owned.Meta):
        indexes = [models.Index(fields=["owner", "digest"], name="record_of_digest")]

    @override
    def __str__(self) -> str:
        return bytes(self.digest).hex()


class Checkpoint(Owned):
    """The last entries of all chains at one time, signed together.

    ``note`` is a signed note as in transparency logs: origin, size, root hash and a signature that
    the public key verifies. ``heads`` is the root's input as JSON text:
    ``[[chain, seq, digest in hex], …]``. ``size`` is the number of entries.
    """

    at = models.DateTimeField()
    size = models.BigIntegerField()
    heads = models.TextField()
    note = models.TextField()

    class Meta(Owned.Meta):
        # Rows are added in the order of time.
        indexes = [BrinIndex(fields=["at"], name="checkpoint_at")]

    @override
    def __str__(self) -> str:
        return f"ledger at {self.at:%Y-%m-%d %H:%M}"
