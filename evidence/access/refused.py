"""Refused calls of clients, kept for a while so that the owner can be told why; never a secret.

Bounded twice: a client that is refused very often is written down no more until the hour is over, and
what is old, or too much, is forgotten with every ``manage.py prune``.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import QuerySet

from evidence.access.statements import Fragment, fetched_by_one_plan
from evidence.models.refused import RefusedCall

KEPT = timedelta(days=30)
MOST = 20_000
MOST_AN_HOUR = 500

# Nobody waits for the disk because of a refusal.
WRITE = """
WITH hasty AS MATERIALIZED (SELECT set_config('synchronous_commit', 'off', true)),
lately AS MATERIALIZED (
    SELECT count(*) AS calls FROM (
        SELECT FROM evidence_refusedcall WHERE client_id = %s AND at > %s LIMIT %s
    ) c
)
INSERT INTO evidence_refusedcall
    (owner_id, at, client_id, token_id, request_id, route, code, param, stream, clause)
SELECT %s, %s, %s, %s, %s, %s, %s, %s, %s, %s FROM hasty, lately WHERE lately.calls < %s
RETURNING id
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One refused call, as ``RefusedCall`` keeps it."""

    owner_id: str
    client_id: str
    token_id: str
    request_id: str
    route: str
    code: str
    param: str = ""
    stream: str = ""
    clause: str = ""


def write_refused(call: Call, *, now: datetime) -> None:
    """One statement; outside of the transaction of the read, which holds nothing then."""
    values = (
        call.client_id, now - timedelta(hours=1), MOST_AN_HOUR,
        call.owner_id, now, call.client_id, call.token_id, call.request_id, call.route, call.code,
        call.param, call.stream, call.clause, MOST_AN_HOUR,
    )  # fmt: skip
    fetched_by_one_plan(Fragment(WRITE, values))


def refused_calls(
    owner_id: str, *, client_id: str = "", request_id: str = ""
) -> QuerySet[RefusedCall]:
    """Latest first; of one client, or of one request."""
    rows = RefusedCall.unscoped.filter(owner_id=owner_id).order_by("-at", "-pk")
    if client_id:
        rows = rows.filter(client_id=client_id)
    return rows.filter(request_id=request_id) if request_id else rows


def forget_refused(now: datetime) -> int:
    """Those older than they are kept, and the oldest of too many; how many."""
    old, _ = RefusedCall.unscoped.filter(at__lt=now - KEPT).delete()
    first_too_old = RefusedCall.unscoped.order_by("-pk").values_list("pk", flat=True)[
        MOST : MOST + 1
    ]
    too_many, _ = RefusedCall.unscoped.filter(pk__lte=max(first_too_old, default=0)).delete()
    return old + too_many
