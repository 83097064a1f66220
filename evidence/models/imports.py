"""Import runs, receipts, remembered choices, and exports that wait for an answer."""

from django.db import models
from typing_extensions import override

from evidence.models.accounts import Owner
from evidence.models.connections import Connection


class ImportRun(models.Model):
    """Import of one kind of data from one export into one connection.

    ``items_done`` counts items stored so far; an unfinished import of an export with the same
    ``fingerprint`` resumes there.
    """

    class Status(models.TextChoices):
        RUNNING = "running", "Running"
        FINISHED = "finished", "Finished"
        STOPPED = "stopped", "Stopped before its end"

    run_id = models.TextField(primary_key=True, db_collation="C")
    owner = models.ForeignKey(Owner, on_delete=models.PROTECT, related_name="+")
    connection = models.ForeignKey(Connection, on_delete=models.CASCADE, related_name="+")
    kind = models.TextField()
    label = models.TextField(help_text="The name of the file or folder.")
    fingerprint = models.TextField(db_collation="C")
    status = models.TextField(choices=Status.choices, default=Status.RUNNING)
    items_done = models.BigIntegerField(default=0)
    bytes_done = models.BigIntegerField(default=0)
    bytes_total = models.BigIntegerField(default=0)
    created = models.BigIntegerField(default=0)
    updated = models.BigIntegerField(default=0)
    unchanged = models.BigIntegerField(default=0)
    doubles = models.BigIntegerField(default=0)
    files = models.BigIntegerField(default=0)
    left_out = models.BigIntegerField(default=0)
    remarked = models.BigIntegerField(default=0)
    totals = models.JSONField(default=dict, help_text="By stream, account and currency.")
    started_at = models.DateTimeField()
    updated_at = models.DateTimeField()

    unscoped = models.Manager["ImportRun"]()

    class Meta:
        default_manager_name = "unscoped"
        constraints = [
            models.CheckConstraint(
                name="import_status_known",
                condition=models.Q(status__in=["running", "finished", "stopped"]),
            )
        ]
        indexes = [models.Index(fields=["connection", "fingerprint"], name="import_of_an_export")]

    @override
    def __str__(self) -> str:
        return f"{self.kind} of {self.label}"


class ImportReceipt(models.Model):
    """One item that was not imported, or imported with a warning. ``item`` counts from 0."""

    connection = models.ForeignKey(Connection, on_delete=models.CASCADE, related_name="+")
    run = models.ForeignKey(ImportRun, on_delete=models.CASCADE, related_name="+")
    item = models.BigIntegerField()
    file = models.TextField()
    place = models.TextField()
    code = models.TextField()
    detail = models.TextField()

    unscoped = models.Manager["ImportReceipt"]()

    class Meta:
        default_manager_name = "unscoped"

    @override
    def __str__(self) -> str:
        return f"{self.code} at {self.place}"


class ImportChoice(models.Model):
    """An import option that the owner chose for a connection, reused by later imports."""

    connection = models.ForeignKey(Connection, on_delete=models.CASCADE, related_name="+")
    name = models.TextField(db_collation="C")
    value = models.JSONField()

    unscoped = models.Manager["ImportChoice"]()

    class Meta:
        default_manager_name = "unscoped"
        constraints = [
            models.UniqueConstraint(
                fields=["connection", "name"], name="import_choice_once_per_connection"
            )
        ]

    @override
    def __str__(self) -> str:
        return self.name


class WaitingExport(models.Model):
    """An export in a watched folder that its owner was asked about.

    ``question`` is empty once nothing is open. ``answer`` has the form values of the owner, which apply
    as long as the export is in the folder.
    """

    waiting_id = models.TextField(primary_key=True, db_collation="C")
    owner = models.ForeignKey(Owner, on_delete=models.CASCADE, related_name="+")
    path = models.TextField(db_collation="C")
    question = models.TextField()
    flag = models.TextField(help_text="The option of the command line that answers.")
    answer = models.JSONField(default=dict)
    is_due = models.BooleanField(default=False, help_text="Answered, and not imported yet.")
    asked_at = models.DateTimeField()

    unscoped = models.Manager["WaitingExport"]()

    class Meta:
        default_manager_name = "unscoped"
        constraints = [
            models.UniqueConstraint(fields=["owner", "path"], name="waiting_export_once_per_path")
        ]

    @override
    def __str__(self) -> str:
        return self.path
