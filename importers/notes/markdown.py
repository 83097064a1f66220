"""Find the title, tags, properties (YAML front matter) and creation of a Markdown note."""

import re
from collections.abc import Iterator
from datetime import datetime, tzinfo
from typing import Any

import yaml
from typing_extensions import override

from importers.core.dates import local_to_utc
from importers.core.results import ParsedItem, ReceiptCode
from importers.core.text import one_line
from importers.notes import records

FRONT_MATTER_MAX_CHARS = 64 * 1024
MAX_PROPERTIES = 200
_FENCE = re.compile(r"\A\ufeff?---[ \t]*\r?\n(.*?)^---[ \t]*(?:\r?\n|\Z)", re.S | re.M)
_CODE = re.compile(r"```.*?(?:```|\Z)|`[^`\n]*`", re.S)
_TAG = re.compile(r"(?:^|(?<=\s))#([\w/-]*[^\W\d_][\w/-]*)")
_TEMPLATE = re.compile(r"\{\{[^{}\n]*\}\}")


class _Loader(yaml.BaseLoader):
    """Reads every value as text. Refuses references, which can repeat a value very often."""

    @override
    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("references are not supported")
        return super().compose_node(parent, index)


def split_front_matter(text: str) -> tuple[dict[str, Any] | None, str]:
    """Return the properties and the rest of the text; None for properties that cannot be read."""
    match = _FENCE.match(text[:FRONT_MATTER_MAX_CHARS])
    if match is None:
        return {}, text
    try:
        properties = yaml.load(match[1].replace("\t", "  "), _Loader)  # noqa: S506 - all texts
    except (yaml.YAMLError, RecursionError, ValueError):
        return None, text
    if properties in (None, ""):
        properties = {}
    if not isinstance(properties, dict):
        return None, text
    return {str(name): value for name, value in properties.items()}, text[match.end() :]


def property_lines(properties: dict[str, Any]) -> list[str]:
    """Return a line such as ``status: done`` for each property."""
    lines = (f"{name}: {', '.join(_texts(value))}" for name, value in properties.items())
    return [one_line(line) for line in lines][:MAX_PROPERTIES]


def _texts(value: Any, depth: int = 0) -> Iterator[str]:
    if isinstance(value, dict):
        for name, member in value.items():
            yield f"{name} {' '.join(_texts(member, depth + 1))}" if depth < 20 else str(name)
    elif isinstance(value, list):
        for member in value if depth < 20 else ():
            yield from _texts(member, depth + 1)
    elif value:
        yield str(value)


def find_property(properties: dict[str, Any], *names: str) -> str | None:
    """Return the text of the first of these properties, whatever the case of its name."""
    by_name = {name.lower().strip(): value for name, value in properties.items()}
    values = (by_name.get(name) for name in names)
    found = (value for value in values if isinstance(value, str) and value.strip())
    return next((one_line(value) for value in found), None)


def listed_tags(properties: dict[str, Any]) -> list[str]:
    """Return the tags of the properties, which may be a list or one text."""
    tags: list[str] = []
    for name, value in properties.items():
        if name.lower().strip() in ("tags", "tag", "keywords"):
            for text in _texts(value):
                is_list = isinstance(value, list)
                tags += [text] if is_list else re.split(r"[,;]" if "," in text else r"\s+", text)
    return tags


def written_tags(text: str) -> list[str]:
    """Return the tags such as #home in a text, without those in code."""
    return _TAG.findall(_TEMPLATE.sub(" ", _CODE.sub(" ", text)))


_TITLE_LINES = 40
_CREATED = ("created", "date created", "created_at", "created at", "creation date", "date")


def describe_note(
    text: str, zone: tzinfo, item: ParsedItem
) -> tuple[str, str | None, dict[str, Any]]:
    """Return the text without its properties, the title if the note has one, and the details."""
    properties, body = split_front_matter(text)
    if properties is None:
        item.add_issue(ReceiptCode.BAD_PROPERTIES)
        properties = {}
    url = find_property(properties, "url", "source", "link")
    details = records.details(
        created_at=_created_at(properties, zone),
        tags=records.clean_tags([*listed_tags(properties), *written_tags(body)]),
        properties=property_lines(properties),
        url=url if url and url.startswith(("http://", "https://")) else None,
        author=find_property(properties, "author"),
    )
    return body, find_property(properties, "title") or first_heading(body), details


def first_heading(text: str) -> str | None:
    for line in text.splitlines()[:_TITLE_LINES]:
        if line.startswith("# "):
            return one_line(line[2:]) or None
    return None


def _created_at(properties: dict[str, Any], zone: tzinfo) -> str | None:
    """Return the creation, in the zone of the import if none is written; a day begins at midnight."""
    for name in _CREATED:
        if written := find_property(properties, name):
            try:
                return local_to_utc(datetime.fromisoformat(written), zone)
            except ValueError:
                continue
    return None
