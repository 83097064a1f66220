"""Keep an erased record away from imports that know it under another key.

Files of several formats have one booking or mail under different keys. A stream declares by which fields
such records are the same: ``x_pdpp_twin_fields`` in its schema. A record without the first of them has
no twins. Erasing a record suppresses a key that is
made of these values, once for each erased record, and notes which kinds of keys have used it up. The
kind of a key is its start, up to the underscore.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from itertools import count
from typing import Any

from evidence.models.digests import value_digest
from evidence.storing.rows import RecordId
from evidence.storing.suppression import find_suppressed, suppress_keys


def suppress_twins(
    records: Mapping[RecordId, Mapping[str, Any]], fields: Sequence[str], now: datetime
) -> None:
    """Suppress the twins of erased records of one stream, inside the transaction that erases them."""
    records = {ref: data for ref, data in records.items() if has_identity(data, fields)}
    taken = set(find_suppressed(_twin(ref, data, fields, 1) for ref, data in records.items()))
    suppressed = list[RecordId]()
    for ref, data in records.items():
        for number in count(1):
            twin = _twin(ref, data, fields, number)
            if twin not in taken and (number == 1 or not find_suppressed([twin])):
                break
        taken.add(twin)
        suppressed += [twin, _used_by(twin, ref)]
    if suppressed:
        suppress_keys(suppressed, now)


def find_erased_twins(
    records: Iterable[tuple[RecordId, Mapping[str, Any], Sequence[str]]],
) -> frozenset[RecordId]:
    """Return those of the records that may be twins of erased ones. One query."""
    twins = {
        ref: _twin(ref, data, fields, 1)
        for ref, data, fields in records
        if has_identity(data, fields)
    }
    suppressed = find_suppressed(twins.values())
    return frozenset(ref for ref, twin in twins.items() if twin in suppressed)


def is_erased_twin(
    ref: RecordId, data: Mapping[str, Any], fields: Sequence[str], now: datetime
) -> bool:
    """Return whether a new record is the twin of an erased one, and suppress its own key then.

    Each erased record has one twin of each kind.
    """
    for number in count(1):
        twin = _twin(ref, data, fields, number)
        suppressed = find_suppressed([twin, _used_by(twin, ref)])
        if twin not in suppressed:
            return False
        if len(suppressed) == 1:
            suppress_keys([ref, _used_by(twin, ref)], now)
            return True
    return False


def has_identity(data: Mapping[str, Any], fields: Sequence[str]) -> bool:
    """Return whether a record has the field without which it has no twins."""
    return bool(fields) and twin_values(data, fields)[0] not in (None, "")


def twin_values(data: Mapping[str, Any], fields: Sequence[str]) -> list[Any]:
    """Return the values of the twin fields; of ``a|b``, b is the field of records without a."""
    pairs = (name.partition("|") for name in fields)
    return [data.get(name) or data.get(other or name) for name, _, other in pairs]


def _twin(ref: RecordId, data: Mapping[str, Any], fields: Sequence[str], number: int) -> RecordId:
    values = value_digest(twin_values(data, fields))
    return ref._replace(record_key=f"={values}#{number}")


def _used_by(twin: RecordId, ref: RecordId) -> RecordId:
    kind = ref.record_key.partition("_")[0]
    return twin._replace(record_key=f"{twin.record_key}!{kind}")
