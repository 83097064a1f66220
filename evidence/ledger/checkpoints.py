"""Sign all chain heads together as a transparency-log checkpoint.

The signed note has the log's origin, the number of entries in all chains, and a hash over the heads.
The signature is Ed25519. With the public key and an older note, anyone can check a later export
without this server: removing or rewriting signed entries is detectable.
"""

import base64
import hashlib
from collections.abc import Sequence
from datetime import datetime

import orjson
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from django.conf import settings
from django.db import transaction

from evidence.access.crypto import key_for
from evidence.ledger.entries import ChainHead, is_sealed, seal
from evidence.models.ledger import Chain, Checkpoint

ED25519_KEY_TYPE = b"\x01"
"""Key type in a signed note."""


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


def create_checkpoint(owner_id: str, *, now: datetime) -> Checkpoint | None:
    """Sign the current chain heads. Return None if they have not changed since the last checkpoint."""
    with transaction.atomic():
        heads = chain_heads(owner_id)
        serialized = _serialize(heads)
        last = Checkpoint.unscoped.filter(owner_id=owner_id).order_by("-pk").first()
        if not heads or (last is not None and last.heads == serialized):
            return None
        note = signed_note(owner_id, heads)
        return Checkpoint.unscoped.create(owner_id=owner_id, at=now, heads=serialized, note=note)


def last_note(owner_id: str) -> str | None:
    """Return the signed note of the latest checkpoint, if there is one."""
    notes = Checkpoint.unscoped.filter(owner_id=owner_id).order_by("-pk")
    return notes.values_list("note", flat=True).first()


def chain_heads(owner_id: str) -> list[ChainHead]:
    """Return the heads of the owner's chains, sorted by chain."""
    rows = Chain.unscoped.filter(owner_id=owner_id, seq__gt=0).order_by("chain")
    return [ChainHead(row.chain, row.seq, bytes(row.digest)) for row in rows]


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


@transaction.atomic
def reseal_chains() -> int:
    """Seal chain heads again with the current key, and return how many.

    A head with an invalid seal stays unchanged, so that `verify` reports it.
    """
    count = 0
    for row in Chain.unscoped.select_for_update().order_by("chain"):
        head, mark = ChainHead(row.chain, row.seq, bytes(row.digest)), bytes(row.seal)
        if is_sealed(head, mark) and mark != seal(head):
            row.seal = seal(head)
            row.save(update_fields=["seal"])
            count += 1
    return count
