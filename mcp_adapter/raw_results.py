"""Results that are written as JSON once, by us, and put into the answer as they are.

The SDK would copy and write a result again, several times the cost of making it. Over HTTP it is
given a stand-in instead, and the sender puts the result where the stand-in came out. The stand-in
holds a random word, so that nothing a client sends can look like it.
"""

import json
import secrets
from collections.abc import MutableMapping
from typing import Any

import orjson

_KEY = "mcp_adapter.raw_result"


def handed_over(raw: str, scope: MutableMapping[str, Any] | None) -> dict[str, Any]:
    """What to give the SDK for a result: a stand-in over HTTP, the result itself otherwise."""
    if scope is None:
        result: dict[str, Any] = json.loads(raw)
        return result
    stand_in = {"raw": secrets.token_hex(8)}
    scope[_KEY] = (orjson.dumps(stand_in), raw.encode())
    return stand_in


def restored(content: bytes, scope: MutableMapping[str, Any]) -> bytes | None:
    """The answer with the result in the place of its stand-in; None if it has none."""
    stand_in, raw = scope.get(_KEY, (b"", b""))
    before, found, after = content.partition(stand_in) if stand_in else (content, b"", b"")
    return before + raw + after if found else None
