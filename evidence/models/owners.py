"""Owners, the owner that code acts for, and what every table of an owner's rows has.

A request, a command and a step of a background job act for one owner (``acting_for``). Managers of
owned tables read that owner's rows alone and raise ``NoOwnerError`` where nobody was named, so that a
forgotten owner is an error and never another owner's row. Statements of SQL name ``current_owner()``.
"""

import datetime as dt
import secrets
import string
import sys
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, ClassVar, Generic, Self, TypeVar

from django.conf import settings
from django.db import models
from django.db.models.lookups import Exact
from django.db.models.sql.where import WhereNode
from typing_extensions import override

from evidence import advisory_locks

OWNER_ID_CHARS = 8
Row = TypeVar("Row", bound="Owned")
Step = TypeVar("Step")

_current = ContextVar[str | None]("owner", default=None)
_everyone = ContextVar("every owner", default=False)


class NoOwnerError(RuntimeError):
    """A row of an owner was asked for where no owner was named. It is a fault of the program."""

    def __init__(self) -> None:
        super().__init__("No owner was named for this work.")


class SeveralOwnersError(RuntimeError):
    """The installation has more than one owner, and the caller named none."""


def current_owner() -> str:
    """Return the id of the owner that this code acts for. Raises ``NoOwnerError`` if there is none."""
    owner_id = _current.get()
    if owner_id is None:
        raise NoOwnerError
    return owner_id


@contextmanager
def acting_for(owner_id: str | None) -> Iterator[None]:
    """Act for one owner, or for nobody: then rows of owners cannot be read."""
    token = _current.set(owner_id)
    everyone = _everyone.set(False)
    try:
        yield
    finally:
        _everyone.reset(everyone)
        _current.reset(token)


def act_for(owner_id: str) -> None:
    """Name the owner, who was not known before, until the surrounding ``acting_for`` ends."""
    _current.set(owner_id)


def read_for(owner_id: str | None, chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield a body that is streamed after the view has returned, and read it for the same owner."""
    rest = iter(chunks)
    while True:
        with acting_for(owner_id):
            chunk = next(rest, None)
        if chunk is None:
            return
        yield chunk


@contextmanager
def across_owners() -> Iterator[None]:
    """Let managers read the rows of every owner: to find whose work is due, and to keep the server.

    No answer to an owner or to an app is made of what is read here.
    """
    everyone = _everyone.set(True)
    try:
        yield
    finally:
        _everyone.reset(everyone)


def is_across_owners() -> bool:
    return _everyone.get()


def owners_of(rows: "Callable[[], models.QuerySet[Any]]") -> list[str]:
    """Return the owners of the rows that ``rows`` finds across owners. One query."""
    with across_owners():
        return list(rows().order_by().values_list("owner_id", flat=True).distinct())


LOOK_SECONDS = 10.0
"""Time after which work in turn looks for owners whose work became due meanwhile."""


def in_turn(
    due: Callable[[], Iterable[str]],
    work: Callable[[], Iterable[Step]],
    *,
    most: int = sys.maxsize,
    looks_again: bool = False,
) -> Iterator[Step]:
    """Yield one step of each owner's work in turn until all of it is done, acting for its owner.

    At most ``most`` owners are worked for at once; more than one, and a step leaves no transaction
    open. ``looks_again`` asks ``due`` again while there is work, so that an owner does not wait for
    the long work of another. Work that fails ends there, and the others go on; the last error is
    raised at the end.
    """
    waiting = deque(due())
    working: dict[str, Iterator[Step]] = {}
    failures: dict[str, Exception] = {}
    looked_at = time.monotonic()
    try:
        while waiting or working:
            is_new = bool(waiting) and len(working) < most
            owner_id = waiting.popleft() if is_new else next(iter(working))
            try:
                with acting_for(owner_id):
                    steps = iter(work()) if is_new else working.pop(owner_id)
                    step = next(steps)
            except StopIteration:
                pass
            except Exception as error:  # noqa: BLE001 - it is raised below
                failures[owner_id] = error
            else:
                working[owner_id] = steps
                yield step
            if looks_again and time.monotonic() - looked_at >= LOOK_SECONDS:
                known = {*waiting, *working, *failures}
                waiting.extend(owner_id for owner_id in due() if owner_id not in known)
                looked_at = time.monotonic()
    finally:
        for owner_id, unfinished in working.items():
            if isinstance(unfinished, Generator):
                with acting_for(owner_id):
                    unfinished.close()
    for failure in failures.values():
        raise failure


def new_owner_id() -> str:
    """Return a public id for a new owner. It is part of that owner's tokens and of index entries."""
    alphabet = string.ascii_lowercase + string.digits
    return "".join(secrets.choice(alphabet) for _ in range(OWNER_ID_CHARS))


class Owner(models.Model):
    """A person whose records the server keeps. Nothing of one owner is shown to another."""

    owner_id = models.TextField(primary_key=True, db_collation="C")
    user = models.OneToOneField(
        settings.AUTH_USER_MODEL,
        null=True,
        blank=True,
        on_delete=models.SET_NULL,
        db_constraint=False,  # each node of a cluster has a copy of this table, and none of accounts
        related_name="+",
    )
    display_name = models.TextField(default="Owner")
    time_zone = models.TextField(default="UTC", db_default="UTC")
    # The language of the owner's browser, such as de-AT; empty if unknown.
    language = models.TextField(default="", db_default="")
    # For phone numbers written without a country, such as AT; empty if unknown.
    country = models.TextField(default="", db_default="")
    # Whether this owner keeps the installation: invites, removes and limits other owners.
    is_administrator = models.BooleanField(default=False, db_default=False)
    # The largest size of the owner's records and files in bytes; null has no limit.
    disk_limit_bytes = models.BigIntegerField(null=True, blank=True)
    created_at = models.DateTimeField()
    # When a household let the owner go; the row stays for the ledger and for receipts.
    removed_at = models.DateTimeField(null=True, blank=True)

    unscoped = models.Manager["Owner"]()

    class Meta:
        default_manager_name = "unscoped"
        constraints = [
            models.CheckConstraint(
                name="owner_id_survives_a_token",
                condition=models.Q(owner_id__regex=r"^[a-z0-9]{1,32}$"),
            )
        ]

    @override
    def __str__(self) -> str:
        return self.display_name


def present_owners() -> models.QuerySet[Owner]:
    """Return the owners who were not removed, the first one first."""
    return Owner.unscoped.filter(removed_at=None).order_by("created_at", "owner_id")


def first_owner(now: dt.datetime) -> Owner:
    """Return the first administrator, created on first use.

    Processes and threads that start together create one.
    """
    administrators = present_owners().filter(is_administrator=True)
    if (found := administrators.first()) is not None:
        return found
    with advisory_locks.exclusive("first owner"):
        return administrators.first() or create_owner(now, is_administrator=True)


def is_last_administrator(owner_id: str) -> bool:
    """Return whether other owners would have nobody to keep their installation."""
    others = present_owners().exclude(pk=owner_id)
    own = present_owners().filter(pk=owner_id, is_administrator=True)
    return others.exists() and own.exists() and not others.filter(is_administrator=True).exists()


def let_go(owner_id: str, *, now: dt.datetime) -> None:
    """Leave an owner without records out of the household; the only one stays, to begin again."""
    if present_owners().exclude(pk=owner_id).exists():
        gone = {"removed_at": now, "is_administrator": False}
        present_owners().filter(pk=owner_id).order_by().update(**gone)


def get_or_create_owner(now: dt.datetime) -> Owner:
    """Return the only owner of the installation, who administers it; created on first use.

    Raises ``SeveralOwnersError`` where there are others: then the caller has to name one.
    """
    if len(present_owners()[:2]) > 1:
        raise SeveralOwnersError
    return first_owner(now)


def create_owner(now: dt.datetime, **columns: Any) -> Owner:
    """Create an owner under a new id."""
    return Owner.unscoped.create(owner_id=new_owner_id(), created_at=now, **columns)


class OwnedManager(models.Manager[Row], Generic[Row]):
    """Reads the rows of the owner that the code acts for."""

    @override
    def get_queryset(self) -> models.QuerySet[Row]:
        rows = super().get_queryset()
        return rows if is_across_owners() else rows.filter(owner_id=current_owner())


class Owned(models.Model):
    """A row of one owner.

    The database's primary key and unique indexes of its table begin with ``owner_id``
    (``evidence.migrations.OwnerFirst``); Django's key may be the rest of it.
    """

    owner = models.ForeignKey(
        Owner,
        on_delete=models.DO_NOTHING,
        default=current_owner,
        editable=False,
        db_constraint=False,
        db_index=False,
        related_name="+",
    )

    owner_id: str
    unscoped: ClassVar[OwnedManager[Self]] = OwnedManager()

    class Meta:
        abstract = True
        default_manager_name = "unscoped"
        base_manager_name = "unscoped"

    @override
    def delete(self, *args: Any, **options: Any) -> tuple[int, dict[str, int]]:
        """Delete the row; the database deletes or protects what refers to it."""
        return type(self).unscoped.filter(pk=self.pk).delete()


class SameOwner:
    """A reference to a row of the same owner, which joins name too.

    Migrations write it as a foreign key of both columns; ``cascade`` deletes the row with what it
    refers to, which is refused otherwise.
    """

    def __init__(self, to: Any, *, cascade: bool = False, **options: Any) -> None:
        self.cascade = cascade
        options = {"db_index": False, "related_name": "+"} | options
        options |= {"on_delete": models.DO_NOTHING, "db_constraint": False}
        super().__init__(to, **options)  # type: ignore[call-arg]

    def deconstruct(self) -> tuple[str, str, list[Any], dict[str, Any]]:
        name, path, args, options = super().deconstruct()  # type: ignore[misc]
        for option in ("on_delete", "db_constraint"):
            options.pop(option, None)
        return name, path, args, options | ({"cascade": True} if self.cascade else {})

    def get_extra_restriction(self, alias: str, related_alias: str) -> WhereNode:
        """Return the condition that a join adds: both rows have the same owner."""
        field: Any = self
        ours = field.model._meta.get_field("owner").get_col(alias)  # noqa: SLF001
        theirs = field.related_model._meta.get_field("owner")  # noqa: SLF001
        theirs = theirs.get_col(related_alias)
        same: Any = Exact(ours, theirs)
        return WhereNode([same])


class OwnedKey(SameOwner, models.ForeignKey):  # type: ignore[type-arg]
    """A reference to a row of the same owner."""


class OwnedOne(SameOwner, models.OneToOneField):  # type: ignore[type-arg]
    """A reference to a row of the same owner that no other row of the table refers to."""
