"""How far the vectors of each stream have come."""

from django.contrib.postgres.fields import ArrayField
from django.db import models
from typing_extensions import override

from evidence.models.connections import Connection


class EmbeddedStream(models.Model):
    """One stream of one connection whose passages have vectors.

    They are those of ``model``, of every record as it stood at the change ``seq`` or later, for the
    semantic ``fields``. The vectors themselves are in ``evidence_passage``, which is there only where
    the database has pgvector (``evidence.storing.passages``).
    """

    connection = models.ForeignKey(Connection, on_delete=models.CASCADE, related_name="+")
    stream = models.TextField(db_collation="C")
    model = models.TextField()
    fields = ArrayField(models.TextField())
    seq = models.BigIntegerField()

    unscoped = models.Manager["EmbeddedStream"]()

    class Meta:
        default_manager_name = "unscoped"
        constraints = [
            models.UniqueConstraint(
                fields=["connection", "stream"], name="embedded_stream_once_per_connection"
            )
        ]

    @override
    def __str__(self) -> str:
        return f"{self.connection_id}/{self.stream} up to {self.seq}"
