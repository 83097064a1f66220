"""Packages, grants, access tokens and permission requests.

During a request only ``evidence.access`` reads these rows, to build a ``Scope``.
"""

from django.contrib.postgres.fields import ArrayField
from django.db import models
from typing_extensions import override

from evidence.models.clients import Client
from evidence.models.owners import Owned, OwnedKey, OwnedOne
from evidence.models.sources import Source, SourceDeclaration


class Package(Owned):
    """The access of one client: one or more grants, each for one source.

    ``approval`` is the token of the form with which the owner allowed it, so that submitting a form
    twice creates one package.
    """

    package_id = models.TextField(primary_key=True, db_collation="C")
    client = OwnedKey(Client)
    approval = models.TextField(null=True, unique=True, db_collation="C")
    created_at = models.DateTimeField()
    revoked_at = models.DateTimeField(null=True)

    @override
    def __str__(self) -> str:
        return self.package_id


class Grant(Owned):
    """An owner's permission, resolved and frozen when it was issued.

    ``streams`` is a list of ``{name, instance_ids[], fields[], filters[], relations[], views[],
    resources?[], time_constraint?{field, since?, until?}}``. An empty list allows nothing. A
    trigger rejects later changes except pausing, revocation, succession and the end of a single use.
    """

    class AccessMode(models.TextChoices):
        CONTINUOUS = "continuous", "Continuous"
        SINGLE_USE = "single_use", "Single use"

    grant_id = models.TextField(primary_key=True, db_collation="C")
    package = OwnedKey(Package)
    source = OwnedKey(Source)
    declaration = OwnedKey(SourceDeclaration)
    streams = models.JSONField()
    purpose_code = models.TextField()
    purpose_description = models.TextField(blank=True)
    access_mode = models.TextField(choices=AccessMode.choices, default=AccessMode.CONTINUOUS)
    retention = models.JSONField(null=True)
    issued_at = models.DateTimeField()
    expires_at = models.DateTimeField(null=True)
    readable_until = models.DateTimeField(null=True)
    """When a single-use grant closes; set once, by its first disclosing answer."""
    paused_at = models.DateTimeField(null=True)
    revoked_at = models.DateTimeField(null=True)
    superseded_by = OwnedOne("self", null=True)
    extends = OwnedKey("self", null=True)
    """The grant that a temporary grant extends, and without which it shows nothing."""

    class Meta(Owned.Meta):
        constraints = [
            models.CheckConstraint(
                name="grant_ends_after_issue",
                condition=models.Q(expires_at__isnull=True)
                | models.Q(expires_at__gt=models.F("issued_at")),
            ),
            models.CheckConstraint(
                name="grant_access_mode_known",
                condition=models.Q(access_mode__in=["continuous", "single_use"]),
            ),
        ]

    @override
    def __str__(self) -> str:
        return self.grant_id


class AccessToken(Owned):
    """A bearer token for one resource, stored as a keyed hash.

    An owner token has no package and works at ``/v1`` only; client and package tokens have one.
    ``approval`` is the id of the form that created it, so that submitting a form twice creates one
    token per resource.
    """

    class Kind(models.TextChoices):
        OWNER = "owner", "Owner"
        CLIENT = "client", "Client"
        PACKAGE = "mcp_package", "Package"

    token_id = models.TextField(primary_key=True, db_collation="C")
    digest = models.BinaryField(unique=True)
    kind = models.TextField(choices=Kind.choices)
    resource = models.TextField()
    package = OwnedKey(Package, null=True)
    approval = models.TextField(null=True, db_collation="C")
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField(null=True)
    revoked_at = models.DateTimeField(null=True)

    class Meta(Owned.Meta):
        constraints = [
            models.CheckConstraint(
                name="owner_tokens_alone_have_no_package",
                condition=models.Q(kind="owner", package__isnull=True)
                | models.Q(kind__in=["client", "mcp_package"], package__isnull=False),
            ),
            models.CheckConstraint(
                name="owner_tokens_stay_at_rest",
                condition=~models.Q(kind="owner") | models.Q(resource="/v1"),
            ),
            models.CheckConstraint(
                name="token_resource_known",
                condition=models.Q(resource__in=["/v1", "/mcp", "/mcp/events"]),
            ),
            models.UniqueConstraint(
                fields=["owner", "approval", "resource"],
                name="approval_makes_one_token_per_resource",
            ),
        ]

    @override
    def __str__(self) -> str:
        return f"{self.kind} token {self.token_id}"


class Collector(Owned):
    """A program that stores records, files and its own state in ``connection_ids``, and reads no record.

    Its bearer token is stored as a keyed hash.
    """

    collector_id = models.TextField(primary_key=True, db_collation="C")
    digest = models.BinaryField(unique=True)
    name = models.TextField()
    connection_ids = ArrayField(models.TextField(db_collation="C"))
    created_at = models.DateTimeField()
    used_at = models.DateTimeField(null=True)
    revoked_at = models.DateTimeField(null=True)

    @override
    def __str__(self) -> str:
        return self.name


class PermissionRequest(Owned):
    """A client's request for one stream, or for fields of it, that its grant does not include.

    Made by a refused call; contains declared names only. ``fields`` is None for a whole stream.
    ``digest`` is the keyed hash of the link on which the owner answers.
    """

    class Answer(models.TextChoices):
        ONCE = "once", "Allowed once"
        HOUR = "hour", "Allowed for an hour"
        ALWAYS = "always", "Allowed"
        DECLINED = "declined", "Declined"

    request_id = models.TextField(primary_key=True, db_collation="C")
    digest = models.BinaryField(unique=True)
    grant = OwnedKey(Grant, cascade=True)
    stream = models.TextField()
    fields = ArrayField(models.TextField(), null=True)
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    answered_at = models.DateTimeField(null=True)
    answer = models.TextField(choices=Answer.choices, blank=True)

    class Meta(Owned.Meta):
        constraints = [
            models.CheckConstraint(
                name="permission_request_answered_with_an_answer",
                condition=models.Q(answered_at__isnull=True, answer="")
                | models.Q(
                    answered_at__isnull=False, answer__in=["once", "hour", "always", "declined"]
                ),
            )
        ]

    @override
    def __str__(self) -> str:
        return f"{self.stream} at {self.created_at:%Y-%m-%d %H:%M}"
