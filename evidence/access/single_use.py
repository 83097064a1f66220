"""Close single-use grants ten minutes after their first disclosing answer."""

from collections.abc import Iterable
from datetime import datetime, timedelta

from evidence.access.scope import Scope
from evidence.access.sql import SQL, fetch_all_generic_plan
from evidence.errors import GrantConsumed

WINDOW = timedelta(minutes=10)

OPEN_WINDOW = """
-- Open the window of single-use grants without one, and lock the grants until the answer is given.
-- Returns those whose window has closed meanwhile. Parameters: end of the window, grant ids, now, grant ids.
WITH opened AS (
    UPDATE evidence_grant SET readable_until = %s
    WHERE grant_id = ANY(%s) AND readable_until IS NULL
)
SELECT grant_id FROM evidence_grant WHERE readable_until <= %s AND grant_id = ANY(%s)
"""


def use_once(scope: Scope, disclosing: Iterable[str], *, now: datetime) -> None:
    """Open the window of each single-use grant among the grants through which an answer discloses.

    Call it in the transaction of the answer. One query, or none without a single-use grant. Raises
    ``GrantConsumed`` if a window has closed since the token was looked up.
    """
    single_use = {str(grant.grant_id) for grant in scope.grants if grant.single_use}
    grant_ids = sorted(single_use & set(disclosing))
    if not grant_ids:
        return
    if fetch_all_generic_plan(SQL(OPEN_WINDOW, (now + WINDOW, grant_ids, now, grant_ids))):
        raise GrantConsumed
