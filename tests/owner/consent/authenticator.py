"""A passkey in software, which can also answer wrongly."""

import hashlib
import os
from dataclasses import dataclass, field
from typing import Any

import orjson
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from fido2.cose import ES256
from fido2.utils import websafe_decode, websafe_encode
from fido2.webauthn import AttestationObject, AttestedCredentialData, AuthenticatorData

ORIGIN = "https://records.example"
PRESENT, VERIFIED, ATTESTED = 1, 4, 64


@dataclass
class Authenticator:
    """Answers options as a browser at ``origin`` does. ``count`` stays 0 if it has no counter."""

    origin: str = ORIGIN
    party: str = "records.example"
    has_counter: bool = True
    count: int = 0
    flags: int = PRESENT
    credential_id: bytes = field(default_factory=lambda: os.urandom(32))
    key: ec.EllipticCurvePrivateKey = field(
        default_factory=lambda: ec.generate_private_key(ec.SECP256R1())
    )

    def create(self, options: dict[str, Any]) -> str:
        """The JSON of a new credential."""
        public = ES256.from_cryptography_key(self.key.public_key())
        attested = AttestedCredentialData.create(bytes(16), self.credential_id, public)
        data = self._data(self.flags | ATTESTED, attested)
        attestation = AttestationObject.create("none", data, {})
        client = self._client("webauthn.create", options)
        return self._json(clientDataJSON=client, attestationObject=bytes(attestation))

    def get(self, options: dict[str, Any]) -> str:
        """The JSON of an assertion."""
        data = self._data(self.flags)
        client = self._client("webauthn.get", options)
        signed = bytes(data) + hashlib.sha256(client).digest()
        signature = self.key.sign(signed, ec.ECDSA(hashes.SHA256()))
        return self._json(clientDataJSON=client, authenticatorData=bytes(data), signature=signature)

    def _data(self, flags: int, attested: bytes = b"") -> AuthenticatorData:
        self.count += self.has_counter
        party = hashlib.sha256(self.party.encode()).digest()
        return AuthenticatorData.create(party, flags, self.count, attested)

    def _client(self, kind: str, options: dict[str, Any]) -> bytes:
        challenge = websafe_encode(websafe_decode(options["challenge"]))
        return orjson.dumps({"type": kind, "challenge": challenge, "origin": self.origin})

    def _json(self, **response: bytes) -> str:
        encoded = {name: websafe_encode(value) for name, value in response.items()}
        credential_id = websafe_encode(self.credential_id)
        whole = {"id": credential_id, "rawId": credential_id, "type": "public-key"}
        return orjson.dumps({**whole, "response": encoded}).decode()
