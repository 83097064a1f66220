"""Writing down one answer, in the transaction that read it and before anybody sees it.

Two statements, whatever the size of the answer. The first names the records by their pseudonyms
and takes hold of the chains, records before chains and both in order, so that two answers never
wait for each other in a circle; the second adds the rows and moves the ends.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple, TypeVar
from uuid import UUID

import orjson
from django.conf import settings
from django.db import OperationalError, transaction
from prometheus_client import Counter as Metric

from evidence.access.quotas import Amount, charge
from evidence.access.records import GONE, SHARED
from evidence.access.scope import Scope
from evidence.access.single_use import use_once
from evidence.access.sql import Fragment, fetched_by_one_plan, time_limited
from evidence.ledger.entries import GENESIS, Entry, Head, Shown, by_chain, seal
from evidence.ledger.tripwire import first_slack, look_into

ROWS = Metric("pdpp_ledger_rows", "Rows of the ledger that were written")

Key = tuple[str, str, str]
R = TypeVar("R")
ATTEMPTS = 3

# The commit waits for the disk whatever the server was told: an answer without its row must not be
# possible, not even after a power cut.
TAKE_HOLD = f"""
WITH durable AS MATERIALIZED (SELECT set_config('synchronous_commit', 'on', true)),
shown AS MATERIALIZED (
    SELECT * FROM unnest(%s::text[], %s::text[], %s::text[]) AS s(connection_id, stream, record_key)
),
known AS MATERIALIZED (
    SELECT p.* FROM shown s JOIN evidence_pseudonym p USING (connection_id, stream, record_key)
),
unnamed AS MATERIALIZED (
    SELECT * FROM shown WHERE (connection_id, stream, record_key) NOT IN
        (SELECT connection_id, stream, record_key FROM known)
),
shared AS MATERIALIZED (
    {SHARED} FROM (SELECT DISTINCT connection_id FROM unnamed ORDER BY 1) AS c
),
new AS (
    INSERT INTO evidence_pseudonym (connection_id, stream, record_key, pseudonym)
    SELECT connection_id, stream, record_key, gen_random_uuid() FROM unnamed
    WHERE (SELECT count(*) FROM shared) > 0
    ORDER BY 1, 2, 3 ON CONFLICT DO NOTHING
    RETURNING connection_id, stream, record_key, pseudonym
),
held AS (
    INSERT INTO evidence_chain (chain, owner_id, seq, digest, seal)
    SELECT c, %s, 0, %s, '' FROM unnest(%s::text[]) AS n(c), durable ORDER BY c
    ON CONFLICT (chain) DO UPDATE SET seq = evidence_chain.seq RETURNING chain, seq, digest
)
SELECT connection_id, stream, record_key, pseudonym, true, NULL::bigint, NULL::bytea FROM known
UNION ALL SELECT connection_id, stream, record_key, pseudonym, false, NULL, NULL FROM new
UNION ALL SELECT chain, NULL, NULL, NULL, NULL, seq, digest FROM held
"""  # noqa: S608 - of constants
# Somebody else named the same record at the same moment.
NAMES = """
SELECT p.connection_id, p.stream, p.record_key, p.pseudonym
FROM unnest(%s::text[], %s::text[], %s::text[]) AS s(connection_id, stream, record_key)
JOIN evidence_pseudonym p USING (connection_id, stream, record_key)
"""
COLUMNS = (
    "chain, seq, at, client_id, token_id, request_id, route, covered, record_count, size_bytes,"
    " pseudonyms, previous, digest"
)
ROW = "(" + ", ".join(["%s"] * 10) + ", %s::uuid[], %s, %s)"
ADD = """
WITH added AS (INSERT INTO evidence_disclosure ({columns}) VALUES {rows}),
moved AS (
    UPDATE evidence_chain c SET seq = n.seq, digest = n.digest, seal = n.seal
    FROM unnest(%s::text[], %s::bigint[], %s::bytea[], %s::bytea[]) AS n(chain, seq, digest, seal)
    WHERE c.chain = n.chain
),
watched AS (
    INSERT INTO evidence_watch AS w (grant_id, stream, slack)
    SELECT n.grant_id, n.stream, %s - n.shown
    FROM unnest(%s::text[], %s::text[], %s::bigint[]) AS n(grant_id, stream, shown)
    ON CONFLICT (grant_id, stream) DO UPDATE SET slack = w.slack + excluded.slack - %s
    RETURNING w.grant_id, w.stream, w.slack
)
SELECT grant_id, stream FROM watched WHERE slack <= 0
"""
IF_GONE = f"UNION ALL SELECT NULL, NULL WHERE EXISTS ({GONE})"


class ErasedMeanwhileError(OperationalError):
    """A record that an answer shows for the first time was taken away after it was read."""


class Taken(NamedTuple):
    """What the records are called, those of them that had no name before, and the chains' ends."""

    names: Mapping[Key, UUID]
    unnamed: Sequence[Key]
    heads: Sequence[Head]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """An answer that is about to be given. ``size_bytes`` is all of it, ``asked_of`` the grants that it
    stands on where it shows nothing."""

    route: str
    request_id: str
    shown: Sequence[Shown]
    size_bytes: int
    asked_of: Sequence[str] = ()


def in_one_transaction(read: Callable[[], R], write_down: Callable[[R], None]) -> R:
    """What ``read`` returns, once it is written down; read anew where a record of it was taken away
    before that."""
    for _ in range(ATTEMPTS - 1):
        try:
            return _once(read, write_down)
        except ErasedMeanwhileError:
            pass
    return _once(read, write_down)


@transaction.atomic(savepoint=False)
def _once(read: Callable[[], R], write_down: Callable[[R], None]) -> R:
    with time_limited(settings.PDPP_STATEMENT_TIMEOUT):
        answer = read()
        write_down(answer)
    return answer


def record(scope: Scope, answer: Answer, *, now: datetime) -> None:
    """Charges each grant that the answer draws on, then adds a row to the chain of each, and opens
    the window of single-use grants.

    Inside the transaction of the read. Raises ``RateLimitExceeded`` before anything is written,
    ``ErasedMeanwhileError``, ``GrantConsumed``, or what the database raises; the caller then has nothing to give out.
    """
    chains = by_chain(scope, answer.shown, asked_of=answer.asked_of)
    sizes = dict(zip(chains, _shares(answer.size_bytes, [*map(len, chains.values())]), strict=True))
    charge(scope, {chain: _amount(chains[chain], sizes[chain]) for chain in chains}, now=now)
    keys = sorted(_keys(answer.shown))
    taken = _take_hold(keys, sorted(chains), owner_id=scope.owner_id)
    entries = [
        (
            head.digest,
            Entry(
                chain=head.chain,
                seq=head.seq + 1,
                at=now,
                client_id=scope.client_id or "",
                token_id=scope.token_id,
                request_id=answer.request_id,
                route=answer.route,
                covered=_covered(chains[head.chain]),
                record_count=len(pseudonyms),
                size_bytes=sizes[head.chain],
                pseudonyms=pseudonyms,
            ),
        )
        for head in taken.heads
        for pseudonyms in [_named(chains[head.chain], taken.names)]
    ]
    used_up = _add(entries, _by_stream(scope, chains), unnamed=taken.unnamed)
    look_into(scope, used_up, now=now)
    use_once(scope, (chain for chain in chains if _discloses(chains[chain])), now=now)
    # What is rolled back was not shown either.
    transaction.on_commit(partial(ROWS.inc, len(entries)))


def _take_hold(keys: Sequence[Key], chains: Sequence[str], *, owner_id: str) -> Taken:
    names: dict[Key, UUID] = {}
    known: set[Key] = set()
    heads: list[Head] = []
    columns = _columns(keys)
    values = (*columns, owner_id, GENESIS, list(chains))
    for one, stream, key, pseudonym, was_known, seq, digest in fetched_by_one_plan(
        Fragment(TAKE_HOLD, values)
    ):
        if pseudonym is None:
            heads.append(Head(one, seq, bytes(digest)))
            continue
        names[one, stream, key] = pseudonym
        if was_known:
            known.add((one, stream, key))
    if len(names) < len(keys):
        found = fetched_by_one_plan(Fragment(NAMES, tuple(columns)))
        names |= {(one, stream, key): name for one, stream, key, name in found}
    return Taken(names, [key for key in keys if key not in known], heads)


def _add(
    entries: Sequence[tuple[bytes, Entry]],
    shown: Sequence[tuple[str, str, int]],
    *,
    unnamed: Sequence[Key],
) -> Sequence[tuple[str, str]]:
    """The (grant, stream) of which so much was shown that the tripwire has to look."""
    values: list[Any] = []
    ends: list[Head] = []
    for previous, entry in entries:
        digest = entry.digest(previous)
        ends.append(Head(entry.chain, entry.seq, digest))
        values += [
            entry.chain, entry.seq, entry.at, entry.client_id, entry.token_id, entry.request_id,
            entry.route, entry.covered, entry.record_count, entry.size_bytes,
            list(entry.pseudonyms), previous, digest,
        ]  # fmt: skip
    statement = ADD.format(columns=COLUMNS, rows=", ".join([ROW] * len(ends)))
    values += [
        [end.chain for end in ends],
        [end.seq for end in ends],
        [end.digest for end in ends],
        [seal(end) for end in ends],
    ]
    first = first_slack()
    values += [first, *([row[at] for row in shown] for at in range(3)), first]
    if unnamed:
        statement += IF_GONE
        values += _columns(unnamed)
    found = fetched_by_one_plan(Fragment(statement, tuple(values)))
    if (None, None) in found:
        raise ErasedMeanwhileError
    return [(one, stream) for one, stream in found]


def _by_stream(scope: Scope, chains: Mapping[str, Sequence[Shown]]) -> list[tuple[str, str, int]]:
    """(grant, stream, records shown), in one order for all; nothing of what the owner reads."""
    if scope.package_id is None:
        return []
    told = Counter(
        (chain, stream) for chain, shown in chains.items() for _, stream, _ in _keys(shown)
    )
    return sorted((chain, stream, records) for (chain, stream), records in told.items())


def _columns(keys: Sequence[Key]) -> list[list[str]]:
    return [[key[at] for key in keys] for at in range(3)]


def _keys(shown: Iterable[Shown]) -> set[Key]:
    return {
        (each.connection_id, each.stream, each.record_key)
        for each in shown
        if each.record_key is not None
    }


def _discloses(shown: Iterable[Shown]) -> bool:
    """Whether a record or a value was shown, and not merely which streams there are."""
    return any(each.record_key is not None or each.fields for each in shown)


def _amount(shown: Iterable[Shown], size_bytes: int) -> Amount:
    return Amount(len(_keys(shown)), size_bytes)


def _named(shown: Iterable[Shown], names: Mapping[Key, UUID]) -> tuple[UUID, ...]:
    """Random names have no order of their own to give away."""
    return tuple(sorted({names[key] for key in _keys(shown)}))


def _covered(shown: Iterable[Shown]) -> str:
    fields: dict[tuple[str, str], set[str]] = {}
    for each in shown:
        fields.setdefault((each.connection_id, each.stream), set()).update(each.fields)
    told = [[*place, sorted(names)] for place, names in sorted(fields.items())]
    return orjson.dumps(told).decode()


def _shares(total: int, weights: Sequence[int]) -> list[int]:
    """``total`` divided as the records are, without losing a byte."""
    whole = sum(weights) or len(weights)
    shares, given, counted = [], 0, 0
    for weight in weights:
        counted += weight if sum(weights) else 1
        until = total * counted // whole
        shares.append(until - given)
        given = until
    return shares
