"""Records that stay as they are while what follows from them changes."""

from collections.abc import Iterator

from evidence.storing import passages, rows
from evidence.storing.deriving import derive, record_row
from evidence.storing.destinations import Target

RECORDS_AT_ONCE = 500


def rederive(target: Target) -> Iterator[int]:
    """Derives every record of a stream of a connection anew, batch by batch; how many each time.

    Runs inside the caller's transaction, which holds the connection or its source. Leaves no
    change entries: no record says anything new.
    """
    passages.forget_streams(target.connection_id, target.stream.name)
    after = ""
    while page := rows.page(
        target.connection_id, target.stream.name, after=after, limit=RECORDS_AT_ONCE
    ):
        derived = {
            ref: derive(target, key=ref.record_key, data=state.data) for ref, state in page.items()
        }
        rows.delete_records(page)
        rows.delete_search(page)
        rows.add_records(record_row(derived[ref], state) for ref, state in page.items())
        rows.add_search(each.search for each in derived.values() if each.search is not None)
        after = max(ref.record_key for ref in page)
        yield len(page)
