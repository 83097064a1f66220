"""When and where to back up, and the backups that were made."""

from django.db import models
from typing_extensions import override

from evidence.models.owners import Owned, Owner


class BackupPlan(Owned):
    """The owner's plan for backups.

    ``recipient`` is the public half of the recovery key, whose words nobody but the owner has. Backups
    are made at ``hour`` of the owner's time zone; ``due_at`` is the next one, also of "Back up now". The plan is paused
    after a restore, since another server may still use the same folder. ``problem`` is the error of the
    last run. ``covers_everyone`` is an administrator's choice to back up the whole installation.
    """

    owner = models.OneToOneField(
        Owner, on_delete=models.CASCADE, primary_key=True, related_name="+"
    )
    recipient = models.TextField(default="")
    key_created_at = models.DateTimeField(null=True)
    hour = models.PositiveSmallIntegerField(null=True)
    daily = models.PositiveSmallIntegerField(default=7)
    weekly = models.PositiveSmallIntegerField(default=4)
    monthly = models.PositiveSmallIntegerField(default=12)
    covers_everyone = models.BooleanField(default=False)
    folder = models.TextField(default="")
    due_at = models.DateTimeField(null=True)
    is_paused = models.BooleanField(default=False)
    problem = models.JSONField(null=True)

    @override
    def __str__(self) -> str:
        return f"backups of {self.owner_id}"


class BackupCopy(Owned):
    """One backup file in a folder.

    ``sealed`` is the key of the file, which the recovery key ``fingerprint`` opens. ``drill_key`` is that
    key, encrypted with the installation's key, while a drill waits or runs.
    """

    name = models.TextField()
    folder = models.TextField()
    made_at = models.DateTimeField()
    size_bytes = models.BigIntegerField()
    rows = models.BigIntegerField()
    fingerprint = models.TextField()
    sealed = models.BinaryField()
    drill_key = models.BinaryField(null=True)
    drilled_at = models.DateTimeField(null=True)
    drill_problem = models.TextField(default="")

    class Meta(Owned.Meta):
        indexes = [models.Index(fields=["owner", "made_at"], name="backup_copy_in_time")]

    @override
    def __str__(self) -> str:
        return self.name
