"""Writing down one answer, in the transaction that read it and before anybody sees it.

Two statements, whatever the size of the answer. The first names the records by their pseudonyms
and takes hold of the chains, records before chains and both in order, so that two answers never
wait for each other in a circle; the second adds the rows and moves the ends.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any
from uuid import UUID

import orjson
from django.db import transaction
from prometheus_client import Counter as Metric

from evidence.access.charging import Amount, charge
from evidence.access.scope import Scope
from evidence.access.statements import Fragment, fetched_by_one_plan
from evidence.ledger.entries import GENESIS, Entry, Head, Shown, by_chain, seal
from evidence.ledger.tripwire import first_slack, look_into

ROWS = Metric("pdpp_ledger_rows", "Rows of the ledger that were written")

Key = tuple[str, str, str]

# The commit waits for the disk whatever the server was told: an answer without its row must not be
# possible, not even after a power cut.
TAKE_HOLD = """
WITH durable AS MATERIALIZED (SELECT set_config('synchronous_commit', 'on', true)),
shown AS MATERIALIZED (
    SELECT * FROM unnest(%s::text[], %s::text[], %s::text[]) AS s(connection_id, stream, record_key)
),
known AS MATERIALIZED (
    SELECT p.* FROM shown s JOIN evidence_pseudonym p USING (connection_id, stream, record_key)
),
new AS (
    INSERT INTO evidence_pseudonym (connection_id, stream, record_key, pseudonym)
    SELECT connection_id, stream, record_key, gen_random_uuid() FROM shown
    WHERE (connection_id, stream, record_key) NOT IN
        (SELECT connection_id, stream, record_key FROM known)
    ORDER BY 1, 2, 3 ON CONFLICT DO NOTHING
    RETURNING connection_id, stream, record_key, pseudonym
),
held AS (
    INSERT INTO evidence_chain (chain, owner_id, seq, digest, seal)
    SELECT c, %s, 0, %s, '' FROM unnest(%s::text[]) AS n(c), durable ORDER BY c
    ON CONFLICT (chain) DO UPDATE SET seq = evidence_chain.seq RETURNING chain, seq, digest
)
SELECT connection_id, stream, record_key, pseudonym, NULL::bigint, NULL::bytea FROM known
UNION ALL SELECT connection_id, stream, record_key, pseudonym, NULL, NULL FROM new
UNION ALL SELECT chain, NULL, NULL, NULL, seq, digest FROM held
"""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """An answer that is about to be given. ``size_bytes`` is all of it."""

    route: str
    request_id: str
    shown: Sequence[Shown]
    size_bytes: int


def record(scope: Scope, answer: Answer, *, now: datetime) -> None:
    """Charges each grant that the answer draws on, then adds a row to the chain of each.

    Inside the transaction of the read. Raises ``RateLimitExceeded`` before anything is written, or
    what the database raises; the caller then has nothing to give out.
    """
    chains = by_chain(scope, answer.shown)
    sizes = dict(zip(chains, _shares(answer.size_bytes, [*map(len, chains.values())]), strict=True))
    charge(scope, {chain: _amount(chains[chain], sizes[chain]) for chain in chains}, now=now)
    keys = sorted(_keys(answer.shown))
    names, heads = _take_hold(keys, sorted(chains), owner_id=scope.owner_id)
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
        for head in heads
        for pseudonyms in [_named(chains[head.chain], names)]
    ]
    look_into(scope, _add(entries, _by_stream(scope, chains)), now=now)
    # What is rolled back was not shown either.
    transaction.on_commit(partial(ROWS.inc, len(entries)))


def _take_hold(
    keys: Sequence[Key], chains: Sequence[str], *, owner_id: str
) -> tuple[Mapping[Key, UUID], list[Head]]:
    names: dict[Key, UUID] = {}
    heads: list[Head] = []
    columns = _columns(keys)
    values = (*columns, owner_id, GENESIS, list(chains))
    for one, stream, key, pseudonym, seq, digest in fetched_by_one_plan(
        Fragment(TAKE_HOLD, values)
    ):
        if pseudonym is None:
            heads.append(Head(one, seq, bytes(digest)))
        else:
            names[one, stream, key] = pseudonym
    if len(names) < len(keys):
        found = fetched_by_one_plan(Fragment(NAMES, tuple(columns)))
        names |= {(one, stream, key): name for one, stream, key, name in found}
    return names, heads


def _add(
    entries: Sequence[tuple[bytes, Entry]], shown: Sequence[tuple[str, str, int]]
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
    return [
        (one, stream) for one, stream in fetched_by_one_plan(Fragment(statement, tuple(values)))
    ]


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
