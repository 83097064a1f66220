"""Owners and their accounts in tests, and the check that statements name an owner."""

import re
import sys
from collections.abc import Callable
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

from django.apps import apps
from django.contrib.auth.models import User
from django.utils import timezone

from evidence.models.owners import Owned, Owner, get_or_create_owner, is_across_owners
from owner.accounts import setup

OWNER_ID = "owner"
PROJECT = str(Path(__file__).resolve().parent.parent)
TESTS = str(Path(__file__).resolve().parent)


class OwnerNotNamedError(AssertionError):
    """A statement of the project reads or writes rows of owners without naming one."""


def owned_tables() -> frozenset[str]:
    """Return the tables whose rows each belong to one owner."""
    names = {model._meta.db_table for model in apps.get_models() if issubclass(model, Owned)}
    return frozenset(names | {"evidence_passage"})


def name_the_owner(
    execute: Callable[..., Any], sql: Any, params: Any, many: bool, context: Any
) -> Any:
    """Run a statement unless it names owned tables more often than owners. Tests may run what they like."""
    if _lacks_owner(str(sql)) and not is_across_owners() and _is_of_the_project():
        raise OwnerNotNamedError(str(sql))
    return execute(sql, params, many, context)


@lru_cache(maxsize=4096)
def _lacks_owner(sql: str) -> bool:
    return sql.count("owner_id") < len(_pattern().findall(sql))


@lru_cache(maxsize=1)
def _pattern() -> re.Pattern[str]:
    return re.compile(r'(?:FROM|JOIN|INTO|UPDATE)\s+"?(?:' + "|".join(owned_tables()) + r')"?\b')


def _is_of_the_project() -> bool:
    """Return whether the innermost module of ours on the stack is not a test."""
    frame = sys._getframe(2)
    while frame is not None:
        name = frame.f_code.co_filename
        if name.startswith(PROJECT) and "/.venv/" not in name and name != __file__:
            return not name.startswith(TESTS)
        frame = frame.f_back  # type: ignore[assignment]
    return False


def sign_up(name: str = "alice", *, password: str | None = None, owner_id: str = OWNER_ID) -> User:
    """Return a new account of an owner, who is created where there is none of that id."""
    user = User.objects.create_user(name, password=password)
    new = {"created_at": timezone.now(), "is_administrator": owner_id == OWNER_ID}
    Owner.unscoped.update_or_create(
        owner_id=owner_id, defaults={"user": user}, create_defaults={"user": user, **new}
    )
    return user


def set_up_link(now: datetime | None = None) -> str:
    """Return the token of a set-up link for the only owner."""
    now = now or timezone.now()
    return setup.create_link(get_or_create_owner(now), now=now)
