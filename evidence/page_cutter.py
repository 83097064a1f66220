"""Serialize text as JSON, measure its bytes, and cut a page to byte limits: whole items, with only long texts cut.

Invisible, bidirectional and tag characters become JSON escapes: parsing gives the same values, and
readers of the raw text see that a character is there. Texts are cut between graphemes.

The REST API cuts pages with this module, so that cursors and the ledger count what was shown. The MCP
adapter uses it for what it renders itself. Pure functions; sizes are UTF-8 bytes of JSON.
"""

import json
import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache, partial, reduce
from itertools import count
from typing import Any, NamedTuple, TypeAlias, TypeVar

import orjson
import regex

from evidence import limits
from evidence.limits import WHOLE_VALUE_CHARS

_INVISIBLE = frozenset(
    chr(code) for first, last in limits.INVISIBLE for code in range(first, last + 1)
)
_VISIBLE_ASCII = bytes(range(0x7F))
_DELETE = frozenset("\x7f")
"""The only invisible ASCII character that JSON does not escape."""
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_GRAPHEME = regex.compile(r"\X")
_OTHER = regex.compile(r"\p{Grapheme_Cluster_Break=Other}")
_LONG_TEXT_CHARS = 50_000
_LOOK_BACK = 128
"""Far enough back for the start of any real cluster; only absurd ones and rows of flags are longer."""


def dumps(value: Any) -> str:
    """Serialize a value as one line of JSON, with invisible characters escaped."""
    content = _encode(value)
    text = content.decode()
    for character in _invisible(content):
        text = text.replace(character, _escape(character))
    return text


def _encode(value: Any) -> bytes:
    try:
        return orjson.dumps(value)
    except TypeError:
        # orjson refuses integers beyond 64 bits and lone surrogates.
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        return _LONE_SURROGATE.sub(lambda match: _escape(match[0]), text).encode()


def _invisible(content: bytes) -> frozenset[str]:
    """Return the invisible characters of UTF-8 text."""
    if content.isascii():
        return _DELETE if b"\x7f" in content else frozenset()
    return _INVISIBLE.intersection(content.translate(None, _VISIBLE_ASCII).decode())


def _escape(character: str) -> str:
    code = ord(character)
    if code <= 0xFFFF:
        return f"\\u{code:04x}"
    code -= 0x10000
    return f"\\u{0xD800 + (code >> 10):04x}\\u{0xDC00 + (code & 0x3FF):04x}"


class Size(NamedTuple):
    """Bytes in the structured channel and in the text channel."""

    structured: int
    text: int

    def plus(self, other: "Size") -> "Size":
        return Size(self.structured + other.structured, self.text + other.text)

    def fits(self, room: "Size") -> bool:
        return self.structured <= room.structured and self.text <= room.text


def sum_sizes(sizes: Iterable[Size]) -> Size:
    """Return the sum of sizes by channel."""
    return reduce(Size.plus, sizes, Size(0, 0))


def json_size(value: Any) -> int:
    """Return the UTF-8 bytes of the value as JSON, the unit of every budget."""
    is_long = isinstance(value, str) and len(value) > _LONG_TEXT_CHARS
    return _long_text_size(value) if is_long else _size(value)


@lru_cache(maxsize=4)
def _long_text_size(text: str) -> int:
    """Return the size of a long text, which fitting a page asks for at each length that it tries."""
    return _size(text)


def _size(value: Any) -> int:
    content = _encode(value)
    return len(dumps(value).encode() if _invisible(content) else content)


def wire_size(text: str) -> int:
    """Return the UTF-8 bytes of a text block in the response: a JSON string with its quotes."""
    return len(orjson.dumps(text))


def clip_bytes(text: str, max_bytes: int) -> str:
    """Cut text until its JSON takes at most `max_bytes`."""
    while json_size(text) > max_bytes:
        text = clip(text, len(text) * 3 // 4)
    return text


def clip(text: str, max_chars: int) -> str:
    """Cut text to `max_chars` characters, the last one an ellipsis if any were cut."""
    if len(text) <= max_chars:
        return text
    return f"{text[: grapheme_floor(text, max(max_chars - 1, 0))]}…"


def grapheme_floor(text: str, i: int) -> int:
    """Return the last grapheme boundary at or before `i`, or `i` if none is near."""
    before, _ = _boundaries(text, i)
    return before


def grapheme_ceil(text: str, i: int) -> int:
    """Return the first grapheme boundary at or after `i`, or `i` if none is near."""
    _, after = _boundaries(text, i)
    return after


def _boundaries(text: str, i: int) -> tuple[int, int]:
    if i <= 0 or i >= len(text):
        inside = min(max(i, 0), len(text))
        return inside, inside
    if _is_separate(text[i - 1]) and _is_separate(text[i]):
        return i, i
    start, limit = _certain_boundary(text, i), limits.WINDOW_GRAPHEME_CHARS
    # A slice, because in a row of flags the library looks back to the start of its input.
    for cluster in _GRAPHEME.finditer(text[start : i + limit + 1]):
        first, last = cluster.start() + start, cluster.end() + start
        if last == i:
            return i, i
        if last > i:
            return (first if i - first <= limit else i), (last if last - i <= limit else i)
    return i, i


def _certain_boundary(text: str, i: int) -> int:
    """Return a boundary before `i` from which to iterate over clusters."""
    furthest = max(0, i - _LOOK_BACK)
    for at in range(i - 1, furthest, -1):
        if _is_separate(text[at - 1]) and _is_separate(text[at]):
            return at
    return furthest


def _is_separate(character: str) -> bool:
    """Return whether the character never joins others like it: letters, ideographs, punctuation."""
    return " " <= character <= "~" or _OTHER.match(character) is not None


Json: TypeAlias = dict[str, Any]
Rendered = TypeVar("Rendered")
Cut: TypeAlias = Callable[[Json, int], Json]
"""Returns an item with its long texts cut to a number of characters, or the same object if none is."""
DescribeRead: TypeAlias = Callable[[Json, str], Json]
"""Returns how to read a field of a record."""

MIN_PREVIEW_CHARS = 120
UNUSED_PART = 32
"""Cut texts may leave one part in so many of the room unused, which saves most of the steps."""
MIN_EXCERPT_CHARS, MIN_TITLE_BYTES = 32, 60
MAX_OMITTED_NAMES = 10
SHRUNK_CHARS, MIN_SHRUNK_CHARS = 2_000, 60
"""Range of the length of each text of a search hit that exceeds the limits alone."""
_NESTED = (dict, list)
_IDENTITY = frozenset({"stream", "record_key", "connection_id", "result_id", "field_path"})
_SMALL_FIELD_BYTES, _SMALL_PREVIEW_CHARS = 320, 40


def largest_that_fits(
    maximum: int, *, render: Callable[[int], Rendered], fits: Callable[[Rendered], bool]
) -> Rendered | None:
    """Return `render(n)` for the largest n from 0 to `maximum` that fits, or None.

    Tries `maximum`, which usually fits, then bisects: a smaller n must not render larger, except for
    the few characters that keep a grapheme whole.
    """
    minimum, largest, guess = 0, None, maximum
    while minimum <= maximum:
        rendered = render(guess)
        if fits(rendered):
            minimum, largest = guess + 1, rendered
        else:
            maximum = guess - 1
        guess = (minimum + maximum + 1) // 2
    return largest


def fit_page(
    items: Sequence[Json],
    room: Size,
    *,
    measure: Callable[[Json], Size],
    cut: Cut,
    shrink: Callable[[Json, Callable[[Json], bool]], Json],
) -> list[Json]:
    """Return the first items that fit with their long texts cut, then with these as long as possible.

    A first item that does not fit even so is the only one, as `shrink(item, fits)` returns it.
    """
    used = Size(0, 0)
    shortest: list[tuple[Json, Size]] = []
    for item in items:
        short = cut(item, 0)
        size = measure(short)
        used = used.plus(size)
        if not used.fits(room):
            break
        shortest.append((short, size))
    if not shortest and items:
        return [shrink(items[0], lambda item: measure(item).fits(room))]
    return _lengthen(items, shortest, room, measure=measure, cut=cut)


def _lengthen(
    items: Sequence[Json],
    shortest: Sequence[tuple[Json, Size]],
    room: Size,
    *,
    measure: Callable[[Json], Size],
    cut: Cut,
) -> list[Json]:
    """Return the items of a page with their cut texts as long as fit, all of the same length.

    `shortest` has the items with the shortest texts, and their sizes.
    """
    pairs = list(zip(items, shortest, strict=False))
    long = [item for item, (short, _) in pairs if short is not item]
    if not long:
        return [item for item, _ in pairs]
    fixed = sum_sizes(size for item, (short, size) in pairs if short is item)

    def render(chars: int) -> list[Json]:
        return [cut(item, chars) for item in long]

    def excess(rendered: list[Json]) -> int:
        size = fixed.plus(sum_sizes(map(measure, rendered)))
        beyond = max(size.structured - room.structured, size.text - room.text)
        return beyond if beyond > 0 or -beyond > min(room) // UNUSED_PART else 0

    values = [value for item in long for name, value in item.items() if name != "data"]
    values += [value for item in long for value in (item.get("data") or {}).values()]
    lengths = (len(value) if isinstance(value, str) else len(dumps(value)) for value in values)
    # More characters than the room has bytes never fit, and no text is longer than its value.
    maximum = min(max(*room, 0), max(lengths))
    lengthened = _longest(maximum, render=render, excess=excess)
    return [item if short is item else lengthened.pop(0) for item, (short, _) in pairs]


def _longest(
    maximum: int, *, render: Callable[[int], Rendered], excess: Callable[[Rendered], int]
) -> Rendered:
    """Return `render(n)` for the largest n to `maximum` without an excess, or one whose excess is 0.

    `render(0)` has none. The excess grows almost linearly with n, so that a line between the nearest
    two finds n in a few steps; each third step bisects.
    """
    fitting, best = 0, render(0)
    room = -excess(best)
    too_long, over = maximum + 1, 0
    for step in count():
        if too_long - fitting <= 1 or not room:
            break
        guess = fitting + (too_long - fitting) * room // max(1, room + over)
        guess = guess if step % 3 else (fitting + too_long) // 2
        guess = min(max(guess, fitting + 1), too_long - 1) if step else maximum
        rendered = render(guess)
        beyond = excess(rendered)
        if beyond > 0:
            too_long, over = guess, beyond
        else:
            fitting, best, room = guess, rendered, -beyond
    return best


def cut_record(record: Json, chars: int, *, describe_read: DescribeRead) -> Json:
    """Return a record, and its expanded records, with each long value cut to `chars` characters.

    A value of up to WHOLE_VALUE_CHARS is never cut. A cut text becomes the descriptor of a field
    window with its beginning as preview.
    """
    data: Json = record.get("data") or {}
    chars = max(chars, MIN_PREVIEW_CHARS)
    cut_values = {
        name: shorter
        for name, value in data.items()
        if (len(value) > WHOLE_VALUE_CHARS if type(value) is str else type(value) in _NESTED)
        and (shorter := _cut_value(record, name, value, chars, describe_read)) is not value
    }
    changes: Json = {"data": {**data, **cut_values}} if cut_values else {}
    if record.get("expanded"):
        changes["expanded"] = {
            name: _cut_related(body, chars, describe_read)
            for name, body in record["expanded"].items()
        }
    return {**record, **changes} if changes else record


def _cut_related(body: Any, chars: int, describe_read: DescribeRead) -> Any:
    if not isinstance(body, dict):
        return body
    if body.get("object") == "list":
        children = [cut_record(child, chars, describe_read=describe_read) for child in body["data"]]
        return {**body, "data": children}
    return cut_record(body, chars, describe_read=describe_read)


def _cut_value(record: Json, name: str, value: Any, chars: int, describe_read: DescribeRead) -> Any:
    if isinstance(value, str):
        is_long = len(value) > max(chars, WHOLE_VALUE_CHARS)
        return describe(record, name, value, chars, describe_read) if is_long else value
    if not isinstance(value, dict | list) or is_window_descriptor(value):
        return value
    is_long = len(dumps(value)) > max(chars, WHOLE_VALUE_CHARS)
    return describe(record, name, value, MIN_PREVIEW_CHARS, describe_read) if is_long else value


def is_window_descriptor(value: Any) -> bool:
    """Return whether a large field was replaced by the descriptor of a window of it."""
    return isinstance(value, dict) and value.get("object") == "field_window_read"


def describe(record: Json, name: str, value: Any, chars: int, describe_read: DescribeRead) -> Json:
    """Return the descriptor of a field that is not shown whole."""
    if is_window_descriptor(value):
        preview = str(value.get("preview", ""))
        return {**value, "preview": preview[: grapheme_floor(preview, chars)]}
    descriptor: Json = {"object": "field_window_read", "truncated": True, "field": name}
    text = value
    if isinstance(value, _NESTED):
        descriptor["type"] = "object" if isinstance(value, dict) else "array"
        # As evidence.api.views.record serializes it, whose offsets and size are meant.
        text = json.dumps(value, ensure_ascii=False)
    if isinstance(text, str):
        descriptor["total_chars"] = len(text)
        descriptor["preview"] = text[: grapheme_floor(text, chars)]
    return {
        **descriptor,
        "total_bytes": len(text.encode()) if isinstance(value, _NESTED) else json_size(value),
        "read": describe_read(record, name),
    }


def shrink_record(
    record: Json,
    fits: Callable[[Json], bool],
    *,
    order: Sequence[str] = (),
    describe_read: DescribeRead,
) -> Json:
    """Return a record that exceeds the limits alone, with as much as fits.

    First its expanded lists end early, then its expanded records lose their last fields. Then the
    fields in `order`, key and roles first, stay whole, the others become descriptors, and fields for
    which even these have no room are counted.
    """
    record = cut_record(record, 0, describe_read=describe_read)
    record = _shorten_lists(record, fits)
    if not fits(record):
        record = _shorten_children(record, fits)
    if fits(record):
        return record
    data: Json = record.get("data") or {}
    names = [*(name for name in order if name in data), *(n for n in data if n not in order)]

    def keep_whole(count: int) -> Json:
        whole = set(names[:count])
        shown = {
            name: value
            if name in whole or json_size(value) <= _SMALL_FIELD_BYTES
            else describe(record, name, value, _SMALL_PREVIEW_CHARS, describe_read)
            for name, value in data.items()
        }
        return {**record, "data": shown}

    shrunk = largest_that_fits(len(names) - 1, render=keep_whole, fits=fits)
    return shrunk or _omit_last(keep_whole(0), names, fits)


def _omit_last(record: Json, names: Sequence[str], fits: Callable[[Json], bool]) -> Json:
    """Return the record with as many of its fields, in the order of `names`, as fit."""
    data = record["data"]

    def keep(count: int) -> Json:
        kept = set(names[:count])
        shown = {name: value for name, value in data.items() if name in kept}
        omitted = [name for name in data if name not in kept]
        return {**record, "data": shown, **_omitted_fields(record, omitted)}

    return largest_that_fits(len(names), render=keep, fits=fits) or keep(0)


def cut_group(group: Json, max_bytes: int) -> Json:
    """Return a group of an aggregate with each key of at most `max_bytes`, marked if one was cut."""
    keys = group["keys"] if "keys" in group else [group.get("key")]
    shorter = [clip_bytes(key, max_bytes) if isinstance(key, str) else key for key in keys]
    if shorter == keys:
        return group
    return {**group, **group_keys(shorter), "cut": True}


def group_keys(keys: Sequence[Any]) -> Json:
    """Return the key of a group, or ``keys`` of several and one ``key`` that joins their texts."""
    if len(keys) == 1:
        return {"key": keys[0]}
    texts = (key if isinstance(key, str) else json.dumps(key) for key in keys)
    return {"key": ", ".join(texts), "keys": list(keys)}


BEFORE_MATCH = 3
"""One part in so many of the context of a match stands before it: answers mostly follow."""
_WORD_START = re.compile(r"(?<=\s)(?=\S)")


def cut_hit(hit: Json, chars: int) -> Json:
    """Return a search hit with its title and its excerpt cut to about `chars` characters.

    A title that shows the match stays whole, because the excerpt is then left out of the text.
    """
    hit = _cut_excerpt(hit, chars)
    title, excerpts = hit.get("title"), hit["evidence_excerpts"]
    shown = str(excerpts[0].get("preview_text", "")) if excerpts else ""
    if not title or shown.replace("<mark>", "").replace("</mark>", "").strip("…") in title:
        return hit
    shorter = clip_bytes(title, max(chars, MIN_TITLE_BYTES))
    return hit if shorter == title else {**hit, "title": shorter}


def _cut_excerpt(hit: Json, chars: int) -> Json:
    """Return a search hit with its excerpt cut around the first match, the only one then marked."""
    excerpts = hit["evidence_excerpts"]
    chars = max(chars, MIN_EXCERPT_CHARS)
    preview = excerpts[0].get("preview_text", "") if len(excerpts) == 1 else ""
    if "<mark>" not in preview or "plain_text" in excerpts[0]:
        return hit
    before, rest = preview.split("<mark>", 1)
    match, after = rest.split("</mark>", 1)
    after = after.replace("<mark>", "").replace("</mark>", "")
    context = max(chars - len(match), chars // 2)
    if len(before) + len(after) <= context:
        return hit
    kept = max(context // BEFORE_MATCH, context - len(after))
    if len(before) > kept:
        start = grapheme_floor(before, len(before) - kept)
        word = _WORD_START.search(before, start)
        before = f"…{before[word.end() if word else start :]}"
    shorter = f"{before}<mark>{match}</mark>{clip(after, context - kept)}"
    return {**hit, "evidence_excerpts": [{**excerpts[0], "preview_text": shorter}]}


def shrink_hit(hit: Json, fits: Callable[[Json], bool]) -> Json:
    """Return a search hit without the last excerpts, until it fits, and cut its texts at last."""
    while not fits(hit) and len(hit["evidence_excerpts"]) > 1:
        hit = {**hit, "evidence_excerpts": hit["evidence_excerpts"][:-1]}
    if fits(hit):
        return hit
    shorter = largest_that_fits(
        SHRUNK_CHARS, render=lambda chars: {**_clip_strings(hit, chars), "cut": True}, fits=fits
    )
    return shorter or {**hit, "evidence_excerpts": []}


def _clip_strings(value: Any, max_chars: int) -> Any:
    if isinstance(value, str):
        return clip(value, max(max_chars, MIN_SHRUNK_CHARS))
    if isinstance(value, dict):
        return {
            name: member if name in _IDENTITY else _clip_strings(member, max_chars)
            for name, member in value.items()
        }
    if isinstance(value, list):
        return [_clip_strings(member, max_chars) for member in value]
    return value


def _omitted_fields(record: Json, names: Sequence[str]) -> Json:
    all_names = [name[:64] for name in [*names, *record.get("omitted_fields", [])]]
    return {
        "omitted_fields": all_names[:MAX_OMITTED_NAMES],
        "omitted_field_count": record.get("omitted_field_count", 0) + len(names),
    }


def _shorten_lists(record: Json, fits: Callable[[Json], bool]) -> Json:
    """Return the record with the longest prefix of its expanded lists that fits, or with none."""
    relations = record.get("expanded") or {}
    sizes = [len(body["data"]) for body in relations.values() if _is_list(body)]
    if not sizes:
        return record

    def keep(count: int) -> Json:
        shorter = {
            name: {
                **body,
                "data": body["data"][:count],
                "has_more": body.get("has_more", False) or len(body["data"]) > count,
            }
            if _is_list(body)
            else body
            for name, body in relations.items()
        }
        return {**record, "expanded": shorter}

    return largest_that_fits(max(sizes), render=keep, fits=fits) or keep(0)


def _shorten_children(record: Json, fits: Callable[[Json], bool]) -> Json:
    """Return the record with as many fields of each single expanded record as fit, or with none."""
    relations = record.get("expanded") or {}
    children = {name: body for name, body in relations.items() if body and not _is_list(body)}

    def keep(name: str, count: int) -> Json:
        fields = list(children[name]["data"].items())
        child = {**children[name], "data": dict(fields[:count])}
        omitted = [field for field, _ in fields[count:]]
        members = _omitted_fields(child, omitted) if omitted else {}
        return {**record, "expanded": {**record["expanded"], name: {**child, **members}}}

    for name in children:
        record = keep(name, 0)
    for name, child in children.items():
        render = partial(keep, name)
        record = largest_that_fits(len(child["data"]), render=render, fits=fits) or record
    return record


def _is_list(body: Any) -> bool:
    return isinstance(body, dict) and body.get("object") == "list"
