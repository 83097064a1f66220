"""The owner and the clients."""

import datetime as dt

from django.conf import settings
from django.db import models
from typing_extensions import override

OWNER_ID = "owner"
"""Id of the single owner of an installation."""


class Owner(models.Model):
    """The owner of the records; every key contains the id, so that several are possible later."""

    owner_id = models.TextField(primary_key=True, db_collation="C")
    user = models.OneToOneField(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )
    display_name = models.TextField(default="Owner")
    time_zone = models.TextField(default="UTC", db_default="UTC")
    # The language of the owner's browser, such as de-AT; empty if unknown.
    language = models.TextField(default="", db_default="")
    # For phone numbers written without a country, such as AT; empty if unknown.
    country = models.TextField(default="", db_default="")
    created_at = models.DateTimeField()

    unscoped = models.Manager["Owner"]()

    class Meta:
        default_manager_name = "unscoped"

    @override
    def __str__(self) -> str:
        return self.display_name


def get_or_create_owner(now: dt.datetime) -> Owner:
    """Return the installation's owner, created on first use."""
    owner, _ = Owner.unscoped.get_or_create(owner_id=OWNER_ID, defaults={"created_at": now})
    return owner


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
