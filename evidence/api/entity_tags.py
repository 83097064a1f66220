"""Entity tags of JSON responses, and parsing of `If-None-Match` (RFC 9110)."""

import hashlib

import orjson


def entity_tag(body: object) -> str:
    """Return the strong entity tag of a JSON body."""
    return f'"{hashlib.sha256(orjson.dumps(body)).hexdigest()[:32]}"'


def parse_entity_tags(header: str) -> set[str]:
    """Return the tags of an `If-None-Match` header, without weakness prefixes."""
    return {tag.strip().removeprefix("W/") for tag in header.split(",")}
