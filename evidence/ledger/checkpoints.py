"""All chain ends, signed together, in the form of a transparency log's checkpoint.

The note has the log's origin, how many entries all chains hold, and a root over the ends; the
signature is Ed25519, so anybody who has kept the public key and an older note can check a later
export without asking this server. An end that a note names can never be taken back unnoticed.
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
from evidence.ledger.entries import Head, is_sealed, seal
from evidence.models.ledger import Chain, Checkpoint

ED25519 = b"\x01"
"""The kind of a key in a signed note."""


def public_key() -> bytes:
    """32 bytes, good for checking the notes that are signed now."""
    return _private_key().public_key().public_bytes_raw()


def public_keys() -> list[bytes]:
    """Those of every note of this installation: today's, and those it signed with before."""
    before = map(bytes.fromhex, settings.PDPP_ROTATED_KEYS.get("verifying", ()))
    return [*dict.fromkeys([public_key(), *before])]


def key_lines(owner_id: str) -> list[str]:
    """The public keys as verifiers of signed notes take them: name, hash and key; today's first."""
    return [_key_line(owner_id, key) for key in public_keys()]


def _key_line(owner_id: str, key: bytes) -> str:
    shown = base64.b64encode(ED25519 + key).decode()
    return f"{_origin(owner_id)}+{_key_hash(owner_id, key).hex()}+{shown}"


def checkpoint(owner_id: str, *, now: datetime) -> Checkpoint | None:
    """Signs the ends as they are now; None where nothing came since the last time."""
    with transaction.atomic():
        ends = heads(owner_id)
        told = _told(ends)
        last = Checkpoint.unscoped.filter(owner_id=owner_id).order_by("-pk").first()
        if not ends or (last is not None and last.heads == told):
            return None
        note = signed_note(owner_id, ends)
        return Checkpoint.unscoped.create(owner_id=owner_id, at=now, heads=told, note=note)


def heads(owner_id: str) -> list[Head]:
    """The ends of the owner's chains, by chain."""
    rows = Chain.unscoped.filter(owner_id=owner_id, seq__gt=0).order_by("chain")
    return [Head(row.chain, row.seq, bytes(row.digest)) for row in rows]


def heads_in(told: str) -> list[Head]:
    """What a checkpoint says the ends were; none where it was tampered with beyond reading."""
    try:
        return [Head(str(chain), int(seq), bytes.fromhex(digest))
                for chain, seq, digest in orjson.loads(told)]  # fmt: skip
    except (TypeError, ValueError):
        return []


def signed_note(owner_id: str, ends: Sequence[Head]) -> str:
    size = sum(end.seq for end in ends)
    root = base64.b64encode(_root(ends)).decode()
    text = f"{_origin(owner_id)}\n{size}\n{root}\n"
    signature = _key_hash(owner_id, public_key()) + _private_key().sign(text.encode())
    return f"{text}\n— {_origin(owner_id)} {base64.b64encode(signature).decode()}\n"


def is_signed(note: str, *, owner_id: str, ends: Sequence[Head]) -> bool:
    """Whether this installation signed exactly these ends."""
    text, _, signature = note.partition("\n\n")
    if f"{text}\n" != signed_note(owner_id, ends).partition("\n\n")[0] + "\n":
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


def _root(ends: Sequence[Head]) -> bytes:
    return hashlib.sha256(_told(ends).encode()).digest()


def _told(ends: Sequence[Head]) -> str:
    return orjson.dumps([[end.chain, end.seq, end.digest.hex()] for end in ends]).decode()


def _private_key() -> Ed25519PrivateKey:
    return Ed25519PrivateKey.from_private_bytes(key_for("ledger checkpoints"))


def _origin(owner_id: str) -> str:
    return f"pdpp-ledger/{owner_id}"


def _key_hash(owner_id: str, key: bytes) -> bytes:
    named = _origin(owner_id).encode() + b"\n" + ED25519 + key
    return hashlib.sha256(named).digest()[:4]


@transaction.atomic
def seal_anew() -> int:
    """Seals with today's key what an earlier one has sealed; how many ends. One that was not sealed
    here stays as it is, for ``verify`` to name."""
    count = 0
    for row in Chain.unscoped.select_for_update().order_by("chain"):
        head, mark = Head(row.chain, row.seq, bytes(row.digest)), bytes(row.seal)
        if is_sealed(head, mark) and mark != seal(head):
            row.seal = seal(head)
            row.save(update_fields=["seal"])
            count += 1
    return count
