"""The apps that an owner knows."""

from django.db import models
from typing_extensions import override

from evidence.models.owners import Owned


class Client(Owned):
    """An app as one owner knows it.

    Each owner who connects an app has a row for it. The metadata and the secret of the app are in its
    registration (``owner.oauth``), which belongs to no owner.
    """

    client_id = models.TextField(primary_key=True, db_collation="C", editable=False)
    display_name = models.TextField("name")
    created_at = models.DateTimeField(editable=False)

    class Meta(Owned.Meta):
        constraints = [
            models.CheckConstraint(
                name="client_name_not_empty", condition=~models.Q(display_name="")
            )
        ]

    @override
    def __str__(self) -> str:
        return self.display_name
