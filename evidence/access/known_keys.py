"""Whether records of certain keys are there, for an owner who is about to grant single ones."""

from collections.abc import Iterable, Sequence

from evidence.access.gate import Gate
from evidence.access.owning import owner_scope
from evidence.access.statements import Fragment, fetched


def known_keys(
    owner_id: str, *, stream: str, connection_ids: Iterable[str], keys: Sequence[str]
) -> frozenset[str]:
    """Those of ``keys`` that name a record in any of these connections; one query for each."""
    gate = Gate(owner_scope(owner_id))
    wanted = Fragment(" AND r.record_key = ANY(%s)", (list(keys),))
    found: set[str] = set()
    for connection_id in connection_ids:
        visible = gate.stream(stream, connection_id=connection_id)
        rows = fetched(visible.matching(Fragment("r.record_key"), [wanted]))
        found.update(row[0] for row in rows)
    return frozenset(found)
