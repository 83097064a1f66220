"""What the owner has to be told, until they have seen it."""

from django.db import models
from typing_extensions import override

from evidence.models.grants import Grant


class Alert(models.Model):
    """A grant that was paused by itself: ``seen`` different records of ``total`` that it shows of
    ``stream``, within ``hours``."""

    grant = models.ForeignKey(Grant, on_delete=models.CASCADE, related_name="+")
    stream = models.TextField()
    seen = models.BigIntegerField()
    total = models.BigIntegerField()
    hours = models.IntegerField()
    at = models.DateTimeField()
    mailed_at = models.DateTimeField(null=True)
    acknowledged_at = models.DateTimeField(null=True)

    unscoped = models.Manager["Alert"]()

    class Meta:
        default_manager_name = "unscoped"
        indexes = [
            models.Index(
                fields=["at"],
                name="alert_standing",
                condition=models.Q(acknowledged_at__isnull=True),
            )
        ]

    @override
    def __str__(self) -> str:
        return f"{self.stream} at {self.at:%Y-%m-%d %H:%M}"
