"""Calls of clients that were refused: what decided, and nothing of what was asked for in words."""

from django.db import models
from typing_extensions import override

from evidence.models.owners import Owner


class RefusedCall(models.Model):
    """One refusal. ``param`` is the name of a parameter that the route knows, ``stream`` one that a
    granted source declares, ``clause`` words of ours about the grant; no value that was sent is here.
    """

    owner = models.ForeignKey(Owner, on_delete=models.CASCADE, related_name="+")
    at = models.DateTimeField()
    client_id = models.TextField()
    token_id = models.TextField()
    request_id = models.TextField()
    route = models.TextField()
    code = models.TextField()
    param = models.TextField()
    stream = models.TextField()
    clause = models.TextField()

    unscoped = models.Manager["RefusedCall"]()

    class Meta:
        default_manager_name = "unscoped"
        indexes = [
            models.Index(fields=["client_id", "at"], name="refused_to_client"),
            models.Index(fields=["at"], name="refused_at"),
            models.Index(fields=["request_id"], name="refused_request"),
        ]

    @override
    def __str__(self) -> str:
        return f"{self.route}: {self.code}"
