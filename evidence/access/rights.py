"""What a package holds, in the words of the wire (contract 1.3 and 1.6)."""

from datetime import datetime
from typing import Any

from evidence.access.held import State, grants_with_state, in_state
from evidence.models.grants import Grant

DATA_ACCESS = "https://pdpp.dev/data-access"
SHOWN = ("name", "instance_ids", "fields", "resources", "time_constraint")


def usable_grants(package_id: str, *, now: datetime) -> list[Grant]:
    """The grants of a package that hold now, oldest first, with their source and declaration."""
    rows = in_state(grants_with_state(now), State.ACTIVE).filter(package_id=package_id)
    return list(rows.select_related("declaration", "source").order_by("issued_at", "grant_id"))


def as_detail(grant: Grant) -> dict[str, Any]:
    """The grant as an RFC 9396 detail: what it came to, which may be less than was asked for."""
    detail: dict[str, Any] = {
        "type": DATA_ACCESS,
        "access_mode": grant.access_mode,
        "purpose_code": grant.purpose_code,
        "source": {"kind": grant.source.kind, "id": grant.source.source_id},
        "streams": [
            {name: stream[name] for name in SHOWN if name in stream} for stream in grant.streams
        ],
    }
    if grant.purpose_description:
        detail["purpose_description"] = grant.purpose_description
    if grant.retention is not None:
        detail["retention"] = grant.retention
    return detail


def held_by(package_id: str, *, now: datetime) -> dict[str, Any]:
    """``grant_id`` of a package's only grant, or else ``grant_package_id``, as answers name them."""
    grants = usable_grants(package_id, now=now)
    if len(grants) == 1:
        return {"grant_id": grants[0].grant_id}
    return {"grant_package_id": package_id}
