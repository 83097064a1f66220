"""What a grant has become. Whoever changes one holds its package first, so that no successor is made
beside it: what the owner does to a grant, also from a page that is out of date, is done to what stands.
"""

from typing import Any

from evidence.models.grants import AccessToken, Grant, Package


def hold_packages(**which: Any) -> None:
    """Until the end of the transaction nobody else changes or replaces a grant of these packages."""
    rows = Package.unscoped.select_for_update(no_key=True).filter(**which).order_by("pk")
    list(rows.values_list("pk"))


def minted_before(approval: str, *, package_id: str) -> bool:
    """Return whether this form made tokens of the package; another submit of it waits for this one."""
    hold_packages(pk=package_id)
    return AccessToken.unscoped.filter(approval=approval).exists()


def hold_latest(grant_id: str) -> str:
    """The id of what the grant has become, held like ``hold_packages``; its own where it stands."""
    hold_packages(pk__in=Grant.unscoped.filter(pk=grant_id).values("package"))
    while after := _successor(grant_id):
        grant_id = after
    return grant_id


def _successor(grant_id: str) -> str | None:
    found = Grant.unscoped.filter(pk=grant_id).values_list("superseded_by", flat=True)
    return found.first()
