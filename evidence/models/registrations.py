"""Programs that have introduced themselves to the authorization server.

A registration may read nothing and costs nothing: the ``Client`` that can hold grants is made of it
when the owner first allows something.
"""

from django.contrib.postgres.fields import ArrayField
from django.db import models
from typing_extensions import override


class Registration(models.Model):
    """What one program says of itself; ``metadata`` holds the rest of its words, as it sent them.

    The library's "application".
    """

    class Source(models.TextChoices):
        DYNAMIC = "dynamic", "Registered itself"
        DOCUMENT = "metadata_document", "Its own document"
        OWNER = "owner", "Registered by the owner"

    class Method(models.TextChoices):
        NONE = "none", "No secret"
        BASIC = "client_secret_basic", "Secret in the header"
        POST = "client_secret_post", "Secret in the body"

    client_id = models.TextField(primary_key=True, db_collation="C")
    source = models.TextField(choices=Source.choices)
    name = models.TextField(blank=True)
    redirect_uris = ArrayField(models.TextField())
    grant_types = ArrayField(models.TextField())
    auth_method = models.TextField(choices=Method.choices)
    secret_digest = models.BinaryField(null=True)
    metadata = models.JSONField()
    registered_from = models.BinaryField(null=True)
    """A keyed hash of the address, to tell who registers too much."""
    created_at = models.DateTimeField()
    used_at = models.DateTimeField(null=True)
    fresh_until = models.DateTimeField(null=True)

    unscoped = models.Manager["Registration"]()

    class Meta:
        default_manager_name = "unscoped"
        constraints = [
            models.CheckConstraint(
                name="registration_secret_as_its_method_says",
                condition=models.Q(auth_method="none", secret_digest__isnull=True)
                | (~models.Q(auth_method="none") & models.Q(secret_digest__isnull=False)),
            ),
        ]
        indexes = [models.Index(name="registration_by_age", fields=["created_at"])]

    @override
    def __str__(self) -> str:
        return self.name or self.client_id

    @property
    def client_type(self) -> str:
        """The library's word for whether it has a secret."""
        return "public" if self.auth_method == self.Method.NONE else "confidential"

    @property
    def client_secret(self) -> bytes:
        """What the library compares a secret with; nothing equals an empty one."""
        return bytes(self.secret_digest or b"")
