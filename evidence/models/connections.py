"""Connections, counters and collector state of their streams, and the accounts that live sources read."""

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models.functions import Lower
from typing_extensions import override

from evidence.models.accounts import Owner
from evidence.models.sources import Source

UNIQUE_NAME = "connection_name_once_per_owner"


class Connection(models.Model):
    """One account or device of a source."""

    class Status(models.TextChoices):
        DRAFT = "draft", "Draft"
        ACTIVE = "active", "Active"
        PAUSED = "paused", "Paused"
        REVOKED = "revoked", "Revoked"

    connection_id = models.TextField(primary_key=True, db_collation="C")
    owner = models.ForeignKey(Owner, on_delete=models.PROTECT, related_name="+")
    source = models.ForeignKey(Source, on_delete=models.PROTECT, related_name="+")
    display_name = models.TextField("label")
    # Whether the owner chose the label.
    labelled_by_owner = models.BooleanField(default=False, db_default=False, editable=False)
    status = models.TextField(choices=Status.choices, default=Status.ACTIVE)
    languages = ArrayField(
        models.TextField(),
        default=list,
        blank=True,
        help_text="Languages of its texts, for search: en, de, fr, …",
    )
    identities = ArrayField(
        models.TextField(),
        default=list,
        db_default=models.Value([], output_field=ArrayField(models.TextField())),
        blank=True,
        help_text="How the source calls its owner: addresses, ids, names.",
    )
    # Languages and analyzer of the stored search text. `reindexing` is the progress of a rebuild.
    indexed_languages = ArrayField(
        models.TextField(),
        default=list,
        db_default=models.Value([], output_field=ArrayField(models.TextField())),
        editable=False,
    )
    indexed_analyser = models.SmallIntegerField(default=0, db_default=0, editable=False)
    reindexing = models.JSONField(null=True, editable=False)
    demo = models.BooleanField(default=False, editable=False)
    change_seq = models.BigIntegerField(default=0, editable=False)
    # Changes above `pruned_seq` are stored, and so are all changes since `changes_kept_since`.
    pruned_seq = models.BigIntegerField(default=0, db_default=0, editable=False)
    changes_kept_since = models.DateTimeField(null=True, editable=False)
    created_at = models.DateTimeField(editable=False)
    updated_at = models.DateTimeField(editable=False)

    unscoped = models.Manager["Connection"]()

    class Meta:
        default_manager_name = "unscoped"
        constraints = [
            models.CheckConstraint(
                name="connection_id_survives_the_id_grammar",
                condition=models.Q(connection_id__regex=r"^[A-Za-z0-9_-]{1,64}$"),
            ),
            models.CheckConstraint(
                name="connection_status_known",
                condition=models.Q(status__in=["draft", "active", "paused", "revoked"]),
            ),
            models.UniqueConstraint("owner", Lower("display_name"), name=UNIQUE_NAME),
        ]

    @override
    def __str__(self) -> str:
        return f"{self.display_name} ({self.connection_id})"

    @property
    def label(self) -> str:
        """The name as the owner's pages show it."""
        return f"{self.display_name} (demo)" if self.demo else self.display_name


class StreamState(models.Model):
    """Counters of one stream of one connection, updated in the transaction of each write.

    ``latest_emitted_at`` covers every field and is for the owner. ``latest_declared_at`` covers the
    fields that the current declaration names, which is what an all-fields grant shows.
    """

    connection = models.ForeignKey(Connection, on_delete=models.CASCADE, related_name="+")
    stream = models.TextField(db_collation="C")
    record_count = models.BigIntegerField(default=0)
    latest_emitted_at = models.DateTimeField(null=True)
    latest_declared_at = models.DateTimeField(null=True)
    updated_at = models.DateTimeField()

    unscoped = models.Manager["StreamState"]()

    class Meta:
        default_manager_name = "unscoped"
        constraints = [
            models.UniqueConstraint(
                fields=["connection", "stream"], name="stream_state_once_per_connection"
            ),
            models.CheckConstraint(
                name="record_count_not_negative", condition=models.Q(record_count__gte=0)
            ),
        ]

    @override
    def __str__(self) -> str:
        return f"{self.connection_id}/{self.stream}"


class CollectorState(models.Model):
    """State that a collector keeps between runs: opaque JSON per source, and optionally per grant."""

    source = models.ForeignKey(Source, on_delete=models.CASCADE, related_name="+")
    grant_id = models.TextField(default="", db_collation="C")
    state = models.JSONField()
    updated_at = models.DateTimeField()

    unscoped = models.Manager["CollectorState"]()

    class Meta:
        default_manager_name = "unscoped"
        constraints = [
            models.UniqueConstraint(
                fields=["source", "grant_id"], name="collector_state_once_per_source_and_grant"
            )
        ]

    @override
    def __str__(self) -> str:
        return f"state of {self.source_id}"


class EmbeddedStream(models.Model):
    """Embedding progress of one stream of one connection.

    All records up to change ``seq`` have vectors of ``model`` for the semantic ``fields``. The
    vectors are in ``evidence_passage``, which exists only with pgvector
    (``evidence.write.vector_table``).
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


class SourceAccount(models.Model):
    """The account from which a source keeps one connection up to date.

    ``state`` covers exactly the records that are stored: both change in one transaction, which also
    increments ``version``. ``credential`` is encrypted and bound to the connection. ``last_run`` and
    ``problem`` are for the owner's pages and contain no text of a record. ``held_deletions`` are too
    many to delete without a question, see ``write.synced_batches``; the owner agreed to those
    of passes up to ``allowed_pass``. ``traffic`` has the bytes that were read on a day.
    """

    connection = models.OneToOneField(
        Connection, on_delete=models.CASCADE, primary_key=True, related_name="+"
    )
    source_name = models.TextField(db_collation="C")
    settings = models.JSONField(default=dict)
    credential = models.BinaryField(null=True)
    is_mirror = models.BooleanField(default=False)
    state = models.JSONField(default=dict)
    version = models.BigIntegerField(default=0)
    pass_number = models.BigIntegerField(default=1)
    held_deletions = models.JSONField(null=True)
    allowed_pass = models.BigIntegerField(default=0)
    traffic = models.JSONField(default=dict)
    due_at = models.DateTimeField()
    failures = models.IntegerField(default=0)
    problem = models.JSONField(null=True)
    last_run = models.JSONField(default=dict)
    succeeded_at = models.DateTimeField(null=True)
    created_at = models.DateTimeField()

    unscoped = models.Manager["SourceAccount"]()

    class Meta:
        default_manager_name = "unscoped"
        indexes = [models.Index(fields=["due_at"], name="source_account_due")]

    @override
    def __str__(self) -> str:
        return f"{self.source_name} of {self.connection_id}"


class SyncedItem(models.Model):
    """An item of an account, such as a message in a folder, and the record made from it.

    ``mark`` is what the source remembers of it, such as its flags. ``is_ours``: the record did not
    exist before. ``gone_pass`` is the pass that no longer found the item.
    """

    pk = models.CompositePrimaryKey("connection_id", "container", "ref")
    connection = models.ForeignKey(
        Connection, on_delete=models.CASCADE, related_name="+", db_index=False
    )
    container = models.TextField(db_collation="C")
    ref = models.TextField(db_collation="C")
    stream = models.TextField(db_collation="C")
    record_key = models.TextField(db_collation="C")
    mark = models.TextField(default="")
    is_ours = models.BooleanField(default=False)
    gone_pass = models.BigIntegerField(null=True)
    seen_at = models.DateTimeField()

    unscoped = models.Manager["SyncedItem"]()

    class Meta:
        default_manager_name = "unscoped"
        indexes = [
            models.Index(fields=["connection", "record_key"], name="synced_item_of_record"),
            models.Index(
                fields=["connection", "gone_pass"],
                name="synced_item_gone",
                condition=models.Q(gone_pass__isnull=False),
            ),
        ]

    @override
    def __str__(self) -> str:
        return f"{self.container} {self.ref}"
