"""Registrations, authorization requests, codes and refresh tokens; secrets are keyed hashes."""

from django.contrib.postgres.fields import ArrayField
from django.db import models
from typing_extensions import override

from evidence.models.grants import AccessToken, Package
from evidence.models.owners import Owned, OwnedKey, OwnedOne, Owner


class Registration(models.Model):
    """An OAuth client registration (RFC 7591); ``metadata`` contains the client's other claims.

    It is the "application" of django-oauth-toolkit.
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
    """A keyed hash of the client's address, for rate limiting."""
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
            )
        ]
        indexes = [models.Index(name="registration_by_age", fields=["created_at"])]

    @override
    def __str__(self) -> str:
        return self.name or self.client_id

    @property
    def client_type(self) -> str:
        """Return "public" or "confidential", as the library expects."""
        return "public" if self.auth_method == self.Method.NONE else "confidential"

    @property
    def client_secret(self) -> bytes:
        """Return the hash that the library compares secrets with; an empty one never matches."""
        return bytes(self.secret_digest or b"")


class RefreshFamily(Owned):
    """The chain of refresh tokens of one sign-in, and their access tokens."""

    family_id = models.TextField(primary_key=True, db_collation="C")
    registration = models.ForeignKey(Registration, on_delete=models.CASCADE, related_name="+")
    package = OwnedKey(Package, cascade=True)
    resource = models.TextField()
    scope = models.TextField()
    created_at = models.DateTimeField()
    revoked_at = models.DateTimeField(null=True)

    @override
    def __str__(self) -> str:
        return self.family_id


class RefreshToken(Owned):
    """One refresh token of a family; the current one and its siblings have no ``replaced_at``."""

    digest = models.BinaryField(primary_key=True)
    family = OwnedKey(RefreshFamily, cascade=True)
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    replaced_at = models.DateTimeField(null=True)

    @override
    def __str__(self) -> str:
        return f"refresh token of {self.family_id}"


class FamilyMember(Owned):
    """The family of an access token; a separate table keeps the token lookup narrow."""

    token = OwnedOne(AccessToken, primary_key=True, cascade=True)
    family = OwnedKey(RefreshFamily, cascade=True)

    @override
    def __str__(self) -> str:
        return f"{self.token_id} of {self.family_id}"


class AuthorizationCode(Owned):
    """An authorization code; kept after its use to detect a replay."""

    digest = models.BinaryField(primary_key=True)
    registration = models.ForeignKey(Registration, on_delete=models.CASCADE, related_name="+")
    package = OwnedKey(Package, cascade=True)
    resource = models.TextField()
    scope = models.TextField()
    redirect_uri = models.TextField()
    code_challenge = models.TextField()
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    used_at = models.DateTimeField(null=True)
    family = OwnedKey(RefreshFamily, null=True, cascade=True)
    token = OwnedKey(AccessToken, null=True, cascade=True)

    @override
    def __str__(self) -> str:
        return f"code until {self.expires_at:%Y-%m-%d %H:%M:%S}"


class PendingRequest(models.Model):
    """An authorization request that waits for the owner: device, collector, command line or pushed.

    ``handle`` is the hash of the client's reference, ``user_code`` of the code that a person types.
    ``parameters`` is the request as a query string.
    """

    class Kind(models.TextChoices):
        DEVICE = "device", "Device"
        COLLECTOR = "collector", "Collector"
        CONNECT = "connect", "Command line"
        PUSHED = "pushed", "Pushed"

    request_id = models.TextField(primary_key=True, db_collation="C")
    kind = models.TextField(choices=Kind.choices)
    handle = models.BinaryField(unique=True)
    user_code = models.BinaryField(unique=True, null=True)
    registration = models.ForeignKey(Registration, on_delete=models.CASCADE, related_name="+")
    resource = models.TextField()
    parameters = models.TextField()
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    polled_at = models.DateTimeField(null=True)
    interval_seconds = models.IntegerField(default=5)
    decided_at = models.DateTimeField(null=True)
    owner = models.ForeignKey(Owner, null=True, on_delete=models.CASCADE, related_name="+")
    """Who decided; nobody, and so no package, belongs to a request that waits."""
    package_id = models.TextField(null=True, db_collation="C")
    """The package that the owner allowed a client to read."""
    connection_ids = ArrayField(models.TextField(db_collation="C"), null=True)
    """The connections that the owner allowed a collector to write to."""
    used_at = models.DateTimeField(null=True)

    unscoped = models.Manager["PendingRequest"]()

    class Meta:
        default_manager_name = "unscoped"
        constraints = [
            models.CheckConstraint(
                name="pending_request_allowed_when_decided",
                condition=models.Q(package_id__isnull=True, connection_ids__isnull=True)
                | models.Q(decided_at__isnull=False),
            ),
            # No device code of a collector gives a token that reads, and no other one that writes.
            models.CheckConstraint(
                name="pending_request_allowed_what_it_asked_for",
                condition=models.Q(kind="collector", package_id__isnull=True)
                | (~models.Q(kind="collector") & models.Q(connection_ids__isnull=True)),
            ),
        ]

    @override
    def __str__(self) -> str:
        return f"{self.kind} request {self.request_id}"

    @property
    def is_allowed(self) -> bool:
        """Return whether the owner allowed the request; a decided one that is not was denied."""
        return self.package_id is not None or self.connection_ids is not None

    @property
    def package(self) -> Package | None:
        """Return the package that the owner allowed. Works only while acting for that owner."""
        packages: models.QuerySet[Package] = Package.unscoped.filter(pk=self.package_id)
        return packages.first()
