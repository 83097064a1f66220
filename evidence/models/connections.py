"""Connections, the counters and collector state of their streams, their retention periods and erasures."""

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models.functions import Lower
from typing_extensions import override

from evidence.models.owners import Owned, OwnedKey
from evidence.models.sources import Source

UNIQUE_NAME = "connection_name_once_per_owner"


class Connection(Owned):
    """One account or device of a source."""

    class Status(models.TextChoices):
        DRAFT = "draft", "Draft"
        ACTIVE = "active", "Active"
        PAUSED = "paused", "Paused"
        REVOKED = "revoked", "Revoked"

    connection_id = models.TextField(primary_key=True, db_collation="C")
    source = OwnedKey(Source)
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
    replaces = models.BooleanField(default=False, db_default=False)
    """Whether a record of an append-only stream may be replaced by another one with its key."""
    demo = models.BooleanField(default=False, editable=False)
    change_seq = models.BigIntegerField(default=0, editable=False)
    # Changes above `pruned_seq` are stored, and so are all changes since `changes_kept_since`.
    pruned_seq = models.BigIntegerField(default=0, db_default=0, editable=False)
    changes_kept_since = models.DateTimeField(null=True, editable=False)
    created_at = models.DateTimeField(editable=False)
    updated_at = models.DateTimeField(editable=False)

    class Meta(Owned.Meta):
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


class StreamState(Owned):
    """Counters of one stream of one connection, updated in the transaction of each write.

    ``latest_emitted_at`` covers every field and is for the owner. ``latest_declared_at`` covers the
    fields that the current declaration names, which is what an all-fields grant shows.
    """

    connection = OwnedKey(Connection, cascade=True)
    stream = models.TextField(db_collation="C")
    record_count = models.BigIntegerField(default=0)
    latest_emitted_at = models.DateTimeField(null=True)
    latest_declared_at = models.DateTimeField(null=True)
    updated_at = models.DateTimeField()
    # How many records collectors deleted since a time, of how many that were stored then.
    removed = models.BigIntegerField(default=0, db_default=0)
    removed_of = models.BigIntegerField(default=0, db_default=0)
    removed_since = models.DateTimeField(null=True)

    class Meta(Owned.Meta):
        constraints = [
            models.UniqueConstraint(
                fields=["owner", "connection", "stream"], name="stream_state_once_per_connection"
            ),
            models.CheckConstraint(
                name="record_count_not_negative", condition=models.Q(record_count__gte=0)
            ),
        ]

    @override
    def __str__(self) -> str:
        return f"{self.connection_id}/{self.stream}"


class CollectorState(Owned):
    """State that a collector keeps between runs: JSON by stream, for a connection or one of its grants."""

    connection = OwnedKey(Connection, cascade=True)
    grant_id = models.TextField(default="", db_collation="C")
    state = models.JSONField()
    updated_at = models.DateTimeField()

    class Meta(Owned.Meta):
        constraints = [
            models.UniqueConstraint(
                fields=["owner", "connection", "grant_id"],
                name="collector_state_once_per_connection_and_grant",
            )
        ]

    @override
    def __str__(self) -> str:
        return f"state of {self.connection_id}"


class EmbeddedStream(Owned):
    """Embedding progress of one stream of one connection.

    All records up to change ``seq`` have vectors of ``model`` for the semantic ``fields``. The
    vectors are in ``evidence_passage``, which exists only with pgvector
    (``evidence.write.vectors``).
    """

    connection = OwnedKey(Connection, cascade=True)
    stream = models.TextField(db_collation="C")
    model = models.TextField()
    fields = ArrayField(models.TextField())
    seq = models.BigIntegerField()

    class Meta(Owned.Meta):
        constraints = [
            models.UniqueConstraint(
                fields=["owner", "connection", "stream"], name="embedded_stream_once_per_connection"
            )
        ]

    @override
    def __str__(self) -> str:
        return f"{self.connection_id}/{self.stream} up to {self.seq}"


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
