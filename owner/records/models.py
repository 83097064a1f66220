"""People: who occurs in the owner's records, joined by address and number.

An identity is an address, a number, an id of a source, or a name without any of these. Mentions and
counts are derived from the records, erased with them, and left out of backups. Only ``mentions``
writes these tables and only the owner's pages read them: an identity that joins
sources must not reach a grant.
"""

from django.db import models
from django.db.models import F
from django.db.models.functions import Upper
from typing_extensions import override

from evidence.models.connections import Connection
from evidence.models.owners import Owned, OwnedOne


class Mention(Owned):
    """One identity in one record. ``at`` is null where the record is no contact, such as a card."""

    pk = models.CompositePrimaryKey("owner_id", "connection_id", "stream", "record_key", "identity")
    connection_id = models.TextField(db_collation="C")
    stream = models.TextField(db_collation="C")
    record_key = models.TextField(db_collation="C")
    identity = models.TextField(db_collation="C")
    name = models.TextField(null=True)
    at = models.DateTimeField(null=True)

    class Meta(Owned.Meta):
        indexes = [
            models.Index(
                fields=["owner", "connection_id", "stream", "identity", "at", "record_key"],
                name="mention_in_time",
            )
        ]

    @override
    def __str__(self) -> str:
        return f"someone in {self.connection_id}/{self.stream}:{self.record_key}"


class PersonCount(Owned):
    """How often an identity occurs in a stream, and the person to whom it belongs.

    ``own_person`` is a keyed hash of the identity. ``person`` is the same, or the hash of another
    identity that a contact card or the owner joined it with.
    """

    pk = models.CompositePrimaryKey("owner_id", "connection_id", "stream", "identity")
    connection_id = models.TextField(db_collation="C")
    stream = models.TextField(db_collation="C")
    identity = models.TextField(db_collation="C")
    own_person = models.TextField(db_collation="C")
    person = models.TextField(db_collation="C")
    name = models.TextField(null=True)
    records = models.BigIntegerField()
    first_at = models.DateTimeField(null=True)
    last_at = models.DateTimeField(null=True)

    class Meta(Owned.Meta):
        indexes = [
            models.Index(fields=["owner", "person"], name="person_count_of_person"),
            models.Index(fields=["owner", "identity"], name="person_count_of_identity"),
            models.Index("owner", Upper("name"), name="person_count_of_name"),
            models.Index("owner", F("last_at").desc(nulls_last=True), name="person_count_by_time"),
            models.Index(
                "owner", F("records").desc(nulls_last=True), name="person_count_by_records"
            ),
        ]

    @override
    def __str__(self) -> str:
        return f"{self.records} records of {self.connection_id}/{self.stream}"


class PersonMerge(Owned):
    """The owner's statement that an identity belongs to a person, named by any of its hashes."""

    pk = models.CompositePrimaryKey("owner_id", "identity")
    identity = models.TextField(db_collation="C")
    person = models.TextField(db_collation="C")
    merged_at = models.DateTimeField()

    @override
    def __str__(self) -> str:
        return f"an identity of {self.person}"


class PeopleProgress(Owned):
    """How far the mentions of a connection are derived.

    All changes up to ``seq`` are. ``basis`` is a digest of what mentions depend on besides records;
    if it changes, the connection is derived again, from the record after ``after_key`` on.
    """

    connection = OwnedOne(Connection, primary_key=True, cascade=True)
    seq = models.BigIntegerField()
    basis = models.TextField()
    is_complete = models.BooleanField()
    after_stream = models.TextField(default="", db_collation="C")
    after_key = models.TextField(default="", db_collation="C")

    @override
    def __str__(self) -> str:
        return f"people of {self.connection_id} up to {self.seq}"
