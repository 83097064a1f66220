"""Number and chain new entries, and sign the heads of all chains as a transparency-log checkpoint.

A background job does so at least once a minute. The signed note has the log's origin, the number of
entries in all chains, and a hash over the heads. The signature is Ed25519. With the public key and an
older note, anyone can check a later export without this server: removing or rewriting signed entries
is detectable.
"""

import base64
import hashlib
from collections.abc import Iterator, Sequence
from datetime import datetime
from uuid import UUID

import orjson
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from django.conf import settings
from django.db import transaction
from django.utils import timezone

from evidence.access.crypto import key_for
from evidence.access.sql import SQL, fetch_all
from evidence.ledger.entries import GENESIS, ChainHead, chain_digest, is_sealed
from evidence.models.ledger import Checkpoint, Disclosure
from evidence.models.owners import current_owner, in_turn, owners_of

ED25519_KEY_TYPE = b"\x01"
"""Key type in a signed note."""
BATCH_SIZE = 10_000

TAKE_TURN = """
-- Wait until nobody else signs the ledger of an owner. Parameters: owner id. One query per checkpoint.
SELECT FROM evidence_owner WHERE owner_id = %s FOR NO KEY UPDATE
"""
NUMBER_ENTRIES = """
-- Give new entries their numbers and digests, once. Parameters: entry ids, numbers, digests, owner id.
-- One query per checkpoint.
UPDATE evidence_disclosure AS d SET seq = n.seq, digest = n.digest
FROM unnest(%s::uuid[], %s::bigint[], %s::bytea[]) AS n(entry_id, seq, digest)
WHERE d.owner_id = %s AND d.entry_id = n.entry_id
RETURNING d.seq
"""


def public_key() -> bytes:
    """Return the current public key (32 bytes)."""
    return _private_key().public_key().public_bytes_raw()


def public_keys() -> list[bytes]:
    """Return the current public key, then the previous ones."""
    previous = map(bytes.fromhex, settings.PDPP_ROTATED_KEYS.get("verifying", ()))
    return [*dict.fromkeys([public_key(), *previous])]


def verifier_keys(owner_id: str) -> list[str]:
    """Return the public keys as verifiers of signed notes (name+hash+key), the current key first."""
    return [_verifier_key(owner_id, key) for key in public_keys()]


def _verifier_key(owner_id: str, key: bytes) -> str:
    encoded = base64.b64encode(ED25519_KEY_TYPE + key).decode()
    return f"{_origin(owner_id)}+{_key_hash(owner_id, key).hex()}+{encoded}"


def sign_entries(owner_id: str, *, now: datetime) -> Checkpoint | None:
    """Number the new entries of an owner, and sign all chain heads. Returns None without new entries.

    Entries whose seal is wrong stay as they are, and `verify` reports them. Entries that are being
    written are numbered the next time: numbers follow no clock.
    """
    last = None
    while (signed := _sign_batch(owner_id, now)) is not None:
        last = signed
    return last


@transaction.atomic
def _sign_batch(owner_id: str, now: datetime) -> Checkpoint | None:
    fetch_all(SQL(TAKE_TURN, (owner_id,)))
    rows = Disclosure.unscoped.filter(owner_id=owner_id, seq=None).order_by("chain", "at", "pk")
    heads = {head.chain: head for head in chain_heads(owner_id)}
    numbered: list[tuple[UUID, int, bytes]] = []
    for row in rows.iterator(BATCH_SIZE):
        if not is_sealed(row):
            continue
        head = heads.get(row.chain) or ChainHead(row.chain, 0, GENESIS)
        digest = chain_digest(row, head.digest, head.seq + 1)
        heads[row.chain] = ChainHead(row.chain, head.seq + 1, digest)
        numbered.append((row.entry_id, head.seq + 1, digest))
        if len(numbered) == BATCH_SIZE:
            break
    if not numbered:
        return None
    columns = tuple(list(column) for column in zip(*numbered, strict=True))
    fetch_all(SQL(NUMBER_ENTRIES, (*columns, owner_id)))
    signed = [heads[chain] for chain in sorted(heads)]
    return Checkpoint.unscoped.create(
        owner_id=owner_id,
        at=now,
        size=sum(head.seq for head in signed),
        heads=_serialize(signed),
        note=signed_note(owner_id, signed),
    )


def last_checkpoint(owner_id: str) -> Checkpoint | None:
    return Checkpoint.unscoped.filter(owner_id=owner_id).order_by("-pk").first()


def last_note(owner_id: str) -> str | None:
    """Return the signed note of the latest checkpoint, if there is one."""
    last = last_checkpoint(owner_id)
    return None if last is None else last.note


def chain_heads(owner_id: str) -> list[ChainHead]:
    """Return the signed heads of the owner's chains, sorted by chain."""
    last = last_checkpoint(owner_id)
    return [] if last is None else parse_heads(last.heads)


def sign_all() -> Iterator[object]:
    """Sign the new entries of every owner in turn. One query across owners."""
    yield from in_turn(
        lambda: owners_of(lambda: Disclosure.unscoped.filter(seq=None)),
        lambda: [sign_entries(current_owner(), now=timezone.now())],
    )


def parse_heads(serialized: str) -> list[ChainHead]:
    """Parse the heads of a stored checkpoint. Return none if it was damaged."""
    try:
        return [ChainHead(str(chain), int(seq), bytes.fromhex(digest))
                for chain, seq, digest in orjson.loads(serialized)]  # fmt: skip
    except (TypeError, ValueError):
        return []


def signed_note(owner_id: str, heads: Sequence[ChainHead]) -> str:
    size = sum(head.seq for head in heads)
    root = base64.b64encode(_root(heads)).decode()
    text = f"{_origin(owner_id)}\n{size}\n{root}\n"
    signature = _key_hash(owner_id, public_key()) + _private_key().sign(text.encode())
    return f"{text}\n— {_origin(owner_id)} {base64.b64encode(signature).decode()}\n"


def is_signed(note: str, *, owner_id: str, heads: Sequence[ChainHead]) -> bool:
    """Return whether this installation signed exactly these heads."""
    text, _, signature = note.partition("\n\n")
    if f"{text}\n" != signed_note(owner_id, heads).partition("\n\n")[0] + "\n":
        return False
    try:
        raw = base64.b64decode(signature.rpartition(" ")[2])
    except ValueError:
        return False
    return any(_has_signed(key, raw[4:], f"{text}\n".encode()) for key in public_keys())


def _has_signed(key: bytes, signature: bytes, text: bytes) -> bool:
    try:
        Ed25519PublicKey.from_public_bytes(key).verify(signature, text)
    except InvalidSignature:
        return False
    return True


def _root(heads: Sequence[ChainHead]) -> bytes:
    return hashlib.sha256(_serialize(heads).encode()).digest()


def _serialize(heads: Sequence[ChainHead]) -> str:
    return orjson.dumps([[head.chain, head.seq, head.digest.hex()] for head in heads]).decode()


def _private_key() -> Ed25519PrivateKey:
    return Ed25519PrivateKey.from_private_bytes(key_for("ledger checkpoints"))


def _origin(owner_id: str) -> str:
    return f"pdpp-ledger/{owner_id}"


def _key_hash(owner_id: str, key: bytes) -> bytes:
    named_key = _origin(owner_id).encode() + b"\n" + ED25519_KEY_TYPE + key
    return hashlib.sha256(named_key).digest()[:4]
