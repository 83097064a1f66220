"""Single-use grants: their first disclosing answer opens a window of ten minutes."""

from collections.abc import Iterable
from datetime import datetime, timedelta

from evidence.access.scope import Scope
from evidence.access.sql import Fragment, fetched_by_one_plan
from evidence.errors import GrantConsumed

WINDOW = timedelta(minutes=10)

OPEN = """
-- Open the window of single-use grants that none was opened for; lock them until the answer is given.
-- Returns those whose window has closed meanwhile. Parameters: end of the window, grant ids, now, grant ids.
WITH opened AS (
    UPDATE evidence_grant SET readable_until = %s
    WHERE grant_id = ANY(%s) AND readable_until IS NULL
)
SELECT grant_id FROM evidence_grant WHERE readable_until <= %s AND grant_id = ANY(%s)
"""


def use_once(scope: Scope, disclosing: Iterable[str], *, now: datetime) -> None:
    """Open the window of the single-use grants among those through which an answer discloses
    something. One query, none without such a grant; inside the transaction of the answer.

    Raises ``GrantConsumed`` where a window closed since the bearer was looked up.
    """
    single = {str(grant.grant_id) for grant in scope.grants if grant.single_use}
    used = sorted(single & set(disclosing))
    if not used:
        return
    if fetched_by_one_plan(Fragment(OPEN, (now + WINDOW, used, now, used))):
        raise GrantConsumed
