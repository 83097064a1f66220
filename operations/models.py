"""When background jobs are due, and which process has them."""

from django.db import models
from typing_extensions import override


class Job(models.Model):
    """A background job of the installation.

    A process has the job until ``leased_until``, which it prolongs while it works. ``worker`` is the
    process that had it last. ``failing_since`` is the first failure since the last success.
    """

    name = models.TextField(primary_key=True, db_collation="C")
    due_at = models.DateTimeField()
    worker = models.TextField(default="")
    leased_until = models.DateTimeField(null=True)
    failing_since = models.DateTimeField(null=True)

    unscoped = models.Manager["Job"]()

    class Meta:
        default_manager_name = "unscoped"

    @override
    def __str__(self) -> str:
        return self.name
