"""What the owner has had erased, how long streams are kept, and nothing of what it was."""

from django.db import models
from typing_extensions import override

from evidence.models.accounts import Owner
from evidence.models.connections import Connection

NAMING = "hashtextextended(connection_id, 2026)"
"""The advisory lock of a connection, in SQL: whoever erases there holds it, and whoever names a
record of it in the ledger shares it."""


class Erasure(models.Model):
    """One erasure: an order while it goes on, a receipt once ``finished_at`` is set.

    ``removed`` and ``kept`` count rows by kind, and are kept in the transaction that removes them,
    so that a run which is cut short is completed by another and counts nothing twice. A record is
    named by a keyed hash alone. ``before`` is set where only what is older goes (retention).
    """

    class Of(models.TextChoices):
        RECORD = "record", "Record"
        STREAM = "stream", "Stream"
        CONNECTION = "connection", "Connection"
        OWNER = "owner", "Everything"

    erasure_id = models.TextField(primary_key=True, db_collation="C")
    owner = models.ForeignKey(Owner, on_delete=models.PROTECT, related_name="+")
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

    unscoped = models.Manager["Erasure"]()

    class Meta:
        default_manager_name = "unscoped"
        constraints = [
            models.CheckConstraint(
                name="erasure_of_something_known",
                condition=models.Q(of__in=["record", "stream", "connection", "owner"]),
            )
        ]

    @override
    def __str__(self) -> str:
        return f"{self.of} erased: {self.erasure_id}"


class Retention(models.Model):
    """How many days the records of a connection are kept, or of one stream of it.

    ``stream`` is empty for all streams that have no period of their own.
    """

    connection = models.ForeignKey(Connection, on_delete=models.CASCADE, related_name="+")
    stream = models.TextField(default="", blank=True, db_collation="C")
    days = models.PositiveIntegerField()
    set_at = models.DateTimeField()

    unscoped = models.Manager["Retention"]()

    class Meta:
        default_manager_name = "unscoped"
        constraints = [
            models.UniqueConstraint(
                fields=["connection", "stream"], name="retention_once_per_stream"
            ),
            models.CheckConstraint(name="retention_of_days", condition=models.Q(days__gte=1)),
        ]

    @override
    def __str__(self) -> str:
        return f"{self.connection_id}/{self.stream or '*'}: {self.days} days"
