"""Bytes that belong to records, kept outside the record rows and read in ranges."""

from django.db import models
from typing_extensions import override


class Blob(models.Model):
    """What a record's ``blob_ref`` points at."""

    pk = models.CompositePrimaryKey("connection_id", "blob_id")
    connection_id = models.TextField(db_collation="C")
    blob_id = models.TextField(db_collation="C")
    stream = models.TextField(db_collation="C")
    record_key = models.TextField(db_collation="C")
    media_type = models.TextField()
    size_bytes = models.BigIntegerField()
    sha256 = models.BinaryField()
    created_at = models.DateTimeField()

    unscoped = models.Manager["Blob"]()

    class Meta:
        default_manager_name = "unscoped"
        indexes = [
            models.Index(fields=["connection_id", "stream", "record_key"], name="blob_of_record")
        ]

    @override
    def __str__(self) -> str:
        return self.blob_id


class BlobChunk(models.Model):
    """A piece of a blob, in order; small enough to be read alone when a range is asked for."""

    pk = models.CompositePrimaryKey("connection_id", "blob_id", "position")
    connection_id = models.TextField(db_collation="C")
    blob_id = models.TextField(db_collation="C")
    position = models.PositiveIntegerField()
    content = models.BinaryField()

    unscoped = models.Manager["BlobChunk"]()

    class Meta:
        default_manager_name = "unscoped"

    @override
    def __str__(self) -> str:
        return f"{self.blob_id}[{self.position}]"
