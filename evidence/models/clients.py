"""Clients: the programs that ask for grants."""

from django.db import models
from typing_extensions import override

from evidence.models.owners import Owner


class Client(models.Model):
    client_id = models.TextField(primary_key=True, db_collation="C", editable=False)
    owner = models.ForeignKey(Owner, on_delete=models.PROTECT, related_name="+")
    display_name = models.TextField("name")
    created_at = models.DateTimeField(editable=False)

    unscoped = models.Manager["Client"]()

    class Meta:
        default_manager_name = "unscoped"
        constraints = [
            models.CheckConstraint(
                name="client_name_not_empty", condition=~models.Q(display_name="")
            )
        ]

    @override
    def __str__(self) -> str:
        return self.display_name
