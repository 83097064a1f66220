"""Personal rows: records, changes, search text, suppressions and blobs.

Only ``evidence.access`` reads them, only ``evidence.write`` writes them. Records, changes and
search text are hash-partitioned by ``connection_id``, which is part of every key. No foreign key
points at them and they use no global sequence, so a distributed database could store them.
"""

from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.search import SearchVectorField
from django.db import models
from typing_extensions import override

from evidence.models.owners import Owned


class Record(Owned):
    """The current version of one record.

    ``sort_key`` is the cursor field as sortable text (null sorts last). ``field_emitted`` maps
    fields to their emitted time if it is older than ``emitted_at``. ``numbers``, ``times`` and
    ``words`` contain typed fields at the positions given by the layout; ``link_1`` to ``link_3``
    contain foreign keys to records of other streams. A constraint limits ``record_key`` to 200
    bytes.
    """

    pk = models.CompositePrimaryKey("owner_id", "connection_id", "stream", "record_key")
    connection_id = models.TextField(db_collation="C")
    stream = models.TextField(db_collation="C")
    record_key = models.TextField(db_collation="C")
    data = models.JSONField()
    sort_key = models.TextField(null=True, db_collation="C")
    consent_time = models.DateTimeField(null=True)
    emitted_at = models.DateTimeField()
    field_emitted = models.JSONField(null=True)
    numbers = ArrayField(models.DecimalField(max_digits=60, decimal_places=20), null=True)
    times = ArrayField(models.DateTimeField(), null=True)
    words = ArrayField(models.TextField(), null=True)
    link_1 = models.TextField(null=True, db_collation="C")
    link_2 = models.TextField(null=True, db_collation="C")
    link_3 = models.TextField(null=True, db_collation="C")
    change_seq = models.BigIntegerField()

    class Meta(Owned.Meta):
        indexes = [
            models.Index(
                fields=["owner", "connection_id", "stream", "sort_key", "record_key"],
                name="record_in_order",
            ),
            models.Index(
                fields=["owner", "connection_id", "stream", "consent_time"], name="record_in_time"
            ),
            *(
                models.Index(
                    fields=[
                        "owner",
                        "connection_id",
                        "stream",
                        f"link_{n}",
                        "sort_key",
                        "record_key",
                    ],
                    condition=models.Q(**{f"link_{n}__isnull": False}),
                    name=f"record_link_{n}",
                )
                for n in (1, 2, 3)
            ),
        ]

    @override
    def __str__(self) -> str:
        return f"{self.connection_id}/{self.stream}:{self.record_key}"


class RecordChange(Owned):
    """One change of one record, append-only, numbered per connection.

    ``changed`` has the names of the top-level fields that an update changed, added or removed; no
    values are stored. It is null for a creation and a deletion.
    """

    class Kind(models.TextChoices):
        CREATED = "c", "created"
        UPDATED = "u", "updated"
        DELETED = "d", "deleted"

    pk = models.CompositePrimaryKey("owner_id", "connection_id", "seq")
    connection_id = models.TextField(db_collation="C")
    seq = models.BigIntegerField()
    stream = models.TextField(db_collation="C")
    record_key = models.TextField(db_collation="C")
    kind = models.TextField(choices=Kind.choices)
    changed = ArrayField(models.TextField(), null=True)
    consent_time_before = models.DateTimeField(null=True)
    recorded_at = models.DateTimeField()

    class Meta(Owned.Meta):
        constraints = [
            models.CheckConstraint(
                name="change_kind_known", condition=models.Q(kind__in=["c", "u", "d"])
            )
        ]
        indexes = [
            models.Index(
                fields=["owner", "connection_id", "stream", "record_key", "seq"],
                name="change_of_record",
            )
        ]

    @override
    def __str__(self) -> str:
        return f"{self.connection_id}#{self.seq}"


class SearchText(Owned):
    """The lexemes of one record; each includes its field, so that a hidden field cannot match.

    ``word_order`` has the order of the words of each field by its code, as
    ``evidence.search.analysis.terms`` encodes it.
    """

    pk = models.CompositePrimaryKey("owner_id", "connection_id", "stream", "record_key")
    connection_id = models.TextField(db_collation="C")
    stream = models.TextField(db_collation="C")
    record_key = models.TextField(db_collation="C")
    terms = SearchVectorField()
    word_order = ArrayField(models.BinaryField())
    authored_at = models.DateTimeField(null=True)
    analyser = models.SmallIntegerField()

    class Meta(Owned.Meta):
        indexes = [
            models.Index(
                fields=["owner", "connection_id", "stream", "authored_at", "record_key"],
                name="search_text_in_time",
            )
        ]

    @override
    def __str__(self) -> str:
        return f"{self.connection_id}/{self.stream}:{self.record_key}"


class Suppression(Owned):
    """An erased record, stored as a keyed hash of its key; imports skip it."""

    pk = models.CompositePrimaryKey("owner_id", "connection_id", "stream", "key_digest")
    connection_id = models.TextField(db_collation="C")
    stream = models.TextField(db_collation="C")
    key_digest = models.BinaryField()
    erased_at = models.DateTimeField()

    @override
    def __str__(self) -> str:
        return f"an erased record of {self.connection_id}/{self.stream}"


class Blob(Owned):
    """Metadata of the bytes that a record's ``blob_ref`` references."""

    pk = models.CompositePrimaryKey("owner_id", "connection_id", "blob_id")
    connection_id = models.TextField(db_collation="C")
    blob_id = models.TextField(db_collation="C")
    stream = models.TextField(db_collation="C")
    record_key = models.TextField(db_collation="C")
    media_type = models.TextField()
    size_bytes = models.BigIntegerField()
    sha256 = models.BinaryField()
    created_at = models.DateTimeField()

    class Meta(Owned.Meta):
        indexes = [
            models.Index(
                fields=["owner", "connection_id", "stream", "record_key"], name="blob_of_record"
            )
        ]

    @override
    def __str__(self) -> str:
        return self.blob_id


class BlobChunk(Owned):
    """A chunk of a blob's bytes, small enough to serve ranges."""

    pk = models.CompositePrimaryKey("owner_id", "connection_id", "blob_id", "position")
    connection_id = models.TextField(db_collation="C")
    blob_id = models.TextField(db_collation="C")
    position = models.PositiveIntegerField()
    content = models.BinaryField()

    @override
    def __str__(self) -> str:
        return f"{self.blob_id}[{self.position}]"
