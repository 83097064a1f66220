"""Bookmarks of the changes feed that are too long to be handed out whole."""

from django.db import models
from typing_extensions import override

from evidence.models.owners import Owner


class Bookmark(models.Model):
    """How far many connections have been told of, found by a keyed hash of what it says.

    The same position is the same row, so that a client that asks every minute and hears of nothing
    new adds none. Holds numbers of changes only, nothing of any record.
    """

    handle = models.BinaryField(primary_key=True)
    owner = models.ForeignKey(Owner, on_delete=models.CASCADE, related_name="+")
    content = models.BinaryField()
    used_at = models.DateTimeField()

    unscoped = models.Manager["Bookmark"]()

    class Meta:
        default_manager_name = "unscoped"

    @override
    def __str__(self) -> str:
        return f"bookmark {bytes(self.handle).hex()}"
