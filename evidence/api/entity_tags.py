"""Entity tags of JSON answers, and those that a request names (RFC 9110)."""

import hashlib

import orjson


def entity_tag(body: object) -> str:
    """A strong tag of what is sent."""
    return f'"{hashlib.sha256(orjson.dumps(body)).hexdigest()[:32]}"'


def tags(header: str) -> set[str]:
    """The tags of an ``If-None-Match``, which compares weakly."""
    return {tag.strip().removeprefix("W/") for tag in header.split(",")}
