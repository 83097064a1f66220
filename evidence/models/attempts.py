"""Failed attempts to sign in, counted without saying whose."""

from django.db import models
from typing_extensions import override


class Attempts(models.Model):
    """How often something failed of late: for one account, one browser or one address.

    What is counted stands here as a keyed hash, so that the table tells neither names nor addresses.
    """

    digest = models.BinaryField(primary_key=True)
    failures = models.PositiveIntegerField(default=0)
    last_at = models.DateTimeField()
    blocked_until = models.DateTimeField(null=True, blank=True)

    unscoped = models.Manager["Attempts"]()

    class Meta:
        default_manager_name = "unscoped"

    @override
    def __str__(self) -> str:
        return f"{self.failures} failures until {self.last_at:%Y-%m-%d %H:%M}"
