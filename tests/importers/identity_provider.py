"""An authorization server for tests, whose access tokens Dovecot verifies by itself."""

import base64
import contextlib
import hashlib
import hmac
import json
import shutil
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from importers.authoring.https_server import Answer

KEY = b"a key that Dovecot and this server share"
CLIENT_ID, CLIENT_SECRET = "client-1234", "s3cret-client-value"
MECHANISMS = ("xoauth2", "oauthbearer")


def _encode(value: bytes) -> str:
    return base64.urlsafe_b64encode(value).decode().rstrip("=")


def access_token(user: str, *, lifetime: int = 3_600) -> str:
    """Return a JSON web token that Dovecot accepts for a user until it expires."""
    now = int(time.time())
    claims = {"sub": user, "iat": now - 60, "exp": now + lifetime}
    parts = ({"alg": "HS256", "typ": "JWT"}, claims)
    text = ".".join(_encode(json.dumps(part).encode()) for part in parts)
    return f"{text}.{_encode(hmac.digest(KEY, text.encode(), hashlib.sha256))}"


@dataclass
class IdentityProvider:
    """Gives tokens for codes of ``sign_in``. ``refusal`` is what it answers instead, if anything."""

    user: str
    url: str = ""
    lifetime: int = 3_600
    rotates: bool = False
    refusal: Answer | None = None
    issued: int = 0
    refresh_token: str = ""
    forms: list[dict[str, str]] = field(default_factory=list)
    _asked: dict[str, dict[str, str]] = field(default_factory=dict)

    def sign_in(self, address: str) -> dict[str, str]:
        """Return what the provider adds to the redirect URI after the owner signed in."""
        asked = dict(parse_qsl(urlsplit(address).query))
        assert (asked["client_id"], asked["response_type"]) == (CLIENT_ID, "code")
        assert asked["code_challenge_method"] == "S256"
        code = f"code-{len(self._asked)}"
        self._asked[code] = asked
        return {"state": asked["state"], "code": code}

    def answer(self, method: str, path: str, headers: dict[str, str], body: bytes) -> Answer:
        assert (method, path) == ("POST", "/token")
        form = dict(parse_qsl(body.decode()))
        self.forms.append(form)
        if self.refusal is not None:
            return self.refusal
        if (form["client_id"], form["client_secret"]) != (CLIENT_ID, CLIENT_SECRET):
            return refused("invalid_client", 401)
        if form["grant_type"] == "refresh_token":
            is_valid = form["refresh_token"] == self.refresh_token
        else:
            asked = self._asked.pop(form["code"], None)
            digest = hashlib.sha256(form["code_verifier"].encode()).digest()
            is_valid = asked is not None and asked["code_challenge"] == _encode(digest)
            is_valid = is_valid and asked["redirect_uri"] == form["redirect_uri"]  # type: ignore[index]
        return self._tokens(form["grant_type"]) if is_valid else refused("invalid_grant")

    def _tokens(self, grant_type: str) -> Answer:
        self.issued += 1
        token: dict[str, Any] = {
            "access_token": access_token(self.user, lifetime=self.lifetime),
            "token_type": "Bearer",
            "expires_in": self.lifetime,
        }
        if grant_type == "authorization_code" or self.rotates:
            self.refresh_token = token["refresh_token"] = f"refresh-{self.issued}-{self.user}"
        return _json(200, token)


def refused(error: str, status: int = 400) -> Answer:
    return _json(status, {"error": error, "error_description": "<b>words of a stranger</b>"})


def _json(status: int, content: dict[str, Any]) -> Answer:
    return status, {"Content-Type": "application/json"}, json.dumps(content).encode()


def answer_url(answer: dict[str, str]) -> str:
    return f"/accounts/signed-in?{urlencode(answer)}"


@contextlib.contextmanager
def token_settings(*mechanisms: str) -> Iterator[str]:
    """Yield the settings with which Dovecot accepts the tokens of this module."""
    base = Path(tempfile.mkdtemp(prefix="pdpp-tokens-", dir="/tmp"))
    base.chmod(0o755)
    keys = base / "default" / "HS256"
    keys.mkdir(parents=True)
    (keys / "default").write_text(base64.b64encode(KEY).decode())
    (base / "oauth2.conf").write_text(
        "introspection_mode = local\nusername_attribute = sub\n"
        f"local_validation_key_dict = fs:posix:prefix={base}/\n"
    )
    try:
        yield f"""
auth_mechanisms = plain {" ".join(mechanisms or MECHANISMS)}
passdb {{
  driver = oauth2
  mechanisms = {" ".join(MECHANISMS)}
  args = {base}/oauth2.conf
}}
"""
    finally:
        shutil.rmtree(base)
