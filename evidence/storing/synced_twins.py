"""Keep one record of what a source reads and another format has brought, such as a mail."""

from dataclasses import replace
from typing import Any

import orjson

from evidence.declarations.declaration import BLOB_REFERENCE
from evidence.storing import stored_keys
from evidence.storing.sync_batch import SyncBatch, SyncedRecord, SyncRules
from evidence.storing.targets import load_one_target


def use_twins(
    batch: SyncBatch, rules: SyncRules, *, owner_id: str, connection_id: str
) -> frozenset[str]:
    """Give records of a batch the keys of their stored twins, and leave out their parts and files.

    Returns the keys of which files are left out. A record that is stored under its own key keeps that.
    """
    twins = dict[str, str]()
    for name in {seen.stream for seen in batch.seen if seen.key}:
        records = {each.key: each for each in batch.records if each.stream == name}
        stored = stored_keys.existing(connection_id, name, records)
        target = load_one_target(owner_id, connection_id=connection_id, stream=name)
        twins |= stored_keys.find_twins(
            target.find(connection_id, stream=name).stream,
            {key: orjson.loads(each.data) for key, each in records.items() if key not in stored},
            connection_id=connection_id,
            prefix=rules.twin_prefix,
        )
    if not twins:
        return frozenset()
    left_out = {each.key for each in batch.records if _whole(each.key) in twins} - twins.keys()
    kept = (each for each in batch.records if each.key not in left_out)
    batch.records = [_rename(each, twins[each.key]) if each.key in twins else each for each in kept]
    batch.seen = [replace(each, key=twins.get(each.key, each.key)) for each in batch.seen]
    return frozenset(left_out) | twins.keys()


def _whole(key: str) -> str:
    """Return the key of the record that one with this key is a part of, or this key."""
    return key.partition(".")[0]


def _rename(record: SyncedRecord, key: str) -> SyncedRecord:
    data: dict[str, Any] = orjson.loads(record.data)
    data.pop(BLOB_REFERENCE, None)
    return replace(record, key=key, data=orjson.dumps({**data, "id": key}))
