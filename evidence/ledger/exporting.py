"""The ledger as a file that can be checked elsewhere: every row, every checkpoint, the public key."""

from collections.abc import Iterator
from typing import Any

from evidence.ledger.checkpoints import heads_in, key_lines
from evidence.models.ledger import Chain, Checkpoint, Disclosure

Json = dict[str, Any]
AT_ONCE = 1_000


def lines(owner_id: str) -> Iterator[Json]:
    """First how to check it, then rows by chain and number, then the checkpoints."""
    today, *earlier = key_lines(owner_id)
    made_before = Checkpoint.unscoped.filter(owner_id=owner_id).order_by("pk")
    last = made_before.values_list("pk", flat=True).last() or 0
    yield {
        "object": "ledger",
        "owner_id": owner_id,
        "public_key": today,
        "earlier_public_keys": earlier,
        "hash": "sha256 of each part as <length>:<bytes> - previous, chain, seq, at in microseconds"
        " since 1970, client_id, token_id, request_id, route, covered, record_count, size_bytes,"
        " then each pseudonym as 16 bytes; where record_digests is not null, then the text"
        " 'record digests' and each of them as 32 bytes; numbers as decimal text",
        "record_digests": "one for each pseudonym: HMAC-SHA256 of connection_id, stream and"
        " record_key, each as <length>:<bytes>, under the nonce that the server keeps until the"
        " record is erased",
    }
    for chain in Chain.unscoped.filter(owner_id=owner_id).order_by("chain"):
        rows = Disclosure.unscoped.filter(chain=chain.chain, seq__lte=chain.seq).order_by("seq")
        for row in rows.iterator(AT_ONCE):
            yield _row(row)
    # What is signed from here on names rows that are not here.
    for made in made_before.filter(pk__lte=last).iterator(AT_ONCE):
        heads = [[end.chain, end.seq, end.digest.hex()] for end in heads_in(made.heads)]
        yield {
            "object": "checkpoint",
            "at": made.at.isoformat(),
            "heads": heads,
            "note": made.note,
        }


def _row(row: Disclosure) -> Json:
    digests = row.record_digests
    return {
        "object": "disclosure",
        "chain": row.chain,
        "seq": row.seq,
        "at": row.at.isoformat(),
        "client_id": row.client_id,
        "token_id": row.token_id,
        "request_id": row.request_id,
        "route": row.route,
        "covered": row.covered,
        "record_count": row.record_count,
        "size_bytes": row.size_bytes,
        "pseudonyms": [str(each) for each in row.pseudonyms],
        "record_digests": None if digests is None else [bytes(each).hex() for each in digests],
        "previous": bytes(row.previous).hex(),
        "digest": bytes(row.digest).hex(),
    }
