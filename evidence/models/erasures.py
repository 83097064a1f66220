"""Erasure receipts and retention periods."""

from django.db import models
from typing_extensions import override

from evidence.models.connections import Connection
from evidence.models.owners import Owned, OwnedKey


class Erasure(Owned):
    """An erasure order, which becomes a receipt once ``finished_at`` is set.

    ``removed`` and ``kept`` count rows by kind, saved in the transaction that removes them, so an
    interrupted erasure can be resumed. A record is identified by a keyed hash. ``before`` restricts
    the erasure to older records (retention).
    """

    class Of(models.TextChoices):
        RECORD = "record", "Record"
        STREAM = "stream", "Stream"
        CONNECTION = "connection", "Connection"
        OWNER = "owner", "Everything"

    erasure_id = models.TextField(primary_key=True, db_collation="C")
    of = models.TextField(choices=Of.choices)
    by = models.TextField()
    connection_id = models.TextField(blank=True, db_collation="C")
    stream = models.TextField(blank=True, db_collation="C")
    record_digest = models.BinaryField(null=True)
    before = models.DateTimeField(null=True)
    tombstones = models.BooleanField(default=True)
    removed = models.JSONField(default=dict)
    kept = models.JSONField(default=dict)
    wanted_at = models.DateTimeField()
    updated_at = models.DateTimeField()
    finished_at = models.DateTimeField(null=True)

    class Meta(Owned.Meta):
        constraints = [
            models.CheckConstraint(
                name="erasure_of_something_known",
                condition=models.Q(of__in=["record", "stream", "connection", "owner"]),
            )
        ]

    @override
    def __str__(self) -> str:
        return f"{self.of} erased: {self.erasure_id}"


class Retention(Owned):
    """Retention period of a stream; an empty ``stream`` applies to all other streams."""

    connection = OwnedKey(Connection, cascade=True)
    stream = models.TextField(default="", blank=True, db_collation="C")
    days = models.PositiveIntegerField()
    set_at = models.DateTimeField()

    class Meta(Owned.Meta):
        constraints = [
            models.UniqueConstraint(
                fields=["owner", "connection", "stream"], name="retention_once_per_stream"
            ),
            models.CheckConstraint(name="retention_of_days", condition=models.Q(days__gte=1)),
        ]

    @override
    def __str__(self) -> str:
        return f"{self.connection_id}/{self.stream or '*'}: {self.days} days"
